"""`bayplan kubelet`: a node of any cluster, with kubelet's flags and configuration file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from bayplan.cli.flags.configuration_flags import field_options, given_fields, put_field
from bayplan.cli.flags.feature_gates import gates_of, gates_without_effect
from bayplan.cli.flags.kube_command import KubeCommand
from bayplan.cli.flags.kube_flag_tables import KUBELET
from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from bayplan.api.types import core_v1
    from bayplan.client import Client
    from bayplan.cluster.kubelet_node.options import NodeOptions
    from bayplan.kubelet.configuration import KubeletConfiguration
    from bayplan.kubelet.node.certificates import Certificate
    from bayplan.kubelet.runtime.interface import Runtime
    from bayplan.support.clock import Clock

F = TypeVar("F", bound=Callable[..., Any])

_CONFIGURED: Final = {
    "--address": ("address", str, "Address on which the kubelet's server listens."),
    "--port": ("port", int, "Port of the kubelet's server."),
    "--healthz-port": ("healthzPort", int, "Port for health checks on this machine; 0: none."),
    "--healthz-bind-address": ("healthzBindAddress", str, "Address for health checks."),
    "--container-runtime-endpoint": (
        "containerRuntimeEndpoint",
        str,
        "Socket of the container runtime, such as unix:///run/containerd/containerd.sock.",
    ),
    "--image-service-endpoint": ("imageServiceEndpoint", str, "Socket of the image service, if it is another one."),
    "--pod-manifest-path": ("staticPodPath", str, "Directory (or file) with static pods."),
    "--cluster-domain": ("clusterDomain", str, "Domain of the cluster, such as cluster.local."),
    "--cgroup-driver": ("cgroupDriver", str, "cgroupfs or systemd."),
    "--cgroup-root": ("cgroupRoot", str, "Cgroup below which all of the node's pods are."),
    "--max-pods": ("maxPods", int, "Pods that the node takes at most."),
    "--client-ca-file": ("authentication.x509.clientCAFile", str, "Authority of clients' certificates."),
    "--authorization-mode": ("authorization.mode", str, "Webhook or AlwaysAllow."),
    "--tls-cert-file": ("tlsCertFile", str, "Certificate of the kubelet's server."),
    "--tls-private-key-file": ("tlsPrivateKeyFile", str, "Key of that certificate."),
    "--resolv-conf": ("resolvConf", str, "The node's resolv.conf, for pods that do not use the cluster's DNS."),
    "--cpu-manager-policy": ("cpuManagerPolicy", str, "none, or static: Guaranteed pods get whole CPUs of their own."),
    "--memory-manager-policy": (
        "memoryManagerPolicy",
        str,
        "None, or Static: Guaranteed pods get memory of few NUMA nodes.",
    ),
    "--topology-manager-policy": (
        "topologyManagerPolicy",
        str,
        "none, best-effort, restricted or single-numa-node: how near CPUs, memory and devices must be to each other.",
    ),
    "--topology-manager-scope": ("topologyManagerScope", str, "container or pod: of what these must be near."),
    "--reserved-cpus": (
        "reservedSystemCPUs",
        str,
        "CPUs that the system keeps, such as 0,2-3, in the place of the cpu of --system-reserved and --kube-reserved.",
    ),
    "--provider-id": ("providerID", str, "Identity of the machine at a cloud."),
    "--authentication-token-webhook-cache-ttl": (
        "authentication.webhook.cacheTTL",
        str,
        "How long it is remembered whose a bearer token is.",
    ),
    "--authorization-webhook-cache-authorized-ttl": (
        "authorization.webhook.cacheAuthorizedTTL",
        str,
        "How long it is remembered that a request is allowed.",
    ),
    "--authorization-webhook-cache-unauthorized-ttl": (
        "authorization.webhook.cacheUnauthorizedTTL",
        str,
        "How long it is remembered that a request is not allowed.",
    ),
    "--container-log-max-files": ("containerLogMaxFiles", int, "Log files that are kept of a container."),
    "--container-log-max-size": ("containerLogMaxSize", str, "Size at which a log file is rotated, such as 10Mi."),
    "--cpu-cfs-quota-period": ("cpuCFSQuotaPeriod", str, "Period of limits of CPU, such as 100ms."),
    "--eviction-max-pod-grace-period": (
        "evictionMaxPodGracePeriod",
        int,
        "Seconds that pods get at most when a soft threshold evicts them.",
    ),
    "--eviction-pressure-transition-period": (
        "evictionPressureTransitionPeriod",
        str,
        "How long pressure has to be over before the node says so.",
    ),
    "--file-check-frequency": ("fileCheckFrequency", str, "How often static pods are looked for."),
    "--image-gc-high-threshold": ("imageGCHighThresholdPercent", int, "Use of the disk (percent) at which images go."),
    "--image-gc-low-threshold": ("imageGCLowThresholdPercent", int, "Use of the disk (percent) down to which they go."),
    "--minimum-image-ttl-duration": ("imageMinimumGCAge", str, "Age that an unused image must have to go."),
    "--node-status-max-images": ("nodeStatusMaxImages", int, "Images in the node's status; -1 for all."),
    "--node-status-update-frequency": ("nodeStatusUpdateFrequency", str, "How often the node's status is looked at."),
    "--oom-score-adj": ("oomScoreAdj", int, "How ready the kernel is to end the kubelet when memory ends."),
    "--pod-cidr": ("podCIDR", str, "Network of the pods, for a node without an API server."),
    "--pod-max-pids": ("podPidsLimit", int, "Processes that a pod may have; -1 for as many as the node."),
    "--pods-per-core": ("podsPerCore", int, "Pods that the node takes per CPU; 0 for no such limit."),
    "--registry-burst": ("registryBurst", int, "Images that may be pulled at once beyond --registry-qps."),
    "--registry-qps": ("registryPullQPS", int, "Images that are pulled per second at most; 0 for no limit."),
    "--runtime-request-timeout": ("runtimeRequestTimeout", str, "How long the runtime may take for a request."),
}
"""Flags that stand for a field of the configuration: name -> (field, type, help)."""
_SWITCHES: Final = {
    "--fail-cgroupv1": ("failCgroupV1", "Refuse machines with cgroup version 1."),
    "--rotate-certificates": ("rotateCertificates", "Renew the client certificate before it ends."),
    "--register-node": ("registerNode", "Bring the node into the API."),
    "--anonymous-auth": ("authentication.anonymous.enabled", "Take requests without credentials."),
    "--authentication-token-webhook": (
        "authentication.webhook.enabled",
        "Take bearer tokens that the API server knows.",
    ),
    "--serialize-image-pulls": ("serializeImagePulls", "Pull one image at a time."),
    "--seccomp-default": ("seccompDefault", "Give all pods the runtime's seccomp profile."),
    "--fail-swap-on": ("failSwapOn", "Refuse machines that swap."),
    "--cgroups-per-qos": ("cgroupsPerQOS", "Make cgroups of QoS classes and pods."),
    "--cpu-cfs-quota": ("cpuCFSQuota", "Enforce limits of CPU."),
    "--enable-controller-attach-detach": (
        "enableControllerAttachDetach",
        "Leave attaching volumes to the controller manager.",
    ),
    "--enable-debugging-handlers": ("enableDebuggingHandlers", "Serve logs, exec, attach and port forwarding."),
    "--enable-server": ("enableServer", "Serve at all."),
    "--local-storage-capacity-isolation": (
        "localStorageCapacityIsolation",
        "Account for ephemeral storage, and evict pods that take too much.",
    ),
    "--rotate-server-certificates": ("serverTLSBootstrap", "Ask the API for the server's certificate."),
}
_LISTS: Final = {
    "--allowed-unsafe-sysctls": (
        "allowedUnsafeSysctls",
        "Sysctls that pods may set besides the safe ones, with commas.",
    ),
    "--cluster-dns": ("clusterDNS", "Addresses of the cluster's DNS, with commas."),
    "--enforce-node-allocatable": (
        "enforceNodeAllocatable",
        "What is kept within what pods get: none, or of pods, system-reserved, kube-reserved, with commas.",
    ),
}
_MAPS: Final = {
    "--system-reserved": ("systemReserved", "What the system keeps, such as cpu=100m,memory=200Mi."),
    "--kube-reserved": ("kubeReserved", "What Kubernetes itself keeps."),
    "--eviction-hard": ("evictionHard", "Thresholds of evictions, such as memory.available<100Mi."),
    "--eviction-soft": ("evictionSoft", "Thresholds that may be passed for some time."),
    "--eviction-soft-grace-period": ("evictionSoftGracePeriod", "That time, such as memory.available=1m30s."),
    "--eviction-minimum-reclaim": (
        "evictionMinimumReclaim",
        "How much more is to be freed, such as memory.available=0Mi.",
    ),
    "--cpu-manager-policy-options": ("cpuManagerPolicyOptions", "How it chooses CPUs, such as full-pcpus-only=true."),
    "--topology-manager-policy-options": (
        "topologyManagerPolicyOptions",
        "How it weighs NUMA nodes, such as prefer-closest-numa-nodes=true.",
    ),
    "--feature-gates": ("featureGates", "Features to switch on or off, such as A=true,B=false."),
}


def _with_flags(function: F) -> F:
    function = field_options(values=_CONFIGURED, switches=_SWITCHES, texts={**_LISTS, **_MAPS})(function)
    function = click.option(
        "--cpu-manager-reconcile-period",
        default=None,
        help="How often containers are moved to the CPUs that they are to run on, such as 10s.",
    )(function)
    function = click.option(
        "--reserved-memory",
        multiple=True,
        help="Memory of a NUMA node that the system keeps, such as 0:memory=1Gi,hugepages-1Gi=2Gi; may be given several times.",
    )(function)
    return click.option("--register-with-taints", default=None, help="Taints KEY=VALUE:EFFECT, with commas.")(function)


@click.command(cls=KubeCommand, table=KUBELET)
@click.option("--config", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="KubeletConfiguration.")
@click.option(
    "--config-dir", type=click.Path(path_type=Path, exists=True, file_okay=False), help="More of it, in files *.conf."
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="How to reach the API server.  [default: $KUBECONFIG, then ~/.kube/config]",
)
@click.option(
    "--bootstrap-kubeconfig",
    type=click.Path(path_type=Path),
    help="With it, a certificate is asked for, and --kubeconfig written, unless that is there.",
)
@click.option(
    "--root-dir",
    type=click.Path(path_type=Path),
    default=Path("/var/lib/kubelet"),
    show_default=True,
    help="Directory of volumes and own files.",
)
@click.option(
    "--cert-dir",
    type=click.Path(path_type=Path),
    default=None,
    help="Directory of certificates.  [default: pki below --root-dir]",
)
@click.option("--pod-log-dir", "pod_logs", default=None, help="Directory of pods' logs (podLogsDir).")
@click.option(
    "--container-log-dir",
    type=click.Path(path_type=Path),
    default=Path("/var/log/containers"),
    show_default=True,
    help="Directory of links to logs.",
)
@click.option(
    "--image-credential-provider-config",
    type=click.Path(path_type=Path),
    default=None,
    help="CredentialProviderConfig (or a directory of them): plugins that log in to registries.",
)
@click.option(
    "--image-credential-provider-bin-dir",
    type=click.Path(path_type=Path),
    default=None,
    help="Directory of these plugins.",
)
@click.option("--hostname-override", default="", help="Name of the node.  [default: the machine's]")
@click.option("--node-ip", default="", help="Addresses of the node, one of each family, with a comma.")
@click.option("--node-labels", default="", help="Labels KEY=VALUE of the node, with commas.")
@_with_flags
@click.option("--v", "v", type=int, default=0, help="Log verbosity, as in Kubernetes.")
def command(config: Path | None, config_dir: Path | None, kubeconfig: Path | None, **options: Any) -> None:
    """Run a node of any cluster, Bayplan's or a real one, on this machine."""
    from bayplan.client.errors import KubeconfigError
    from bayplan.cluster.errors import ClusterError
    from bayplan.kubelet.cgroups.errors import CgroupError
    from bayplan.kubelet.errors import KubeletError
    from bayplan.kubelet.images.credential_plugins import CredentialProviderConfigError
    from bayplan.kubelet.node.certificate_requests import CertificateError
    from bayplan.support.logging import set_up_logging
    from bayplan.support.loop import run_loop

    plugin_config, plugin_directory = (options[f"image_credential_provider_{name}"] for name in ("config", "bin_dir"))
    if (plugin_config is None) != (plugin_directory is None):
        raise click.UsageError(
            "--image-credential-provider-config and --image-credential-provider-bin-dir are needed together"
        )
    set_up_logging(verbosity=options["v"])
    if os.geteuid() != 0:
        raise Failure("bayplan kubelet needs root: it mounts volumes and makes cgroups")
    try:
        configuration = _configuration(config, config_dir, options)
        run_loop(_run(configuration, kubeconfig, options))
    except ImportError as error:
        raise Failure(str(error)) from error
    except (
        ClusterError,
        CgroupError,
        KubeletError,
        KubeconfigError,
        CertificateError,
        CredentialProviderConfigError,
    ) as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"{error.filename or 'kubelet'}: {error.strerror or error}") from error


