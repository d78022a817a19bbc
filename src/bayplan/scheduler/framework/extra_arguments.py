"""Arguments of the plugins in `plugins/extra` and of Coscheduling, typed and with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TenantQueue:
    """One queue of TenantFairness. Quantities are in the units of the scheduler's columns: milli-units of cpu, whole units of all else."""

    name: str
    weight: int = 1
    """How much of the cluster it should have, compared with the others."""
    quota: Mapping[str, int] = field(default_factory=dict)
    """By resource, what its pods may request together; a resource that is not named is not limited."""
    borrowing_limit: Mapping[str, int] | None = None
    """By resource, how much more it may use while other queues leave so much of their quotas; None for any amount."""


@dataclass(frozen=True, slots=True)
class TenantFairnessArgs:
    """TenantFairness: whose pods are scheduled first, and how much each may have."""

    queue_label: str = "bayplan.dev/queue"
    """Label of pods that names their queue; pods without it belong to the queue of their namespace."""
    resources: tuple[str, ...] = ()
    """Resources of which the shares are compared; all that nodes have if none are named."""
    queues: tuple[TenantQueue, ...] = ()


@dataclass(frozen=True, slots=True)
class CoschedulingArgs:
    """Coscheduling, under the names of kubernetes-sigs/scheduler-plugins; in seconds."""

    permit_waiting_time_seconds: int = 60
    """How long placed pods of a group that says nothing wait at Permit."""
    pod_group_backoff_seconds: int = 0
    """Accepted, without effect: the queue's back-off holds for groups as for pods."""


@dataclass(frozen=True, slots=True)
class EarliestDeadlineArgs:
    """EarliestDeadline: what is assumed of pods that do not say it, in seconds."""

    default_run_time: float = 0.0
    """How long pods run that do not say it."""
    margin: float = 0.0
    """Between the expected end and the deadline."""
    hopeless: str = "Refuse"
    """What becomes of pods that can no longer be done in time: `Refuse` keeps them out, `Last` schedules them behind all others."""


@dataclass(frozen=True, slots=True)
class DataLocalityArgs:
    """DataLocality: how much data in the same domain counts, in percent of data on the node itself."""

    topology_key: str = "topology.kubernetes.io/zone"
    domain_weight: int = 50


@dataclass(frozen=True, slots=True)
class InterferenceClass:
    """How much pods of a class disturb others, and how much others disturb them; both 0 to 100."""

    name: str
    noise: int = 0
    sensitivity: int = 0


@dataclass(frozen=True, slots=True)
class InterferenceArgs:
    """Interference: the classes of pods, and how much measured load counts (0 to 100)."""

    classes: tuple[InterferenceClass, ...] = ()
    load_weight: int = 50


@dataclass(frozen=True, slots=True)
class TimeSlot:
    """A slot that comes every week. Minutes count from midnight, in the slot's own offset from UTC; an end that is not later is on the next day."""

    name: str
    days: tuple[int, ...]
    """On which it begins: 0 is Monday."""
    start: int
    end: int
    utc_offset: int = 0
    """Minutes east of UTC."""


@dataclass(frozen=True, slots=True)
class TimeSlotsArgs:
    """TimeSlots: the slots that pods can name."""

    slots: tuple[TimeSlot, ...] = ()
