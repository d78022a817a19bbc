"""`bayplan up`: a whole cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.clusters.kubeconfig_file import check_kubeconfig
from bayplan.cli.clusters.running_cluster import run_until_stopped
from bayplan.cli.clusters.running_group import run_group_until_stopped
from bayplan.cli.clusters.simulated_pods import missing_config_option, pod_events_option
from bayplan.cli.clusters.up_options import UpOptions
from bayplan.cli.flags.controller_flags import DURATION
from bayplan.cli.output import FILE, Failure, plugin_option, scheduler_config_option

if TYPE_CHECKING:
    from bayplan.cluster.processes.worker_process import WorkerProcess
    from bayplan.cluster.settings import ClusterSettings

_ONE_API_PROCESS = 2
"""With so many processes the API server has one of them."""
_COMMAND_LINE_ONLY = ("config", "help", "h")
"""Options that make no sense in the file that `--config` names."""


@click.command()
@click.option(
    "--nodes",
    type=click.IntRange(0),
    default=None,
    help="Simulated nodes.  [default: 3; with --from: those of the copy alone; with --real-nodes: 0]",
)
@click.option(
    "--real-nodes",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Real nodes on this machine, which run containers with containerd; needs root.",
)
@click.option(
    "--real-node-mode",
    type=click.Choice(("namespace", "host")),
    default="namespace",
    show_default=True,
    help="Whether each real node has a network of its own, or one has the machine's.",
)
@click.option(
    "--real-node-outbound/--no-real-node-outbound",
    default=True,
    show_default=True,
    help="Whether real nodes with networks of their own, and their pods, reach what this machine reaches.",
)
@click.option(
    "--real-node-network",
    type=click.Choice(("routed", "overlay")),
    default="routed",
    show_default=True,
    help="How real nodes reach the pods of each other: by plain routes, or in VXLAN packets.",
)
@click.option(
    "--pod-infra-container-image",
    metavar="IMAGE",
    help="Image of the sandboxes of pods on real nodes.  [default: one that is made here and needs no registry]",
)
@click.option(
    "--real-node-registry-config",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Where the containerds of real nodes find mirrors, certificates and headers of registries: DIR/HOST/hosts.toml.  [default: /etc/containerd/certs.d]",
)
@click.option(
    "--real-node-oci-runtime",
    type=click.Choice(("runc", "crun")),
    help="What starts the containers of real nodes; a RuntimeClass may name the other one.  [default: crun if it is installed (1.8 or newer), else runc]",
)
@click.option(
    "--real-node-without",
    type=click.Choice(("network", "proxy", "dns", "storage")),
    multiple=True,
    help="Leave out Bayplan's pod network, service proxy, DNS server or storage driver, for a cluster that brings its own. Repeatable.",
)
@click.option(
    "--from",
    "source",
    metavar="FILE|DIR|-",
    help="Begin with what a copy of a cluster has (bayplan snapshot), or manifests, dumps, kubectl get -o yaml|json.",
)
@click.option(
    "--stages",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE|DIR",
    help="Objects of kwok.x-k8s.io/v1alpha1 (Stage; Logs, Exec, Attach, PortForward, ResourceUsage and their Cluster forms; Metric) that say "
    "what happens to simulated nodes and pods on them, what these answer and what they use. Exec and PortForward run commands and reach "
    "addresses of this machine for whoever may use such pods. May be repeated.",
)
@pod_events_option
@missing_config_option
@click.option(
    "--node-group",
    multiple=True,
    metavar="GROUP",
    help="Simulated nodes that come and go with demand, such as name=web,min=0,max=10,cpu=4,memory=16Gi"
    "[,label=key=value][,taint=key=value:Effect]; may be repeated.",
)
@click.option("--store", metavar="URL", help="Where objects are kept: memory:, sqlite:PATH or etcd://HOST:PORT,....")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Directory for all that is kept.  [default: ~/.local/share/bayplan]",
)
@click.option(
    "--encrypt-secrets",
    is_flag=True,
    help="Encrypt secrets in the store, with a key that is made in the data directory (encryption.yaml).",
)
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDR", help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Where to write the kubeconfig.  [default: kubeconfig in the data directory; without one ./bayplan.kubeconfig]",
)
@click.option("--config", type=FILE, help="YAML file with options by name; the command line wins.")
@scheduler_config_option("for the scheduler")
@plugin_option(", taken anew whenever it changes; for development")
@click.option(
    "--descheduler-policy", type=FILE, help="DeschedulerPolicy by which pods are evicted that should not stay."
)
@click.option(
    "--descheduling-interval",
    type=DURATION,
    default="5m",
    show_default=True,
    help="Time between two passes of the descheduler.",
)
@click.option(
    "--apply",
    "apply",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE|DIR",
    help="Manifests to apply at start; may be repeated.",
)
@click.option(
    "--feature-gates",
    metavar="NAME=true",
    help="Feature gates of Bayplan's own: AffinityDuringExecution, affinity rules that hold while pods run.",
)
@click.option(
    "--apiserver-flag",
    multiple=True,
    metavar="FLAG",
    help="A flag of `bayplan apiserver`, such as --service-cluster-ip-range=10.0.0.0/16.",
)
@click.option(
    "--scheduler-flag",
    multiple=True,
    metavar="FLAG",
    help="A flag of `bayplan scheduler`: --config=FILE, which is the same as --scheduler-config.",
)
@click.option(
    "--controller-manager-flag",
    multiple=True,
    metavar="FLAG",
    help="A flag of `bayplan controller-manager`, such as --node-monitor-grace-period=40s.",
)
@click.option(
    "--cloud-provider",
    type=click.Choice(("simulated", "none")),
    default="simulated",
    show_default=True,
    help="The cloud that gives LoadBalancer services their addresses.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=None,
    help="1: all in one process; 2: the API server has one, all else the other; more: scheduler, controllers and nodes have one, the API all others, and the "
    "store a further one.  [default: 2 on Linux with two CPUs]",
)
@click.option(
    "--servers",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="API servers over one store, each a process with an address of loopback of its own, and as many processes among which scheduler and controllers are "
    "elected: to rehearse failures (Linux).",
)
@click.option(
    "--simulated-webhooks",
    type=click.Choice(("skip", "fail")),
    default=None,
    help="What comes of calls for webhooks whose pods are all simulated: they are skipped and count as allowed, or fail.  [default: skip]",
)
@click.option(
    "--forward",
    multiple=True,
    metavar="SERVICE=TARGET",
    help="Send calls (of webhooks, to aggregated servers, of proxies) for a service to a program, such as service/NAMESPACE/NAME=localhost:9443; may be repeated.",
)
@click.option("--ui", "ui", is_flag=True, help="Serve a web page that shows the cluster, at 127.0.0.1.")
@click.option(
    "--ui-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="With --ui: port of the page.  [default: a free one]",
)
@click.option("--allow-changes", is_flag=True, help="With --ui: let the page change the cluster.")
@click.option("--v", "v", type=int, default=0, help="Log verbosity, as in Kubernetes.")
@click.pass_context
def command(ctx: click.Context, /, **_: object) -> None:
    """Run a whole cluster until Ctrl-C: API server, scheduler, controllers and simulated nodes.

    Everything is kept in the data directory and is there again after a restart.
    """
    options = merged_options(ctx)
    if options["store"] and options["data_dir"]:
        raise click.UsageError(
            "--store and --data-dir exclude each other: --store names the store, --data-dir the directory for it and the rest"
        )
    run_cluster(UpOptions(**options))


def merged_options(ctx: click.Context) -> dict[str, Any]:
    """The options of the command line, completed from the file that `--config` names. Raises UsageError."""
    options = dict(ctx.params)
    path = options.pop("config")
    if path is None:
        return options
    import yaml

    try:
        given = yaml.safe_load(path.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise click.UsageError(f"{path}: {error}") from error
    if not isinstance(given, dict):
        raise click.UsageError(f"{path}: expected a mapping of option names to values")
    parameters = {parameter.name: parameter for parameter in ctx.command.params}
    spelled = {name.lstrip("-"): one.name for one in ctx.command.params for name in one.opts}
    for name, value in given.items():
        key = spelled.get(str(name)) or str(name).replace("-", "_")
        if key not in options:
            raise click.UsageError(
                f"{path}: {name}: no such option; known: {', '.join(sorted(one for one in spelled if one not in _COMMAND_LINE_ONLY))}"
            )
        if ctx.get_parameter_source(key) is not click.core.ParameterSource.COMMANDLINE:
            try:
                options[key] = parameters[key].type_cast_value(ctx, value)
            except click.BadParameter as error:
                raise click.UsageError(f"{path}: {name}: {error.message}") from error
    return options


def run_cluster(options: UpOptions) -> None:
    """Run until SIGINT or SIGTERM. Raises Failure."""
    from bayplan.cluster.errors import ClusterError
    from bayplan.cluster.manifests.apply import read_manifests
    from bayplan.support.logging import set_up_logging

    set_up_logging(verbosity=options.v)
    try:
        manifests = read_manifests(options.apply)
    except ClusterError as error:
        raise Failure(str(error)) from error
    path = options.kubeconfig_path
    follows_links = options.kubeconfig is not None or options.directory is None
    check_kubeconfig(path, options.directory / "pki" if options.directory else None, follows_links=follows_links)
    settings = options.settings()
    if options.servers > 1 or (options.processes or 1) > _ONE_API_PROCESS:
        _run_group(options, settings, manifests, path, follows_links)
        return
    real_nodes = options.real_node_settings(settings)
    with _worker_process(settings, options.processes) as worker_process:
        contents = options.contents()  # of which the other process needs no copy
        nodes = settings.nodes.nodes + sum(kind.kind == "Node" for kind, _ in contents)
        what = f"with {nodes + options.real_nodes} node{'s' * (nodes + options.real_nodes != 1)}"
        run_until_stopped(
            settings,
            path,
            manifests,
            what,
            contents,
            elsewhere="--data-dir or --store",
            worker_process=worker_process,
            follows_links=follows_links,
            real_nodes=real_nodes,
            page=options.page,
        )


def _run_group(
    options: UpOptions, settings: ClusterSettings, manifests: Any, kubeconfig: Path, follows_links: bool
) -> None:
    """Run several API server processes. Raises Failure, UsageError."""
    from bayplan.cluster.components import CONTROLLERS, NODES, SCHEDULER

    given = {
        "--real-nodes": options.real_nodes,
        "--from": options.source,
        "--ui": options.ui,
        "--descheduler-policy": options.descheduler_policy,
        "--processes": options.processes if options.servers > 1 else None,
    }
    are_separate = options.servers > 1
    for name, value in given.items():
        if value:
            raise click.UsageError(
                f"{'--servers' if are_separate else '--processes=3 and more'} and {name} exclude each other"
            )
    components = [SCHEDULER, CONTROLLERS, *([NODES] if settings.nodes.plays_nodes else [])]
    nodes = settings.nodes.nodes
    count = options.servers if are_separate else (options.processes or 1) - 1
    what = f"{count} {'servers' if are_separate else 'API server processes'}, {nodes} node{'s' * (nodes != 1)}"
    run_group_until_stopped(
        settings,
        count,
        kubeconfig,
        what,
        components=components,
        are_separate=are_separate,
        manifests=manifests,
        follows_links=follows_links,
    )


@contextlib.contextmanager
def _worker_process(settings: ClusterSettings, processes: int | None) -> Iterator[WorkerProcess | None]:
    """The process in which the components run; None for this one. Raises Failure if there is to be one and cannot."""
    if processes != 1:
        # Loaded before the fork, so that both processes have it.
        import bayplan.cluster.cluster  # noqa: F401
        from bayplan.cluster.processes.worker_process import can_have_one, worker_process

        if can_have_one():
            with worker_process(settings) as other:
                yield other
            return
        if processes is not None:
            raise Failure("--processes=2 needs Linux and two CPUs")
    yield None
