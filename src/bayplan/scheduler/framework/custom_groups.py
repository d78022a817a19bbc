"""Plugins that let pod groups of other schedulers count as those of Kubernetes: what each such kind of group says, and when its pods may be tried.

A plugin reads the custom resource and names the group of a pod; from there on the group is one like any other, placed in one cycle or not at
all. What the group has besides (`minResources`, a queue) keeps its pods out of the queue until it holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from bayplan.api.types import meta_v1
from bayplan.api.types import scheduling_v1alpha2 as scheduling
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import PreEnqueuePlugin
from bayplan.scheduler.framework.state import Handle, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Reject, Status
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup, GroupQueue, custom_name
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.scheduler.snapshot.resources import amount_of

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod

Tree = Mapping[str, Any]
PODS: Final = "pods"
_CPU: Final = "cpu"
QUEUE: Final = "GroupQueue"
"""The resource of events about queues of custom groups."""


class MalformedGroup(ValueError):
    """A custom resource does not say what its kind says; the text names the field."""


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """What is known of a group besides the group itself, for its status."""

    pods: Sequence[Pod]
    """All pods that name the group, those that have ended included."""
    placed: int
    """How many of them were given nodes, bound or not yet."""
    refusal: str
    """Why its pods are not placed, or may not be tried; empty if that is not so."""
    now: str
    """RFC 3339."""
    transition_id: str
    """A new identifier for a condition that changes."""


class CustomGroupsPlugin(PreEnqueuePlugin):
    """Base of such plugins; see the module."""

    tells = True
    api_group: ClassVar[str]
    version: ClassVar[str]
    kind: ClassVar[str] = "PodGroup"
    plural: ClassVar[str] = "podgroups"
    has_own_status: ClassVar[bool] = True
    """Whether the scheduler writes the status of groups; otherwise another controller does."""
    has_queues: ClassVar[bool] = False
    """Whether the API group has cluster-wide `Queue` objects."""
    default_queue: ClassVar[str] = ""
    """The queue of groups that name none; it need not exist."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args = args
        self._known: dict[str, tuple[object, str]] = {}

    # Reading

    @abstractmethod
    def group_name(self, pod: Pod) -> str:
        """The name of the group to which a pod says that it belongs; empty if it says nothing."""

    def read_group(self, metadata: meta_v1.ObjectMeta, content: Tree) -> CustomPodGroup:
        """A group from its custom resource. Raises MalformedGroup."""
        spec = content.get("spec") or {}
        if not isinstance(spec, Mapping):
            raise MalformedGroup("spec: must be an object")
        status = content.get("status")
        policy = scheduling.PodGroupSchedulingPolicy(
            gang=scheduling.GangSchedulingPolicy(min_count=whole(spec, "minMember"))
        )
        return CustomPodGroup(
            metadata=meta_v1.ObjectMeta(
                name=custom_name(self.api_group, metadata.name),
                namespace=metadata.namespace,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
                generation=metadata.generation,
                creation_timestamp=metadata.creation_timestamp,
                annotations=metadata.annotations,
            ),
            spec=scheduling.PodGroupSpec(scheduling_policy=policy),
            origin=self.api_group,
            min_resources=amounts(spec.get("minResources"), "spec.minResources"),
            permit_seconds=self.permit_seconds(spec),
            queue=self.queue_of(spec),
            written_status=dict(status) if isinstance(status, Mapping) else {},
        )

    def permit_seconds(self, spec: Tree) -> float | None:
        """How long placed pods of a group wait at Permit. Raises MalformedGroup."""
        return None

    def queue_of(self, spec: Tree) -> str:
        """The queue of a group."""
        return ""

    def read_queue(self, metadata: meta_v1.ObjectMeta, content: Tree) -> GroupQueue:
        """A queue from its custom resource; for plugins that have queues. Raises MalformedGroup."""
        raise NotImplementedError(f"{self.name} has no queues")

    @abstractmethod
    def status_of(self, group: CustomPodGroup, progress: GroupProgress) -> dict[str, Any]:
        """The status that the custom resource should have now."""

    # Deciding

    def concerns(self, pod: PodShape) -> bool:
        return pod.spec.scheduling_group is not None

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        group = self.snapshot.catalog.pod_groups.get(group_key(pod.pod))
        if not isinstance(group, CustomPodGroup) or group.origin != self.api_group:
            return None
        reason = self.refusal(group, pod)
        return Reject(Status.UNRESOLVABLE, (reason,)) if reason else None

    def refusal(self, group: CustomPodGroup, pod: PodInfo | None = None) -> str:
        """Why the pods of a group may not be tried; empty if they may. `pod`: one of them."""
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        catalog = self.snapshot.catalog
        state = (self.snapshot.position, self.snapshot.structure, catalog.version, group, pod and pod.shape)
        known = self._known.get(key)
        if known is None or known[0] != state:
            reason = self._queue_refusal(group, key, pod) or self._lack(group, key)
            self._known = {key: (state, reason)}  # one gang after the other is asked about
            return reason
        return known[1]

    def _lack(self, group: CustomPodGroup, key: str) -> str:
        """What the cluster lacks of the group's `minResources`, its own pods not counted."""
        if not group.min_resources:
            return ""
        own = self._taken([key])
        lacking = []
        for resource, amount in {**group.min_resources, PODS: group.min_count}.items():
            missing = amount - own.get(resource, 0) - self._free(resource)
            if missing > 0:
                lacking.append(f"{shown(resource, missing)} {resource}")
        return f"the cluster lacks {', '.join(lacking)} of minResources of pod group {key}" if lacking else ""

    def _queue_refusal(self, group: CustomPodGroup, key: str, pod: PodInfo | None) -> str:
        """What the group's queue has against it."""
        queues = self.snapshot.catalog.queues
        if not group.queue or queues is None:
            return ""
        queue = queues.get(group.queue)
        if queue is None:
            if group.queue == self.default_queue:
                return ""
            return f'queue "{group.queue}" does not exist'
        if not queue.is_open:
            return f'queue "{group.queue}" is closed'
        if not queue.capability:
            return ""
        used, wanted = self._taken(self._groups_in(group.queue)), self._wanted(group, key, pod)
        for resource, most in queue.capability.items():
            after = used.get(resource, 0) + wanted.get(resource, 0)
            if wanted.get(resource, 0) > 0 and after > most:
                would = f"{shown(resource, after)} {resource} of its capability of {shown(resource, most)}"
                return f'queue "{group.queue}" would use {would}'
        return ""

    def _wanted(self, group: CustomPodGroup, key: str, pod: PodInfo | None) -> dict[str, int]:
        """What the group takes more if it is placed: its `minResources`, or as if all its pods were like the given one."""
        if group.min_resources:
            own = self._taken([key])
            return {name: amount - own.get(name, 0) for name, amount in group.min_resources.items()}
        if pod is None:
            return {}
        count = max(group.min_count - self.snapshot.gangs.count_placed(key), 1)
        names = self.snapshot.resources.names
        return {names[column]: amount * count for column, amount in pod.requests}

    def _groups_in(self, queue: str) -> list[str]:
        groups = self.snapshot.catalog.pod_groups.items()
        return [key for key, one in groups if isinstance(one, CustomPodGroup) and one.queue == queue]

    def _taken(self, groups: Sequence[str]) -> dict[str, int]:
        """What the placed pods of some groups request."""
        names, pods, total = self.snapshot.resources.names, self.snapshot.pods, dict[str, int]()
        for key in groups:
            for member in self.snapshot.gangs.members(key):
                info = pods.get(member)
                if info is None:
                    continue
                total[PODS] = total.get(PODS, 0) + 1
                for column, amount in info.requests:
                    total[names[column]] = total.get(names[column], 0) + amount
        return total

    def _free(self, resource: str) -> int:
        """What all nodes together have left of a resource."""
        snapshot = self.snapshot
        rows = snapshot.all_rows
        if resource == PODS:
            return int(snapshot.places[rows][snapshot.alive[rows]].clip(0).sum())
        column = snapshot.resources.find(resource)
        return 0 if column is None else int(snapshot.free[column, rows][snapshot.alive[rows]].clip(0).sum())

    def partition_of(self, pod: PodInfo) -> Hashable:
        return group_key(pod.pod)

    def events(self) -> tuple[EventHint, ...]:
        return (
            EventHint("Node", Action.ADD | Action.NODE_ALLOCATABLE, self._may_be_tried, per_shape=True),
            EventHint("Pod", Action.DELETE | Action.POD_SCALE_DOWN, self._may_be_tried, per_shape=True),
            EventHint("PodGroup", Action.ADD | Action.UPDATE, self._may_be_tried, per_shape=True),
            EventHint(QUEUE, Action.ADD | Action.UPDATE | Action.DELETE, self._may_be_tried, per_shape=True),
        )

    def _may_be_tried(self, pod: PodInfo, old: Any, new: Any) -> bool:
        return self.pre_enqueue(pod) is None


# Values of custom resources


def whole(spec: Tree, key: str) -> int:
    """A whole number that is not negative, 0 if it is missing. Raises MalformedGroup."""
    value = spec.get(key) or 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise MalformedGroup(f"spec.{key}: {value!r} must be a whole number that is not negative")
    return value


def amounts(value: Any, path: str) -> dict[str, int]:
    """Quantities by resource, in the units of the scheduler's columns. Raises MalformedGroup."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise MalformedGroup(f"{path}: must be an object")
    found = {}
    for name, quantity in value.items():
        try:
            found[str(name)] = amount_of(str(name), quantity)
        except (TypeError, ValueError) as error:
            raise MalformedGroup(f"{path}.{name}: {quantity!r} must be a quantity, such as 500m or 2Gi") from error
    return found


def shown(resource: str, amount: int) -> str:
    """An amount as people write it."""
    if resource != _CPU:
        return str(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
