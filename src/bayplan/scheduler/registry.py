"""The one ordered table of plugins, and third parties' plugins from the entry point group `bayplan.plugins`.

The order is the order in which plugins run at each extension point; the first plugin that refuses a node gives the
reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from bayplan.scheduler.configuration.older_names import OLDER_NAMES
from bayplan.scheduler.framework import arguments, extra_arguments
from bayplan.scheduler.framework.extension_points import Plugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP: Final = "bayplan.plugins"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table: where the plugin's class is, its weight in the default profile, its type of arguments."""

    name: str
    module: str
    weight: int = 0
    arguments: type | None = None

    def load(self) -> type[Plugin]:
        """The plugin's class, imported when first needed."""
        module = importlib.import_module(f"bayplan.scheduler.plugins.{self.module}")
        return cast(type[Plugin], getattr(module, self.name))


DEFAULT_PLUGINS: Final = (
    Entry("SchedulingGates", "scheduling_gates"),
    Entry("PrioritySort", "priority_sort"),
    Entry("NodeUnschedulable", "node_unschedulable"),
    Entry("NodeName", "node_name"),
    Entry("TaintToleration", "taint_toleration", 3),
    Entry("NodeAffinity", "node_affinity", 2, arguments.NodeAffinityArgs),
    Entry("NodePorts", "node_ports"),
    Entry("NodeResourcesFit", "node_resources_fit", 1, arguments.NodeResourcesFitArgs),
    Entry("VolumeRestrictions", "volume_restrictions"),
    Entry("NodeVolumeLimits", "node_volume_limits"),
    Entry("VolumeBinding", "volume_binding", 1, arguments.VolumeBindingArgs),
    Entry("VolumeZone", "volume_zone"),
    Entry("PodTopologySpread", "pod_topology_spread", 2, arguments.PodTopologySpreadArgs),
    Entry("InterPodAffinity", "inter_pod_affinity", 2, arguments.InterPodAffinityArgs),
    Entry("DynamicResources", "dynamic_resources", 2, arguments.DynamicResourcesArgs),
    Entry("DefaultPreemption", "default_preemption", 0, arguments.DefaultPreemptionArgs),
    Entry(
        "NodeResourcesBalancedAllocation",
        "node_resources_balanced_allocation",
        1,
        arguments.NodeResourcesBalancedAllocationArgs,
    ),
    Entry("ImageLocality", "image_locality", 1),
    Entry("DefaultBinder", "default_binder"),
    Entry("NodeDeclaredFeatures", "node_declared_features"),
    Entry("GangScheduling", "gang_scheduling"),
)

TOPOLOGY_PLUGINS: Final = (
    Entry("TopologyPlacementGenerator", "topology_placement_generator"),
    Entry("PodGroupPodsCount", "pod_group_pods_count", 1),
)
"""Plugins that the default profile has with the gate TopologyAwareWorkloadScheduling."""

CUSTOM_GROUP_PLUGINS: Final = (
    Entry("Coscheduling", "coscheduling", 0, extra_arguments.CoschedulingArgs),
    Entry("VolcanoPodGroups", "volcano_pod_groups"),
    Entry("JobSets", "job_sets"),
)
"""Plugins for the pod groups of other schedulers, for profiles that name them."""

FOR_OLDER_NAMES: Final = (
    Entry("EqualPriority", "policy.equal_priority"),
    Entry("NodeCondition", "policy.node_condition", 0, arguments.NodeConditionArgs),
    Entry("NodeLabel", "policy.node_label", 0, arguments.NodeLabelArgs),
    Entry("NodePreferAvoidPods", "policy.node_prefer_avoid_pods"),
    Entry("ServiceAffinity", "policy.service_affinity", 0, arguments.ServiceAffinityArgs),
    Entry("BalancedResourceAllocation", "policy.balanced_resource_allocation"),
    Entry("ResourceLimitsPriority", "policy.resource_limits"),
    Entry("SelectorSpreadPriority", "policy.selector_spread"),
    Entry("ServiceSpreadingPriority", "policy.selector_spread"),
)
"""Plugins that no default profile has."""

EXTRA_PLUGINS: Final = (
    Entry("TenantFairness", "extra.tenant_fairness", 0, extra_arguments.TenantFairnessArgs),
    Entry("EarliestDeadline", "extra.earliest_deadline", 0, extra_arguments.EarliestDeadlineArgs),
    Entry("DataLocality", "extra.data_locality", 0, extra_arguments.DataLocalityArgs),
    Entry("Interference", "extra.interference", 0, extra_arguments.InterferenceArgs),
    Entry("TimeSlots", "extra.time_slots", 0, extra_arguments.TimeSlotsArgs),
)
"""Plugins that kube-scheduler does not have, for profiles that name them."""

_BY_NAME: Final = {
    entry.name: entry
    for entry in (*DEFAULT_PLUGINS, *TOPOLOGY_PLUGINS, *CUSTOM_GROUP_PLUGINS, *FOR_OLDER_NAMES, *EXTRA_PLUGINS)
}


@lru_cache(maxsize=1)
def _third_party() -> dict[str, EntryPoint]:
    from importlib import metadata  # slow to import, and seldom needed

    return {point.name: point for point in metadata.entry_points(group=ENTRY_POINT_GROUP)}


_added: dict[str, type[Plugin]] = {}
"""Classes that are known for a while, without a package that is installed."""


@contextmanager
def known(plugin: type[Plugin]) -> Iterator[None]:
    """For a while, let profiles use a plugin by its class: in tests and notebooks, before its package is installed."""
    before = _added.get(plugin.name)
    _added[plugin.name] = plugin
    try:
        yield
    finally:
        if before is None:
            del _added[plugin.name]
        else:
            _added[plugin.name] = before


def known_names() -> list[str]:
    """The names of all plugins that a profile can use."""
    return [*dict.fromkeys((*_BY_NAME, *_third_party(), *_added))]


def is_known(name: str) -> bool:
    """Whether a plugin of that name exists, or an older name for one."""
    return name in _BY_NAME or name in OLDER_NAMES or name in _added or name in _third_party()


def is_built_in(plugin: Plugin) -> bool:
    """Whether a plugin is one of Bayplan's own."""
    entry = _BY_NAME.get(plugin.name)
    return entry is not None and type(plugin) is entry.load()


def plugin_class(name: str) -> type[Plugin]:
    """The class of a plugin (for an older name, that of the plugin behind it); KeyError if there is none."""
    if name in _added:
        return _added[name]
    older = OLDER_NAMES.get(name)
    entry = _BY_NAME.get(older.plugin if older is not None and name not in _BY_NAME else name)
    if entry is not None:
        return entry.load()
    return cast(type[Plugin], _third_party()[name].load())
