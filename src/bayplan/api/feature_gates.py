"""Feature gates that have an effect: Bayplan's own, and those of Kubernetes' alpha features that it follows.

All are off unless they are named: then the API is that of Kubernetes with its defaults.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

AFFINITY_DURING_EXECUTION: Final = "AffinityDuringExecution"
"""Affinity rules that hold while a pod runs (`execution_rules`): fields of the API, and the controller that evicts."""

GENERIC_WORKLOAD: Final = "GenericWorkload"
GANG_SCHEDULING: Final = "GangScheduling"
TOPOLOGY_AWARE: Final = "TopologyAwareWorkloadScheduling"
WORKLOAD_PREEMPTION: Final = "WorkloadAwarePreemption"
WORKLOAD_WITH_JOB: Final = "WorkloadWithJob"

COMPOSITE_POD_GROUPS: Final = "CompositePodGroup"
"""Trees of pod groups, which only 1.37 has."""

POD_GROUP_PREEMPTION_POLICY: Final = "PodGroupPreemptionPolicy"
"""Whether groups may say that they evict nobody, which only 1.37 has."""

WORKLOAD_GATES: Final = {
    GENERIC_WORKLOAD: (),
    GANG_SCHEDULING: (GENERIC_WORKLOAD,),
    TOPOLOGY_AWARE: (GENERIC_WORKLOAD,),
    WORKLOAD_PREEMPTION: (GANG_SCHEDULING,),
    WORKLOAD_WITH_JOB: (GENERIC_WORKLOAD,),
    COMPOSITE_POD_GROUPS: (GENERIC_WORKLOAD, TOPOLOGY_AWARE),
    POD_GROUP_PREEMPTION_POLICY: (GENERIC_WORKLOAD,),
}
"""Kubernetes' gates for pod groups that Bayplan follows, with the gates that each needs; all alpha and off in 1.36."""
NEWER_GATES: Final = frozenset((COMPOSITE_POD_GROUPS, POD_GROUP_PREEMPTION_POLICY))
"""Those of them that 1.36 does not know."""

UNSAFE_DELETION: Final = "AllowUnsafeMalformedObjectDeletion"
"""Deletes of objects that cannot be read."""
API_GATES: Final = frozenset((UNSAFE_DELETION,))
"""Kubernetes' gates of the API server that Bayplan follows; alpha and off in 1.36."""

ALL_GATES: Final = frozenset((AFFINITY_DURING_EXECUTION,))
"""Bayplan's own gates."""
_MARK: Final = b"RequiredDuringExecution"
"""In the names of all fields of Bayplan's own gates."""


def may_have_gated_fields(data: bytes, gates: Collection[str]) -> bool:
    """Whether JSON may have fields of a gate that is not among those that are on. Costs one search for a text."""
    return _MARK in data and AFFINITY_DURING_EXECUTION not in gates


def missing_gates(gates: Collection[str]) -> list[tuple[str, tuple[str, ...]]]:
    """The gates of pod groups that are on while others are off that they need, with these, in the order of names."""
    found = []
    for name in sorted(WORKLOAD_GATES):
        missing = tuple(needed for needed in WORKLOAD_GATES[name] if needed not in gates)
        if name in gates and missing:
            found.append((name, missing))
    return found
