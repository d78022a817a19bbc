"""The cgroups of a node's pods, as its kubelet's configuration wants them."""

from __future__ import annotations

from bayplan.kubelet.cgroups.hierarchies import Hierarchies
from bayplan.kubelet.cgroups.mounts import find_mounts
from bayplan.kubelet.cgroups.names import parse_root
from bayplan.kubelet.cgroups.pods import CgroupSettings, PodCgroups, QosCgroups
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.errors import ConfigurationError
from bayplan.support.clock import Clock


def make_cgroups(
    configuration: KubeletConfiguration, clock: Clock
) -> tuple[Hierarchies | None, QosCgroups | None, PodCgroups | None]:
    """The hierarchies, and the cgroups of QoS classes and pods in them; None without `cgroupsPerQOS`. Raises ConfigurationError, CgroupError."""
    if not configuration.cgroups_per_qos:
        return None, None, None
    hierarchies = Hierarchies(find_mounts())
    if not hierarchies.is_unified and configuration.fail_cgroup_v1:
        raise ConfigurationError(
            "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will "
            "be removed in a future release: set failCgroupV1: false in the kubelet's configuration to run anyway"
        )
    settings = CgroupSettings(
        root=parse_root(configuration.cgroup_root, configuration.cgroup_driver),
        driver=configuration.cgroup_driver,
        cpu_quota=configuration.cpu_cfs_quota,
        cpu_period=int(configuration.cpu_cfs_quota_period * 1_000_000),
        pids_limit=configuration.pod_pids_limit,
    )
    return hierarchies, QosCgroups(hierarchies, settings), PodCgroups(hierarchies, settings, clock)