async def _run(configuration: KubeletConfiguration, kubeconfig: Path | None, options: dict[str, Any]) -> None:
    from bayplan.cli.clusters.stopping import stop_event
    from bayplan.cli.connect import connect, kubeconfig_paths
    from bayplan.client.kubeconfig import load
    from bayplan.cluster.kubelet_node.node import Node
    from bayplan.cluster.kubelet_node.tls import ServerTls, client_manager
    from bayplan.kubelet.node.addresses import local_addresses
    from bayplan.kubelet.node.bootstrap import bootstrap
    from bayplan.support.clock import SystemClock
    from bayplan.support.randomness import SystemRandomness
    from bayplan.support.running import wait_for_stop
    from bayplan.support.tasks import Supervisor

    def connected(path: Path | None) -> Client:
        return connect(path, "", user_agent="kubelet")

    stop = stop_event()
    clock, randomness = SystemClock(), SystemRandomness()
    path = kubeconfig_paths(kubeconfig)[0]
    node_options = _node_options(options, clock)
    name = node_options.name
    certificates = (options["cert_dir"] or node_options.root / "pki").absolute()
    if options["bootstrap_kubeconfig"] is not None:
        await bootstrap(path, options["bootstrap_kubeconfig"], certificates, name, clock, connected)
    if not node_options.addresses:
        node_options = replace(node_options, addresses=local_addresses(load(path, "").server))
    client = connected(path)
    node = Node(client, _runtime(configuration), node_options, configuration, clock=clock, randomness=randomness)
    tls = ServerTls(configuration, certificates, name, clock)
    async with Supervisor("kubelet", clock=clock) as tasks:
        serving = tls.manager(client, node.kubelet.node, randomness)
        if serving is not None:
            tasks.keep_running("serving certificate", serving.run)
        if configuration.rotate_certificates and options["bootstrap_kubeconfig"] is not None:

            def renewed(_: Certificate) -> None:
                old, client.transport = client.transport, connected(path).transport
                tasks.spawn("old connections", old.close())

            manager = client_manager(client, certificates, name, clock, randomness, renewed)
            tasks.keep_running("client certificate", manager.run)
        click.echo(f"started: kubelet of node {name}")
        await wait_for_stop(stop, node.run(tls.context))
    await client.close()


