"""Bayplan's own feature gates. All are off unless they are named: then the API is that of Kubernetes."""

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

WORKLOAD_GATES: Final = {
    GENERIC_WORKLOAD: (),
    GANG_SCHEDULING: (GENERIC_WORKLOAD,),
    TOPOLOGY_AWARE: (GENERIC_WORKLOAD,),
    WORKLOAD_PREEMPTION: (GANG_SCHEDULING,),
    WORKLOAD_WITH_JOB: (GENERIC_WORKLOAD,),
}
"""Kubernetes' gates for pod groups that Bayplan follows, with the gates that each needs; all alpha and off in 1.36."""

ALL_GATES: Final = frozenset((AFFINITY_DURING_EXECUTION,))
_MARK: Final = b"RequiredDuringExecution"
"""In the names of all fields of gates."""


def may_have_gated_fields(data: bytes, gates: Collection[str]) -> bool:
    """Whether JSON may have fields of a gate that is not among those that are on. Costs one search for a text."""
    return _MARK in data and AFFINITY_DURING_EXECUTION not in gates
