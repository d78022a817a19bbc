"""What a KubeletConfiguration must be like, in Kubernetes' words (pkg/kubelet/apis/config/validation). Functions of data."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bayplan.support.durations import go_duration

if TYPE_CHECKING:
    from bayplan.kubelet.configuration import KubeletConfiguration

_PODS, _NONE = "pods", "none"
_RESERVED: Final = {
    "system-reserved": "systemReservedCgroup",
    "system-reserved-compressible": "systemReservedCgroup",
    "kube-reserved": "kubeReservedCgroup",
    "kube-reserved-compressible": "kubeReservedCgroup",
}
"""What enforceNodeAllocatable may name besides, and the field with the cgroup that it needs."""
_ALLOWLIST: Final = "NeverVerifyAllowlistedImages"


def configuration_errors(configuration: KubeletConfiguration) -> Iterator[str]:
    """What is wrong with values, each by itself or together with others."""
    yield from _choices(configuration)
    yield from _numbers(configuration)
    yield from _ages(configuration)
    yield from _enforcements(configuration)
    yield from _paths(configuration)
    most = configuration.max_parallel_image_pulls
    if most is not None and most < 1:
        yield f"maxParallelImagePulls {most} must be a positive number"
    if configuration.run_once:
        yield "runOnce mode has been deprecated and should not be set"
    if configuration.system_cgroups and not configuration.cgroup_root:
        yield "systemCgroups was specified and cgroupRoot was not specified"
    if not configuration.container_runtime_endpoint:
        yield "the containerRuntimeEndpoint was not specified or empty"
    if configuration.enable_system_log_query and not configuration.enable_system_log_handler:
        yield "enableSystemLogHandler is required for enableSystemLogQuery"
    policy = configuration.image_pull_credentials_verification_policy
    if configuration.preloaded_images_verification_allowlist and policy != _ALLOWLIST:
        yield (
            "can't set preloadedImagesVerificationAllowlist if imagePullCredentialsVerificationPolicy is not"
            f' "{_ALLOWLIST}"'
        )


def _choices(configuration: KubeletConfiguration) -> Iterator[str]:
    one_of = {
        "hairpinMode": (configuration.hairpin_mode, ("none", "hairpin-veth", "promiscuous-bridge")),
        "memorySwap.swapBehavior": (configuration.memory_swap.swap_behavior, ("", "LimitedSwap", "NoSwap")),
        "memoryReservationPolicy": (configuration.memory_reservation_policy, ("None", "TieredReservation")),
        "configMapAndSecretChangeDetectionStrategy": (
            configuration.config_map_and_secret_change_detection_strategy,
            ("Get", "Cache", "Watch"),
        ),
        "imagePullCredentialsVerificationPolicy": (
            configuration.image_pull_credentials_verification_policy,
            ("NeverVerify", "NeverVerifyPreloadedImages", _ALLOWLIST, "AlwaysVerify"),
        ),
    }
    for name, (value, allowed) in one_of.items():
        if value not in allowed:
            yield f"{name} {_quoted(value)} must be one of: {', '.join(map(_quoted, allowed))}"


def _numbers(configuration: KubeletConfiguration) -> Iterator[str]:
    least = {
        "eventBurst": (configuration.event_burst, 0),
        "eventRecordQPS": (configuration.event_record_qps, 0),
        "kubeAPIBurst": (configuration.kube_api_burst, 0),
        "kubeAPIQPS": (configuration.kube_api_qps, 0),
        "maxOpenFiles": (configuration.max_open_files, 0),
        "podsPerCore": (configuration.pods_per_core, 0),
        "registryBurst": (configuration.registry_burst, 0),
        "registryPullQPS": (configuration.registry_pull_qps, 0),
        "nodeStatusMaxImages": (configuration.node_status_max_images, -1),
        "nodeLeaseDurationSeconds": (configuration.node_lease_duration_seconds, 1),
        "containerLogMaxWorkers": (configuration.container_log_max_workers, 1),
        "containerLogMaxFiles": (configuration.container_log_max_files, 2),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            yield (
                f"{name} {value} must not be less than {bound}"
                if bound
                else f"{name} {value} must not be a negative number"
            )
    between = {
        "iptablesDropBit": (configuration.iptables_drop_bit, 0, 31),
        "iptablesMasqueradeBit": (configuration.iptables_masquerade_bit, 0, 31),
        "oomScoreAdj": (configuration.oom_score_adj, -1000, 1000),
    }
    for name, (value, low, high) in between.items():
        if not low <= value <= high:
            yield f"{name} {value} must be between {low} and {high}, inclusive"
    factor = configuration.memory_throttling_factor
    if not 0 < factor <= 1:
        yield f"memoryThrottlingFactor {factor:g} must be greater than 0 and less than or equal to 1.0"


def _ages(configuration: KubeletConfiguration) -> Iterator[str]:
    between = {
        "cpuCFSQuotaPeriod": (configuration.cpu_cfs_quota_period, 0.001, 1.0),
        "crashLoopBackOff.maxContainerRestartPeriod": (
            configuration.crash_loop_back_off.max_container_restart_period,
            1.0,
            300.0,
        ),
    }
    for name, (value, low, high) in between.items():
        if not low <= value <= high:
            yield f"{name} {go_duration(value)} must be between {go_duration(low)} and {go_duration(high)}, inclusive"
    least, most = configuration.image_minimum_gc_age, configuration.image_maximum_gc_age
    if 0 < most <= least:
        yield f"imageMaximumGCAge {go_duration(most)} must be greater than imageMinimumGCAge {go_duration(least)}"
    if configuration.container_log_monitor_interval < 3:
        yield "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s"


def _enforcements(configuration: KubeletConfiguration) -> Iterator[str]:
    found = configuration.enforce_node_allocatable
    where = "in enforceNodeAllocatable"
    cgroups = {
        "systemReservedCgroup": configuration.system_reserved_cgroup,
        "kubeReservedCgroup": configuration.kube_reserved_cgroup,
    }
    for name in ("system-reserved", "kube-reserved"):
        if {name, f"{name}-compressible"} <= set(found):
            yield f'both "{name}" and "{name}-compressible" cannot be specified together {where}'
    for position, name in enumerate(found):
        if name in found[:position]:
            yield f"duplicated enforcements {_quoted(name)} {where}"
        elif name == _NONE:
            if len(found) > 1:
                yield 'enforceNodeAllocatable may not contain additional enforcements when "none" is specified'
        elif name != _PODS and name not in _RESERVED:
            allowed = ", ".join(map(_quoted, (_PODS, *_RESERVED, _NONE)))
            yield f"option {_quoted(name)} specified for enforceNodeAllocatable. Valid options are {allowed}"
        else:
            field = _RESERVED.get(name)
            if field is not None and not cgroups[field]:
                yield f"{field} must be specified when {_quoted(name)} included {where}"
            if not configuration.cgroups_per_qos:
                yield f"cgroupsPerQOS must be set to true when {_quoted(name)} contained {where}"


def _paths(configuration: KubeletConfiguration) -> Iterator[str]:
    logs = configuration.pod_logs_dir
    if not logs:
        yield "podLogsDir was not specified"
    elif not logs.startswith("/"):
        yield f"pod logs path {_quoted(logs)} must be absolute path"
    elif posixpath.normpath(logs) != logs:
        yield f"pod logs path {_quoted(logs)} must be normalized"
    if not logs.isascii():
        yield f"pod logs path {_quoted(logs)} must contain ASCII characters only"


def _quoted(text: str) -> str:
    return f'"{text}"'