def _node_options(options: dict[str, Any], clock: Clock) -> NodeOptions:
    """What the flags say of the node; without addresses where no flag names them."""
    from bayplan.cluster.kubelet_node.options import NodeOptions
    from bayplan.kubelet.images.credential_plugins import CredentialPlugins, read_config
    from bayplan.support.system.machine import hostname

    name = options["hostname_override"] or hostname()
    plugins = None
    if options["image_credential_provider_config"] is not None:
        providers = read_config(options["image_credential_provider_config"])
        plugins = CredentialPlugins(providers, options["image_credential_provider_bin_dir"], clock)
    return NodeOptions(
        name=name,
        hostname=name,
        addresses=tuple(each for each in options["node_ip"].split(",") if each),
        root=options["root_dir"].absolute(),  # mounts and links name it
        labels=_labels(options["node_labels"]),
        container_log_links=options["container_log_dir"].absolute(),
        credential_plugins=plugins,
    )


def _runtime(configuration: KubeletConfiguration) -> Runtime:
    from bayplan.kubelet.runtime.cri import CriRuntime

    return CriRuntime(
        configuration.container_runtime_endpoint,
        image_endpoint=configuration.image_service_endpoint,
        request_timeout=configuration.runtime_request_timeout,
    )


def _labels(text: str) -> dict[str, str]:
    from bayplan.kubelet.node.registration import check_labels

    labels = _pairs("--node-labels", text, "=")
    check_labels(labels)
    return labels


