"""Names of predicates and priorities from before the scheduling framework, as plugins.

Each stands for a modern plugin at the extension points that the old name was about, with arguments where the old name
implied some. They can be used in a profile and in a `Policy` file; `docs/scheduler-names.md` lists them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bayplan.scheduler.framework.arguments import (
    ImageLocalityArgs,
    NodeConditionArgs,
    NodeResourcesFitArgs,
)

_ALIKE: Final = 0.8
"""How alike a name has to be that is proposed; 1 is equal."""
FILTER: Final = frozenset({"preFilter", "filter"})
SCORE: Final = frozenset({"preScore", "score"})
VOLUMES: Final = FILTER | {"reserve", "preBind"}


@dataclass(frozen=True, slots=True)
class OlderName:
    """What an older name stands for."""

    plugin: str
    """The modern plugin, or a plugin that exists for older names only."""
    points: frozenset[str]
    """The extension points at which it acts, wherever it is enabled."""
    arguments: object | None = None


PREDICATES: Final[dict[str, OlderName]] = {
    "CheckNodeUnschedulable": OlderName("NodeUnschedulable", FILTER),
    "PodFitsHost": OlderName("NodeName", FILTER),
    "HostName": OlderName("NodeName", FILTER),
    "PodFitsHostPorts": OlderName("NodePorts", FILTER),
    "PodFitsPorts": OlderName("NodePorts", FILTER),
    "MatchNodeSelector": OlderName("NodeAffinity", FILTER),
    "PodSelectorMatches": OlderName("NodeAffinity", FILTER),
    "PodFitsResources": OlderName("NodeResourcesFit", FILTER),
    "NoDiskConflict": OlderName("VolumeRestrictions", FILTER),
    "PodToleratesNodeTaints": OlderName("TaintToleration", FILTER),
    "CheckNodeLabelPresence": OlderName("NodeLabel", FILTER),
    "CheckServiceAffinity": OlderName("ServiceAffinity", FILTER),
    "CheckNodeMemoryPressure": OlderName("NodeCondition", FILTER, NodeConditionArgs("MemoryPressure")),
    "CheckNodeDiskPressure": OlderName("NodeCondition", FILTER, NodeConditionArgs("DiskPressure")),
    "CheckNodePIDPressure": OlderName("NodeCondition", FILTER, NodeConditionArgs("PIDPressure")),
    "CheckNodeCondition": OlderName("NodeCondition", FILTER, NodeConditionArgs("Ready")),
    "MaxEBSVolumeCount": OlderName("NodeVolumeLimits", FILTER),
    "MaxGCEPDVolumeCount": OlderName("NodeVolumeLimits", FILTER),
    "MaxCSIVolumeCountPred": OlderName("NodeVolumeLimits", FILTER),
    "MaxAzureDiskVolumeCount": OlderName("NodeVolumeLimits", FILTER),
    "MaxCinderVolumeCount": OlderName("NodeVolumeLimits", FILTER),
    "CheckVolumeBinding": OlderName("VolumeBinding", VOLUMES),
    "NoVolumeNodeConflict": OlderName("VolumeBinding", VOLUMES),
    "NoVolumeZoneConflict": OlderName("VolumeZone", FILTER),
    "EvenPodsSpread": OlderName("PodTopologySpread", FILTER),
    "MatchInterPodAffinity": OlderName("InterPodAffinity", FILTER),
}
"""In the order in which they were asked."""

GENERAL: Final = ("HostName", "PodFitsHostPorts", "MatchNodeSelector", "PodFitsResources")
"""What `GeneralPredicates` (and `GeneralPred`) stands for."""

MANDATORY: Final = ("CheckNodeUnschedulable", "PodToleratesNodeTaints")
"""Predicates that every `Policy` has, named or not."""

DEFAULT_PREDICATES: Final = (
    *GENERAL,
    "NoDiskConflict",
    "MaxCSIVolumeCountPred",
    "CheckVolumeBinding",
    "NoVolumeZoneConflict",
    "EvenPodsSpread",
    "MatchInterPodAffinity",
)
"""What a `Policy` without `predicates` has besides the mandatory ones."""

PRIORITIES: Final[dict[str, OlderName]] = {
    "SelectorSpreadPriority": OlderName("SelectorSpreadPriority", SCORE),
    "ServiceSpreadingPriority": OlderName("ServiceSpreadingPriority", SCORE),
    "EvenPodsSpreadPriority": OlderName("PodTopologySpread", SCORE),
    "InterPodAffinityPriority": OlderName("InterPodAffinity", SCORE),
    "LeastRequestedPriority": OlderName("NodeResourcesFit", SCORE, NodeResourcesFitArgs(strategy="LeastAllocated")),
    "MostRequestedPriority": OlderName("NodeResourcesFit", SCORE, NodeResourcesFitArgs(strategy="MostAllocated")),
    "BalancedResourceAllocation": OlderName("BalancedResourceAllocation", SCORE),
    "NodePreferAvoidPodsPriority": OlderName("NodePreferAvoidPods", SCORE),
    "NodeAffinityPriority": OlderName("NodeAffinity", SCORE),
    "TaintTolerationPriority": OlderName("TaintToleration", SCORE),
    "ImageLocalityPriority": OlderName("ImageLocality", SCORE, ImageLocalityArgs()),
    "EqualPriority": OlderName("EqualPriority", SCORE),
    "ResourceLimitsPriority": OlderName("ResourceLimitsPriority", SCORE),
}

DEFAULT_PRIORITIES: Final = {
    "SelectorSpreadPriority": 1,
    "InterPodAffinityPriority": 1,
    "LeastRequestedPriority": 1,
    "BalancedResourceAllocation": 1,
    "NodePreferAvoidPodsPriority": 10_000,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
    "ImageLocalityPriority": 1,
    "EvenPodsSpreadPriority": 2,
}
"""What a `Policy` without `priorities` has, with weights."""

REMOVED_IN_V1: Final = {
    name: OlderName("NodeVolumeLimits", FILTER)
    for name in ("EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits")
}
"""Plugins that v1beta3 has and v1 refuses; the driver's limits count for these volumes now."""

OLDER_NAMES: Final = PREDICATES | PRIORITIES | REMOVED_IN_V1


def near(name: str, known: Iterable[str]) -> str:
    """What to add to the message that a name is unknown: the known one that is nearest; "" if none is near."""
    found = difflib.get_close_matches(name, list(known), 1, _ALIKE)
    return f"; did you mean {found[0]}?" if found else ""
