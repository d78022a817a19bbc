"""The flags of Kubernetes' binaries that Bayplan's components do not have as options of their own, with what comes of each.

In the texts below a name that ends in `?` takes no value of its own (`--profiling` is `--profiling=true`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

Reasons = Mapping[str, str]
"""Reason -> names of flags, with spaces between."""


LISTS: Final = frozenset(
    [
        "allowed-unsafe-sysctls",
        "api-audiences",
        "authorization-mode",
        "cluster-dns",
        "controllers",
        "cpu-manager-policy-options",
        "disable-admission-plugins",
        "enable-admission-plugins",
        "enforce-node-allocatable",
        "etcd-servers",
        "etcd-servers-overrides",
        "eviction-hard",
        "eviction-minimum-reclaim",
        "eviction-soft",
        "eviction-soft-grace-period",
        "feature-gates",
        "kube-reserved",
        "kubelet-preferred-address-types",
        "node-labels",
        "nodeport-addresses",
        "oidc-signing-algs",
        "requestheader-allowed-names",
        "requestheader-extra-headers-prefix",
        "requestheader-group-headers",
        "requestheader-uid-headers",
        "requestheader-username-headers",
        "runtime-config",
        "system-reserved",
        "topology-manager-policy-options",
    ]
)
"""Flags whose values are lists, with commas: given several times, they add up."""


class FlagTable(NamedTuple):
    """What comes of flags, by name without dashes."""

    without_effect: Mapping[str, str]
    """Flags that are taken with a note -> why they say nothing here."""
    refused: Mapping[str, str]
    """Flags of which one would wrongly believe that they do something -> why they do not."""
    fixed: Mapping[str, tuple[str, ...]]
    """Flags that are taken in silence if they say what Bayplan does, and else refused -> the values that say so."""
    former: Mapping[str, str]
    """Flags of older versions -> what is said today."""
    switches: frozenset[str]
    """Those of all these that take no value of their own."""


def _table(without_effect: Reasons, refused: Reasons, fixed: Mapping[str, str], former: Reasons) -> FlagTable:
    switches = set()

    def spread(texts: Reasons) -> dict[str, str]:
        found = {}
        for reason, names in texts.items():
            for name in names.split():
                found[name.rstrip("?")] = reason
                if name.endswith("?"):
                    switches.add(name.rstrip("?"))
        return found

    ignored, denied, gone = spread(without_effect), spread(refused), spread(former)
    return FlagTable(
        ignored,
        denied,
        {name.rstrip("?"): tuple(values.split("|")) for name, values in fixed.items()},
        gone,
        frozenset(switches | {name.rstrip("?") for name in fixed if name.endswith("?")}),
    )


_EVERYWHERE: Final[Reasons] = {
    "logs are lines of text on standard error": "log-flush-frequency log-json-info-buffer-size log-json-split-stream? "
    "log-text-info-buffer-size log-text-split-stream? logging-format vmodule",
    "all metrics are served as they are": "allow-metric-labels allow-metric-labels-manifest disabled-metrics "
    "show-hidden-metrics-for-version",
    "there are no pages of profiles": "profiling? contention-profiling? debug-socket-path",
    "HTTP/1.1 is what is spoken": "http2-max-streams-per-connection disable-http2-serving?",
    "a port is bound by one process": "permit-address-sharing? permit-port-sharing?",
}
_CIPHERS: Final = "Python's TLS decides that: TLS 1.2 and 1.3 with the ciphers of its OpenSSL"
_TLS_REFUSED: Final[Reasons] = {_CIPHERS: "tls-cipher-suites tls-curve-preferences"}
_TLS_VERSIONS: Final = "VersionTLS10|VersionTLS11|VersionTLS12"
_EVERYWHERE_FIXED: Final = {
    "emulated-version": "1.36|kube=1.36",
    "min-compatibility-version": "1.36|kube=1.36|1.35|kube=1.35",
    "tls-min-version": _TLS_VERSIONS,
}
_CLIENT: Final[Reasons] = {
    "requests to the API are not held back": "kube-api-burst kube-api-qps",
    "JSON is spoken with the API": "kube-api-content-type",
}
API_SERVER: Final = _table(
    without_effect={
        **{reason: names for reason, names in _EVERYWHERE.items() if "profiling" not in names and "http2" not in names},
        "waits for locks are not measured, and profiles are served on --secure-port": "contention-profiling? debug-socket-path",
        "all objects are kept in memory beside the store": "watch-cache? watch-cache-sizes default-watch-cache-size",
        "privileged containers are for Pod Security to refuse": "allow-privileged?",
        "connections are not slowed down": "max-connection-bytes-per-sec",
        "the address is that of --bind-address": "advertise-address external-hostname",
        "clients are not sent to other servers": "send-retry-after-while-not-ready-once?",
        "leaders are not coordinated by the server": "coordinated-leadership-lease-duration coordinated-leadership-renew-deadline "
        "coordinated-leadership-retry-period",
        "a collection is deleted by one worker": "delete-collection-workers",
        "garbage is found by the controller manager": "enable-garbage-collector?",
        "there are no log files to serve": "enable-logs-handler?",
        "all servers are of one version": "peer-advertise-ip peer-advertise-port peer-ca-file "
        "emulation-forward-compatible? runtime-config-emulation-forward-compatible?",
        "the store is watched, not asked": "etcd-count-metric-poll-period etcd-db-metric-poll-interval etcd-healthcheck-timeout "
        "etcd-readycheck-timeout storage-initialization-timeout lease-reuse-duration-seconds",
        "/livez answers as soon as the server listens": "livez-grace-period",
        "kubelets are given the time of a request": "kubelet-timeout",
        "watches end with the server": "shutdown-watch-termination-grace-period",
        "redirects of aggregated servers are passed on": "aggregator-reject-forwarding-redirect?",
    },
    refused={
        **_TLS_REFUSED,
        "pages of other origins are given no access": "cors-allowed-origins",
        "no such header is sent": "strict-transport-security-directives",
        "connections are made directly": "egress-selector-config-file",
        "tokens are signed with --service-account-signing-key-file": "service-account-signing-endpoint",
        "the service kubernetes has a cluster IP only": "kubernetes-service-node-port",
    },
    fixed={
        **_EVERYWHERE_FIXED,
        "storage-backend": "|etcd3",
        "endpoint-reconciler-type": "lease",
        "service-account-lookup?": "true",
        "enable-bootstrap-token-auth?": "true",
    },
    former={
        "--enable-admission-plugins and --disable-admission-plugins": "admission-control",
        "--secure-port and --bind-address, with TLS": "insecure-port insecure-bind-address address port",
        "--token-auth-file, or client certificates": "basic-auth-file",
        "--encryption-provider-config": "experimental-encryption-provider-config",
        "--api-audiences": "service-account-api-audiences",
        "nothing: servers find each other by their leases": "apiserver-count",
        "nothing: kubelets are always reached with TLS": "kubelet-https? kubelet-port kubelet-read-only-port",
        "nothing: reads are always consistent": "etcd-quorum-read?",
        "--runtime-config": "storage-versions",
        "--audit-policy-file with --audit-webhook-config-file": "audit-dynamic-configuration?",
        "nothing: clouds have a controller manager of their own": "cloud-provider cloud-config",
        "memory needs no such limit": "target-ram-mb",
    },
)
"""Flags of kube-apiserver."""

_HEALTH_ONLY: Final[Reasons] = {
    "health and metrics are served over HTTP, to whom --bind-address lets in": "cert-dir tls-cert-file tls-private-key-file "
    "tls-cipher-suites tls-curve-preferences tls-min-version tls-sni-cert-key authentication-kubeconfig "
    "authentication-skip-lookup? authentication-token-webhook-cache-ttl authentication-tolerate-lookup-failure? client-ca-file "
    "requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers "
    "requestheader-uid-headers requestheader-username-headers authorization-always-allow-paths authorization-kubeconfig "
    "authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl",
    **_CLIENT,
}
_CLIENT_REFUSED: Final[Reasons] = {"the address of the API stands in --kubeconfig": "master"}
_VERSION_FIXED: Final = {key: value for key, value in _EVERYWHERE_FIXED.items() if not key.startswith("tls")}
_FORMER_PORTS: Final[Reasons] = {"--secure-port and --bind-address": "port address"}

SCHEDULER: Final = _table(
    without_effect={**_EVERYWHERE, **_HEALTH_ONLY},
    refused={
        **_CLIENT_REFUSED,
        "a configuration is printed by `kubectl` or written by hand": "write-config-to",
        "pods are looked at again after 5 minutes at the latest": "pod-max-in-unschedulable-pods-duration",
    },
    fixed=_VERSION_FIXED,
    former={
        **_FORMER_PORTS,
        "--config with a KubeSchedulerConfiguration: predicates are filter plugins, priorities score plugins with a weight in "
        "profiles[].plugins": "policy-config-file policy-configmap policy-configmap-namespace use-legacy-policy-config?",
        "--config with a KubeSchedulerConfiguration: the default profile is DefaultProvider; ClusterAutoscalerProvider is the plugin "
        "NodeResourcesFit with scoringStrategy.type MostAllocated": "algorithm-provider",
        "--config, profiles[].schedulerName": "scheduler-name",
        "--config, hardPodAffinityWeight in the arguments of InterPodAffinity": "hard-pod-affinity-symmetric-weight",
        "--leader-elect-resource-name": "lock-object-name",
        "--leader-elect-resource-namespace": "lock-object-namespace",
        "the keys of topologySpreadConstraints": "failure-domains",
    },
)
"""Flags of kube-scheduler."""

CONTROLLER_MANAGER: Final = _table(
    without_effect={
        **_EVERYWHERE,
        **_HEALTH_ONLY,
        "controllers work in one loop, on as much as there is to do": "concurrent-cron-job-syncs concurrent-daemonset-syncs "
        "concurrent-deployment-syncs concurrent-device-taint-eviction-syncs concurrent-endpoint-syncs concurrent-ephemeralvolume-syncs "
        "concurrent-gc-syncs concurrent-job-syncs concurrent-namespace-syncs concurrent-rc-syncs concurrent-replicaset-syncs "
        "concurrent-resource-quota-syncs concurrent-resourceclaim-syncs concurrent-service-endpoint-syncs concurrent-service-syncs "
        "concurrent-serviceaccount-token-syncs concurrent-statefulset-syncs concurrent-ttl-after-finished-syncs "
        "concurrent-validating-admission-policy-status-syncs mirroring-concurrent-service-endpoint-syncs",
        "controllers work as soon as something changes": "attach-detach-reconcile-sync-period endpoint-updates-batch-period "
        "endpointslice-updates-batch-period mirroring-endpointslice-updates-batch-period min-resync-period namespace-sync-period "
        "pvclaimbinder-sync-period resource-quota-sync-period controller-start-interval disable-attach-detach-reconcile-sync?",
        "clouds have a controller manager of their own": "allow-untagged-cloud? cloud-config cluster-name configure-cloud-routes? "
        "external-cloud-volume-plugin route-reconciliation-period node-sync-period",
        "there are no volume plugins but CSI drivers": "flex-volume-plugin-dir enable-hostpath-provisioner? "
        "pv-recycler-increment-timeout-nfs pv-recycler-minimum-timeout-hostpath pv-recycler-minimum-timeout-nfs "
        "pv-recycler-pod-template-filepath-hostpath pv-recycler-pod-template-filepath-nfs pv-recycler-timeout-increment-hostpath",
        "all controllers work as the user of --kubeconfig": "use-service-account-credentials?",
        "networks of nodes come out of --cluster-cidr, which must not overlap with it": "service-cluster-ip-range",
        "controllers do not move between managers": "enable-leader-migration? leader-migration-config",
    },
    refused={
        **_CLIENT_REFUSED,
        "one authority signs for all signers: --cluster-signing-cert-file": "cluster-signing-kube-apiserver-client-cert-file "
        "cluster-signing-kube-apiserver-client-key-file cluster-signing-kubelet-client-cert-file cluster-signing-kubelet-client-key-file "
        "cluster-signing-kubelet-serving-cert-file cluster-signing-kubelet-serving-key-file cluster-signing-legacy-unknown-cert-file "
        "cluster-signing-legacy-unknown-key-file",
    },
    fixed={
        **_VERSION_FIXED,
        "cloud-provider": "|external",
        "cidr-allocator-type": "RangeAllocator",
        "enable-garbage-collector?": "true",
        "enable-dynamic-provisioning?": "true",
    },
    former={
        **_FORMER_PORTS,
        "tolerations: --default-not-ready-toleration-seconds and --default-unreachable-toleration-seconds of the API server": "pod-eviction-timeout",
        "nothing: taints are what evicts": "enable-taint-manager?",
        "--horizontal-pod-autoscaler-downscale-stabilization": "horizontal-pod-autoscaler-downscale-delay horizontal-pod-autoscaler-upscale-delay",
        "--cluster-signing-duration": "experimental-cluster-signing-duration",
        "--node-eviction-rate": "deleting-pods-qps deleting-pods-burst",
        "nothing: the metrics API is always asked": "horizontal-pod-autoscaler-use-rest-clients?",
        "nothing: a deployment is looked at when it changes": "deployment-controller-sync-period",
    },
)
"""Flags of kube-controller-manager."""

KUBELET: Final = _table(
    without_effect={
        **_EVERYWHERE,
        **_CLIENT,
        "events are written as they come": "event-burst event-qps",
        "pods are looked at when something changes": "sync-frequency http-check-frequency",
        "streams end when one of their ends does": "streaming-connection-idle-timeout",
        "volumes are measured when they are asked about": "volume-stats-agg-period",
        "the system's processes stay in the cgroups that they are in": "kubelet-cgroups runtime-cgroups system-cgroups kube-reserved-cgroup "
        "system-reserved-cgroup",
        "packets are the business of the pod network and the service proxy": "hairpin-mode make-iptables-util-chains?",
        "files are opened up to the limit of the process": "max-open-files",
        "memory is looked at in rounds": "kernel-memcg-notification?",
        "one kubelet runs per --root-dir": "lock-file exit-on-lock-contention?",
        "of each container the last one that ended is kept": "maximum-dead-containers maximum-dead-containers-per-container "
        "minimum-container-ttl-duration",
        "there are no volume plugins but CSI drivers": "volume-plugin-dir experimental-mounter-path",
        "that is for Windows": "windows-priorityclass windows-service?",
        "what pods get is what eviction leaves": "experimental-allocatable-ignore-eviction?",
    },
    refused={
        _CIPHERS: "tls-cipher-suites",
        "static pods come from --pod-manifest-path": "manifest-url manifest-url-header",
        "a kubelet runs until it is stopped": "runonce?",
        "memory is not reserved by QoS class": "qos-reserved",
    },
    fixed={
        "cloud-provider": "|external",
        "read-only-port": "0",
        "protect-kernel-defaults?": "false",
        "tls-min-version": _TLS_VERSIONS,
    },
    former={
        "--container-runtime-endpoint": "container-runtime docker-endpoint",
        "the runtime's own configuration, which knows its CNI plugins and the pause image": "network-plugin cni-conf-dir cni-bin-dir "
        "cni-cache-dir network-plugin-mtu pod-infra-container-image",
        "--kubeconfig": "api-servers require-kubeconfig?",
        "--config and --config-dir": "dynamic-config-dir",
        "--register-with-taints": "register-schedulable?",
        "Pod Security, which refuses such pods": "allow-privileged?",
        "--seccomp-default, and profiles below --root-dir": "seccomp-profile-root",
        "nothing: /metrics/cadvisor is at the kubelet's port": "cadvisor-port",
        "nothing: volumes of pods that ended go": "keep-terminated-pod-volumes?",
        "--bootstrap-kubeconfig": "experimental-bootstrap-kubeconfig",
    },
)
"""Flags of kubelet."""

PROXY: Final = _table(
    without_effect={
        **{
            reason: names for reason, names in _EVERYWHERE.items() if "profiling" not in names and "metric" not in names
        },
        "the mode is nftables": "iptables-localhost-nodeports? iptables-masquerade-bit iptables-min-sync-period iptables-sync-period "
        "ipvs-exclude-cidrs ipvs-min-sync-period ipvs-scheduler ipvs-strict-arp? ipvs-sync-period ipvs-tcp-timeout ipvs-tcpfin-timeout "
        "ipvs-udp-timeout",
        **_CLIENT,
    },
    refused={"a configuration is written by hand": "write-config-to"},
    fixed={},
    former={
        "--healthz-bind-address": "healthz-port",
        "--metrics-bind-address": "metrics-port",
        "nothing: there is no proxy in user space": "udp-timeout proxy-port-range",
    },
)
"""Flags of kube-proxy."""
