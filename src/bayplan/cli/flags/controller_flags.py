"""Flags of kube-controller-manager that change how controllers behave, for `controller-manager` and for `up --controller-manager-flag`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.flags.feature_gates import own_gates
from bayplan.cli.flags.kube_flags import parse_flags, seconds

if TYPE_CHECKING:
    from bayplan.controllers.settings import ControllerSettings

F = TypeVar("F", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """A Go duration such as `40s`; the value is in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return value if isinstance(value, float) else seconds(str(value))


DURATION = Duration()


class Networks(click.ParamType[tuple[str, ...]]):
    """One network (CIDR), or one of each family with a comma between."""

    name = "cidrs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        import ipaddress

        if isinstance(value, tuple):
            return value
        try:
            networks = [ipaddress.ip_network(one.strip()) for one in str(value).split(",") if one.strip()]
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if len({one.version for one in networks}) != len(networks):
            self.fail("expected at most one network of each family", param, ctx)
        return tuple(str(one) for one in networks)


class Expanders(click.ParamType[tuple[str, ...]]):
    """Expanders of the cluster autoscaler, with commas between."""

    name = "expanders"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        from bayplan.controllers.autoscaling.cluster_autoscaler_expanders import chain_of

        if isinstance(value, tuple):
            return value
        try:
            return chain_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Gates(click.ParamType[frozenset[str]]):
    """Feature gates A=true,B=false; the value is those that have an effect and are on."""

    name = "gates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        return value if isinstance(value, frozenset) else own_gates(str(value))


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag and the setting that it is for."""

    field: str
    type: click.ParamType[Any]
    meaning: str


FLAGS: Mapping[str, Flag] = {
    "--node-monitor-period": Flag("node_monitor_period", DURATION, "Between two looks at all nodes."),
    "--node-monitor-grace-period": Flag(
        "node_monitor_grace_period", DURATION, "Without a renewed lease after which a node counts as unreachable."
    ),
    "--node-startup-grace-period": Flag(
        "node_startup_grace_period", DURATION, "The same for a node that has never reported its status."
    ),
    "--node-eviction-rate": Flag(
        "node_eviction_rate", click.FLOAT, "Nodes per second of a healthy zone that may be emptied because they fail."
    ),
    "--secondary-node-eviction-rate": Flag(
        "secondary_node_eviction_rate", click.FLOAT, "The same for a large zone that is partially disrupted."
    ),
    "--unhealthy-zone-threshold": Flag(
        "unhealthy_zone_threshold", click.FLOAT, "Part of a zone's nodes that fail when it counts as disrupted."
    ),
    "--large-cluster-size-threshold": Flag(
        "large_cluster_size_threshold", click.INT, "Zones with more nodes than this are large."
    ),
    "--feature-gates": Flag(
        "feature_gates",
        Gates(),
        "Feature gates; AffinityDuringExecution=true runs the affinity-eviction-controller, GenericWorkload=true,WorkloadWithJob=true makes pod groups for Jobs.",
    ),
    "--affinity-eviction-grace-period": Flag(
        "affinity_eviction_grace",
        DURATION,
        "How long an affinity rule that holds during execution may be broken before its pod is evicted.",
    ),
    "--affinity-eviction-rate": Flag(
        "affinity_eviction_rate", click.FLOAT, "Pods per second of a healthy zone that may be evicted for that."
    ),
    "--secondary-affinity-eviction-rate": Flag(
        "secondary_affinity_eviction_rate", click.FLOAT, "The same for a large zone that is partially disrupted."
    ),
    "--disable-force-detach-on-timeout": Flag(
        "disable_force_detach_on_timeout",
        click.BOOL,
        "Whether volumes stay attached to a node that is not ready, however long it may have them mounted.",
    ),
    "--terminated-pod-gc-threshold": Flag(
        "terminated_pod_threshold", click.INT, "Pods that have ended are kept up to this number; 0 keeps all."
    ),
    "--allocate-node-cidrs": Flag(
        "allocate_node_cidrs", click.BOOL, "Whether nodes without a pod network are given one of --cluster-cidr."
    ),
    "--cluster-cidr": Flag(
        "cluster_cidr", Networks(), "Network of the cluster's pods, or one of each family with a comma between."
    ),
    "--node-cidr-mask-size": Flag("node_cidr_mask_size_ipv4", click.INT, "Prefix length of a node's pod network."),
    "--node-cidr-mask-size-ipv4": Flag("node_cidr_mask_size_ipv4", click.INT, "The same, in clusters of two families."),
    "--node-cidr-mask-size-ipv6": Flag("node_cidr_mask_size_ipv6", click.INT, "The same for IPv6."),
    "--max-endpoints-per-slice": Flag("max_endpoints_per_slice", click.INT, "Endpoints in one EndpointSlice."),
    "--mirroring-max-endpoints-per-subset": Flag(
        "mirroring_max_endpoints_per_subset", click.INT, "Addresses of a subset of Endpoints that are mirrored."
    ),
    "--legacy-service-account-token-clean-up-period": Flag(
        "legacy_token_clean_up_period", DURATION, "Without use after which a legacy service account token is given up."
    ),
    "--horizontal-pod-autoscaler-sync-period": Flag(
        "hpa_sync_period", DURATION, "Between two looks at a horizontal pod autoscaler."
    ),
    "--horizontal-pod-autoscaler-downscale-stabilization": Flag(
        "hpa_downscale_stabilization", DURATION, "How far back to look for higher recommendations before scaling down."
    ),
    "--horizontal-pod-autoscaler-tolerance": Flag(
        "hpa_tolerance", click.FLOAT, "How far a metric may be from its target (as a ratio) without consequence."
    ),
    "--horizontal-pod-autoscaler-cpu-initialization-period": Flag(
        "hpa_cpu_initialization_period", DURATION, "After a pod's start, in which its cpu usage counts only if ready."
    ),
    "--horizontal-pod-autoscaler-initial-readiness-delay": Flag(
        "hpa_initial_readiness_delay", DURATION, "After a pod's start, in which turning unready counts as never ready."
    ),
    "--concurrent-horizontal-pod-autoscaler-syncs": Flag(
        "hpa_concurrent_syncs", click.INT, "Horizontal pod autoscalers that are looked at at once."
    ),
    "--recommender-interval": Flag(
        "vertical_interval", DURATION, "Between two samples of the usage of a workload that is scaled vertically."
    ),
    "--scan-interval": Flag("autoscaler_scan_interval", DURATION, "Cluster autoscaler: between two looks."),
    "--new-pod-scale-up-delay": Flag(
        "autoscaler_new_pod_delay", DURATION, "Cluster autoscaler: age below which a pod is not looked at."
    ),
    "--expander": Flag(
        "autoscaler_expanders", Expanders(), "Cluster autoscaler: who chooses among groups, until one is left."
    ),
    "--expendable-pods-priority-cutoff": Flag(
        "autoscaler_priority_cutoff", click.INT, "Cluster autoscaler: pods of lower priority get no node."
    ),
    "--max-node-provision-time": Flag(
        "autoscaler_provision_time", DURATION, "Cluster autoscaler: how long a node may take to become ready."
    ),
    "--scale-down-enabled": Flag(
        "autoscaler_scale_down", click.BOOL, "Cluster autoscaler: whether nodes are taken away."
    ),
    "--scale-down-utilization-threshold": Flag(
        "autoscaler_utilization_threshold", click.FLOAT, "Cluster autoscaler: below this a node is hardly used."
    ),
    "--scale-down-unneeded-time": Flag(
        "autoscaler_unneeded_time", DURATION, "Cluster autoscaler: how long a node is dispensable before it goes."
    ),
    "--scale-down-unready-time": Flag(
        "autoscaler_unready_time", DURATION, "Cluster autoscaler: how long a node is unready before it goes."
    ),
    "--scale-down-delay-after-add": Flag(
        "autoscaler_delay_after_add", DURATION, "Cluster autoscaler: after a node was made, before others go."
    ),
    "--scale-down-delay-after-delete": Flag(
        "autoscaler_delay_after_delete", DURATION, "Cluster autoscaler: after a node went, before others go."
    ),
    "--scale-down-delay-after-failure": Flag(
        "autoscaler_delay_after_failure", DURATION, "Cluster autoscaler: after a drain failed, before others begin."
    ),
    "--max-pod-eviction-time": Flag(
        "autoscaler_eviction_time", DURATION, "Cluster autoscaler: how long the pods of a node may refuse to go."
    ),
    "--skip-nodes-with-system-pods": Flag(
        "autoscaler_skip_system_pods", click.BOOL, "Cluster autoscaler: keep nodes with pods of kube-system."
    ),
    "--skip-nodes-with-local-storage": Flag(
        "autoscaler_skip_local_storage", click.BOOL, "Cluster autoscaler: keep nodes whose pods keep data there."
    ),
}
"""By name, as kube-controller-manager has them, or the autoscalers that run beside it."""


def _variable(name: str) -> str:
    return name.removeprefix("--").replace("-", "_")


def flag_options(function: F) -> F:
    """Give a command all of these flags as options; see `settings_of`."""
    from bayplan.controllers.settings import ControllerSettings

    defaults = {one.name: one.default for one in fields(ControllerSettings)}
    for name, flag in reversed(tuple(FLAGS.items())):
        default = defaults[flag.field]
        shown = f"{default:g}s" if flag.type is DURATION else str(default)
        shown = ",".join(default) if isinstance(default, tuple) else shown
        text = flag.meaning if default == () else f"{flag.meaning}  [default: {shown}]"
        function = click.option(name, _variable(name), type=flag.type, help=text)(function)
    return function


def settings_of(options: dict[str, Any]) -> ControllerSettings:
    """Take the options of `flag_options` out of a command's options."""
    from bayplan.controllers.settings import ControllerSettings

    given = {flag.field: value for name, flag in FLAGS.items() if (value := options.pop(_variable(name))) is not None}
    return replace(ControllerSettings(), **given)


def parsed_settings(flags: Sequence[str], base: ControllerSettings) -> ControllerSettings:
    """Settings from flags as they are written on a command line; `base` says what holds without a flag. Raises UsageError."""
    given = parse_flags(flags, {name: flag.meaning for name, flag in FLAGS.items()})
    values = {FLAGS[name].field: FLAGS[name].type.convert(value, None, None) for name, value in given.items()}
    return replace(base, **values)