def _pairs(flag: str, text: str, separators: str) -> dict[str, str]:
    """`KEY=VALUE,...` as a map. Raises UsageError."""
    found = {}
    for part in text.split(","):
        if not part:
            continue
        at = min((part.index(each) for each in separators if each in part), default=-1)
        if at <= 0:
            raise click.UsageError(f"{flag}: {part!r} is not KEY{separators[0]}VALUE")
        found[part[:at]] = part[at + 1 :]
    return found


def _taints(text: str) -> list[core_v1.Taint]:
    """`KEY=VALUE:EFFECT,...`. Raises UsageError."""
    from bayplan.api.types import core_v1

    taints = []
    for part in text.split(","):
        pair, colon, effect = part.rpartition(":")
        key, _, value = pair.partition("=")
        if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise click.UsageError(f"--register-with-taints: {part!r} is not KEY=VALUE:EFFECT")
        taints.append(core_v1.Taint(key=key, value=value, effect=effect))
    return taints


def _reserved_memory(texts: Iterable[str]) -> list[dict[str, Any]]:
    """`NODE:RESOURCE=AMOUNT,...`, several with semicolons. Raises UsageError."""
    found = []
    for part in (each.strip() for text in texts for each in text.split(";") if each.strip()):
        node, colon, limits = part.partition(":")
        if not colon or not node.isdecimal() or not limits:
            raise click.UsageError(f"--reserved-memory: {part!r} is not NODE:RESOURCE=AMOUNT")
        found.append({"numaNode": int(node), "limits": _pairs("--reserved-memory", limits, "=")})
    return found


