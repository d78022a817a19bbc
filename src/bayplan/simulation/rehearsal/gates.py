"""Which feature gates that bear on the scheduler changed from Kubernetes 1.33 to 1.36: one row per gate.

The rows are those of the versioned specifications in kubernetes/kubernetes, `pkg/features/kube_features.go`, for the gates that
`pkg/scheduler` reads, as far as their default or their lock changed in these releases. No such gate was switched off by default
again, so the release that switched it on says its default in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

VERSIONS: Final = ("1.33", "1.34", "1.35", "1.36")
"""Those whose rules are known, oldest first."""
LATEST: Final = VERSIONS[-1]


@dataclass(frozen=True, slots=True)
class GateHistory:
    """The defaults of one gate over the releases."""

    name: str
    on_since: str
    """The release from which it is on by default."""
    locked_since: str
    """The release from which it cannot be set otherwise; "" for none up to 1.36."""
    decides: str
    """What pods see of it where it is off; "" if it changes when the scheduler works but not where pods go."""

    def is_on(self, version: str) -> bool:
        """Its default in a release of `VERSIONS`."""
        return VERSIONS.index(version) >= VERSIONS.index(self.on_since)

    def is_locked(self, version: str) -> bool:
        """Whether its default holds in a release whatever is configured."""
        return bool(self.locked_since) and VERSIONS.index(version) >= VERSIONS.index(self.locked_since)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "gate": self.name,
            "onSince": self.on_since,
            "lockedSince": self.locked_since,
            "withoutIt": self.decides,
        }


HISTORIES: Final = (
    GateHistory("DynamicResourceAllocation", "1.34", "1.35", "claims for devices are dropped: pods go anywhere"),
    GateHistory("DRAAdminAccess", "1.34", "1.36", "requests for administrative access take devices of their own"),
    GateHistory("DRAPrioritizedList", "1.34", "", "claims with alternatives (firstAvailable) are refused"),
    GateHistory("DRASchedulerFilterTimeout", "1.34", "", ""),
    GateHistory("PodLevelResources", "1.34", "", "requests of a whole pod are dropped: those of its containers count"),
    GateHistory("SchedulerQueueingHints", "1.33", "1.34", ""),
    GateHistory("VolumeAttributesClass", "1.34", "1.36", "classes of attributes of claims and volumes are dropped"),
    GateHistory("InPlacePodVerticalScaling", "1.33", "1.35", ""),
    GateHistory("NominatedNodeNameForExpectation", "1.35", "", ""),
    GateHistory("OpportunisticBatching", "1.35", "", ""),
    GateHistory("DRAConsumableCapacity", "1.36", "", "a device is for one claim; capacity in requests is dropped"),
    GateHistory("DRADeviceBindingConditions", "1.36", "", "pods do not wait until a device is prepared"),
    GateHistory("DRADeviceTaints", "1.36", "", "taints of devices are dropped, and tolerations of requests"),
    GateHistory("DRAExtendedResource", "1.36", "", "device classes do not offer extended resources"),
    GateHistory(
        "DRAPartitionableDevices", "1.36", "", "shared counters and node selection of single devices are dropped"
    ),
    GateHistory(
        "InPlacePodLevelResourcesVerticalScaling", "1.36", "", "what a kubelet allocated to a whole pod is ignored"
    ),
    GateHistory("NodeDeclaredFeatures", "1.36", "", "pods go to nodes that do not declare the features they need"),
)
"""In the order in which they were switched on or locked."""


def gates_on(version: str) -> frozenset[str]:
    """Those of `HISTORIES` that are on by default in a release of `VERSIONS`."""
    return frozenset(one.name for one in HISTORIES if one.is_on(version))


def changes(first: str, second: str) -> tuple[GateHistory, ...]:
    """Gates whose default or lock differs between two releases."""
    return tuple(
        one
        for one in HISTORIES
        if one.is_on(first) != one.is_on(second) or one.is_locked(first) != one.is_locked(second)
    )