def _configuration(config: Path | None, extra: Path | None, options: dict[str, Any]) -> KubeletConfiguration:
    """The file's configuration, with flags over it. Raises ConfigurationError, UsageError."""
    import msgspec

    from bayplan.kubelet.configuration import from_tree, load
    from bayplan.support.configuration import to_tree

    tree = to_tree(load(config, extra))
    for _, field, value in given_fields(options, _CONFIGURED, _SWITCHES):
        put_field(tree, field, value)
    for name, field, value in given_fields(options, _MAPS):
        put_field(tree, field, _read_map(name, value))
    for _, field, value in given_fields(options, _LISTS):
        put_field(tree, field, [each for each in value.split(",") if each])
    if options["pod_logs"]:
        tree["podLogsDir"] = options["pod_logs"]
    if options["cpu_manager_reconcile_period"]:
        tree["cpuManagerReconcilePeriod"] = options["cpu_manager_reconcile_period"]
    if options["reserved_memory"]:
        tree["reservedMemory"] = _reserved_memory(options["reserved_memory"])
    if options["register_with_taints"]:
        taints = _taints(options["register_with_taints"])
        tree["registerWithTaints"] = msgspec.to_builtins(taints)
    configuration = from_tree(tree, str(config or "flags"))
    _check_gates(configuration.feature_gates)
    return configuration


def _check_gates(gates: dict[str, bool]) -> None:
    """Name those that have no effect. Raises UsageError for gates that are not known or locked, and those that need others which are off."""
    from bayplan.kubelet.feature_gates import FOLLOWED, missing_features

    gates_of(",".join(f"{name}={value}" for name, value in gates.items()))
    for name, missing in missing_features(gates):
        needs = f"depends on features that are disabled: [{' '.join(missing)}]"
        raise click.UsageError(f"--feature-gates: {name} is enabled, but {needs}")
    if ignored := [each for each in gates_without_effect(gates) if each not in FOLLOWED]:
        click.echo(f"bayplan: note: Bayplan's kubelet behaves as with the default of {', '.join(ignored)}", err=True)


def _read_map(name: str, text: str) -> dict[str, Any]:
    if name == "--feature-gates":
        return gates_of(text)
    return dict(_pairs(name, text, "<=" if name in ("--eviction-hard", "--eviction-soft") else "="))
