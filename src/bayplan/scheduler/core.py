"""The scheduler without its surroundings: events in, decisions out.

The service around it feeds `handle` with what informers see, calls `schedule_one` while there are pods, carries out the
decisions (binds, evicts, writes conditions) and reports back with `bound` or `binding_failed`. No I/O, no waiting.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from bayplan.scheduler.binding_cycle import BindingCycle, Failure
from bayplan.scheduler.cache import Cache
from bayplan.scheduler.configuration.settings import DEFAULT_SCHEDULER_NAME, SchedulerSettings
from bayplan.scheduler.cycle import Cycle, RandomChoice, RandomSource
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.extenders.protocol import Extender, Questions, unasked
from bayplan.scheduler.extenders.steps import decision_of
from bayplan.scheduler.framework.custom_groups import QUEUE
from bayplan.scheduler.framework.events import COMPOSITE, Action, ClusterEvent, EventHint
from bayplan.scheduler.framework.extension_points import GroupedQueueSortPlugin, Plugin, PreEnqueuePlugin
from bayplan.scheduler.framework.meter import Meter
from bayplan.scheduler.framework.verdicts import Reject, Status
from bayplan.scheduler.framework.waiting import WaitingPods
from bayplan.scheduler.gangs.composite_cycle import CompositeCycle, TreeOutcome
from bayplan.scheduler.gangs.custom_groups import CustomGroups
from bayplan.scheduler.gangs.gang_cycle import GANG, GangCycle, GroupResult, Member, minimum_of_group
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.queueing.changes import node_changes, object_change, pod_changes
from bayplan.scheduler.queueing.held_back import HeldBack
from bayplan.scheduler.queueing.nominator import Nominator
from bayplan.scheduler.queueing.queue import SchedulingQueue
from bayplan.scheduler.queueing.queued_pod import Clock, QueuedPod
from bayplan.scheduler.queueing.waiting_pods import Partition
from bayplan.scheduler.snapshot.catalog import KINDS, object_key
from bayplan.scheduler.snapshot.custom_groups import GroupQueue
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.scheduler.snapshot.group_trees import CompositeGroup, TreeError
from bayplan.scheduler.snapshot.pods import PodInfo, is_ended, pod_key
from bayplan.scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, Pod


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scheduling attempt: the decision, and the pod as it was queued (attempts, first seen).

    If `decision.scheduled`, the pod is assumed on `decision.node`, and the service owes a `bound` or
    `binding_failed`. If `decision.victims`, the service has to evict them; the pod is nominated already and held in
    the queue until the service calls `queue.release`.
    """

    decision: Decision
    queued: QueuedPod
    binding_cycle: BindingCycle | None = None
    """The plugins' share in binding the pod; None if nothing but the Binding is to be done."""
    group: GroupResult | None = None
    """What became of the pod's gang; with the first of the gang's outcomes."""
    composites: tuple[GroupResult, ...] = ()
    """What became of the composite groups above the gang; with the first outcome of their tree."""
    cleared: tuple[PodInfo, ...] = ()
    """Pods that lost their nomination; the service clears `status.nominatedNodeName`."""


class SchedulerCore:
    """Snapshot, queue and profiles of one scheduler. Not thread-safe; meant for one event loop."""

    def __init__(self, settings: SchedulerSettings, clock: Clock, randomness: RandomSource) -> None:
        self.settings = settings
        self.snapshot = Snapshot()
        self.cache = Cache(self.snapshot)
        self.nominator = Nominator()
        self.waiting = WaitingPods()
        self.held_back = HeldBack(clock)
        self._decided_already: deque[Outcome] = deque()
        """The other outcomes of a gang that was decided about as a whole."""
        self._choice = RandomChoice(randomness)
        self._meter: Meter | None = None
        self.cycles = self._cycles(settings)
        self.custom_groups = CustomGroups(cycle.profile for cycle in self.cycles.values())
        first = next(iter(self.cycles.values())).profile
        sorter = first.queue_sort[0]
        self.queue = SchedulingQueue(
            clock,
            sorter.sort_key,
            self._hints(),
            self._gated_by,
            settings.pod_initial_backoff_seconds,
            settings.pod_max_backoff_seconds,
            groups=sorter if isinstance(sorter, GroupedQueueSortPlugin) else None,
            partitions=self._partitions(),
            asked_again=self._asked_again,
        )

    def _cycles(self, settings: SchedulerSettings) -> dict[str, Cycle]:
        return {
            profile.scheduler_name: Cycle(Profile(profile, self.snapshot, self.waiting), self.nominator, self._choice)
            for profile in settings.profiles
        }

    def use(self, settings: SchedulerSettings) -> None:
        """Decide by another configuration with the same profiles from now on; all pods that wait are tried again.

        The order of the queue stays. Raises SettingsError, and nothing is changed, if the configuration is wrong.
        """
        self.cycles = self._cycles(settings)
        self.settings = settings
        self.custom_groups = CustomGroups(cycle.profile for cycle in self.cycles.values())
        self.queue.waiting.use(self._hints(), self._partitions())
        if self._meter is not None:
            self.measure(self._meter)
        self.queue.activate([queued.pod.key for queued in self.queue.pods()])

    def measure(self, meter: Meter) -> None:
        """Have the times of all profiles' plugins taken, and their counts read."""
        self._meter = meter
        for cycle in self.cycles.values():
            cycle.profile.meter = meter
            meter.evaluations(cycle.profile.name, cycle.profile.evaluations)

    def _hints(self) -> dict[str, tuple[EventHint, ...]]:
        return {
            name: plugin.events() for cycle in self.cycles.values() for name, plugin in cycle.profile.plugins.items()
        }

    def _partitions(self) -> dict[str, Partition]:
        """The plugins that divide waiting pods of one shape."""
        plugins = (item for cycle in self.cycles.values() for item in cycle.profile.plugins.items())
        return {
            name: plugin.partition_of
            for name, plugin in plugins
            if type(plugin).partition_of is not Plugin.partition_of
        }

    def _gated_by(self, pod: PodInfo) -> str | None:
        cycle = self.cycle_for(pod)
        gate = cycle.profile.gate(pod) if cycle is not None else None
        if cycle is None or gate is None:
            self.held_back.forget(pod)
            return None
        self.held_back.note(cycle.profile, pod, *gate)
        return gate[0]

    def _asked_again(self, pod: PodInfo, plugin: str) -> float | None:
        cycle = self.cycle_for(pod)
        gate = cycle.profile.plugins.get(plugin) if cycle is not None else None
        if not isinstance(gate, PreEnqueuePlugin):
            return None
        times = (gate.asked_again(pod), self.held_back.tells_in(pod, gate))
        return min((seconds for seconds in times if seconds is not None), default=None)

    def cycle_for(self, pod: PodInfo) -> Cycle | None:
        """The cycle of the profile that schedules a pod; None if another scheduler does."""
        return self.cycles.get(pod.pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME)

    # Events

    def handle(self, kind: str, old: Any, new: Any) -> None:
        """An object was added (`old` None), changed or deleted (`new` None). Kinds without bearing are ignored."""
        if kind == "Node":
            self._handle_node(old, new)
        elif kind == "Pod":
            self._handle_pod(old, new)
        elif kind in KINDS:
            if new is not None:
                self.snapshot.put_object(kind, new)
            else:
                self.snapshot.remove_object(kind, object_key(old))
            self.queue.move(object_change(kind, old, new), old, new)

    def _handle_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self.snapshot.remove_node(old.metadata.name)
                self.queue.move(ClusterEvent("Node", Action.DELETE), old, None)
            return
        self.snapshot.put_node(new)
        events = [ClusterEvent("Node", Action.ADD)] if old is None else node_changes(old, new)
        for event in events:
            self.queue.move(event, old, new)

    def put_composite(self, key: str, composite: CompositeGroup | None) -> None:
        """A composite group (`namespace/name`) is there or has changed; None if it is gone."""
        before = self.snapshot.catalog.trees.composites.get(key)
        self.snapshot.catalog.put_composite(key, composite)
        event = ClusterEvent(COMPOSITE, Action.UPDATE if composite is not None else Action.DELETE)
        self.queue.move(event, before, composite)

    def put_queue(self, name: str, queue: GroupQueue | None) -> None:
        """A queue of custom pod groups is there or has changed; None if it is gone."""
        self.snapshot.catalog.put_queue(name, queue)
        self.queue.move(ClusterEvent(QUEUE, Action.UPDATE if queue is not None else Action.DELETE), None, queue)

    def _handle_pod(self, old: Pod | None, new: Pod | None) -> None:
        if self.custom_groups:
            old = self.custom_groups.joined(old) if old is not None else None
            new = self.custom_groups.joined(new) if new is not None else None
        pod = new if new is not None else old
        if pod is not None and pod.spec.scheduling_group is not None:
            if new is None or is_ended(new):
                self.snapshot.gangs.remove(group_key(pod), pod_key(pod))
            else:
                self.snapshot.gangs.add(group_key(pod), pod_key(pod))
        if new is None:
            if old is not None:
                self._pod_gone(old)
        elif is_ended(new):
            self._pod_gone(new)
        elif new.spec.node_name:
            self._pod_on_node(old, new)
        else:
            self._pod_pending(old, new)

    def _pod_on_node(self, old: Pod | None, new: Pod) -> None:
        key = pod_key(new)
        self.nominator.remove(key)
        self.queue.remove(key)
        self.cache.put_pod(new)
        if old is None or not old.spec.node_name:
            self.queue.move(ClusterEvent("Pod", Action.ADD), None, new)
            return
        for event in pod_changes(old, new):
            self.queue.move(event, old, new)

    def _pod_pending(self, old: Pod | None, new: Pod) -> None:
        key = pod_key(new)
        if self.cache.is_assumed(key):
            if old is not None and key in self.queue:
                self.queue.update(self.snapshot.pod_info(new, pending=True), pod_changes(old, new))
            return
        queued = self.queue.get(key)
        info = self.snapshot.pod_info(new, pending=True, before=queued.pod if queued is not None else None)
        if self.cycle_for(info) is None:
            return
        if new.status.nominated_node_name and self._gated_by(info) is None:
            self.nominator.add(info, new.status.nominated_node_name)
        if old is None or queued is None:
            self.queue.add(info)
            if new.spec.scheduling_group is not None:
                self.queue.move(ClusterEvent("UnscheduledPod", Action.ADD), None, new)
            return
        changes = pod_changes(old, new)
        if changes or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp:
            self.queue.update(info, changes)
        else:
            self.queue.refresh(info)

    def _pod_gone(self, pod: Pod) -> None:
        key = pod_key(pod)
        waiting = self.waiting.get(pod.metadata.uid)
        if waiting is not None:
            waiting.reject("", "removed")
        self.nominator.remove(key)
        self.queue.remove(key)
        self.cache.remove_pod(pod)
        self.queue.move(ClusterEvent("Pod", Action.DELETE), pod, None)

    # Scheduling

    @property
    def has_more_of_group(self) -> bool:
        """Whether the next outcome is one of the same group, or tree of groups, as the last one."""
        return bool(self._decided_already)

    def schedule_one(self) -> Outcome | None:
        """Decide about the next pod; None if no pod is ready. Extenders are not asked."""
        if self._decided_already:
            return self._decided_already.popleft()
        queued = self.queue.pop()
        if queued is None:
            return None
        cycle = self._cycle_of(queued)
        min_count = minimum_of_group(self.snapshot, queued.pod.pod)
        if min_count is not None:
            return unasked(self._decide_gang(cycle, queued, min_count, ()))
        return self._decided(cycle, queued, cycle.decide(queued.pod, scored=False))

    def attempt(self) -> Questions[Outcome | None]:
        """As `schedule_one`, with questions to the extenders in between.

        Until the outcome is there, neither `handle` nor `binding_failed` may be called.
        """
        if self._decided_already:
            return self._decided_already.popleft()
        queued = self.queue.pop()
        if queued is None:
            return None
        cycle, extenders = self._cycle_of(queued), self.settings.extenders
        min_count = minimum_of_group(self.snapshot, queued.pod.pod)
        if min_count is not None:
            return (yield from self._decide_gang(cycle, queued, min_count, extenders))
        decision = yield from decision_of(cycle, extenders, queued.pod, scored=False)
        return self._decided(cycle, queued, decision)

    def _decide_gang(
        self, cycle: Cycle, first: QueuedPod, min_count: int, extenders: Sequence[Extender]
    ) -> Questions[Outcome]:
        """Decide about all pods of a gang, or of a tree of gangs, that are in the queue."""
        key, trees = group_key(first.pod.pod), self.snapshot.catalog.trees
        gang_cycle = GangCycle(cycle, self.cache, extenders)
        try:
            root = trees.root_of(key) if trees.is_child(key) else ""
            gangs = {leaf: self._taken(cycle, first, leaf) for leaf in (trees.leaves(root) if root else (key,))}
        except (TreeError, _MixedGangError) as error:
            return self._not_placeable(cycle, first, str(error))
        if not root:
            members, result = yield from gang_cycle.run(gangs[key], min_count)
            self._take_in(members, result, is_held=_makes_room(result))
        else:
            tree = yield from CompositeCycle(
                gang_cycle, root, {leaf: gang for leaf, gang in gangs.items() if gang}
            ).run()
            self._take_in_tree(tree)
        return self._decided_already.popleft()

    def _taken(self, cycle: Cycle, first: QueuedPod, group: str) -> list[QueuedPod]:
        """The pods of a group that are in the queue, taken out of it. Raises _MixedGangError."""
        gang: list[QueuedPod] = []
        for key in self.snapshot.gangs.members(group):
            queued = self.queue.get(key)
            if queued is None:
                continue
            if self.cycle_for(queued.pod) is not cycle:
                raise _MixedGangError(first, queued)
            taken = queued if queued is first else self.queue.take(key)
            if taken is not None:
                gang.append(taken)
        return sorted(gang, key=lambda item: (-item.pod.priority, item.first_seen))

    def _take_in(
        self, members: Sequence[Member], result: GroupResult, composites: tuple[GroupResult, ...] = (), *, is_held: bool
    ) -> None:
        """Take note of what became of the pods of a gang."""
        for index, member in enumerate(members):
            outcome = self._of_gang(member, is_held=is_held)
            if index == 0:
                outcome = dataclasses.replace(outcome, group=result, composites=composites)
            self._decided_already.append(outcome)

    def _take_in_tree(self, tree: TreeOutcome) -> None:
        root, composites = tree.results[0], tuple(result for result in tree.results if result.is_composite)
        results = {result.key: result for result in tree.results if not result.is_composite}
        is_held = any(map(_makes_room, tree.results))
        for key, members in tree.members.items():
            result = results.get(key) or dataclasses.replace(root, key=key, is_composite=False, preemption=None)
            self._take_in(members, result, composites, is_held=is_held)
            composites = ()

    def _of_gang(self, member: Member, *, is_held: bool = False) -> Outcome:
        """One pod's outcome in its gang. `is_held`: room is being made for the gang, so it waits for `queue.release`."""
        decision, queued = member.decision, member.queued
        if member.binding_cycle is not None:
            self.nominator.remove(queued.pod.key)
            return Outcome(decision, queued, member.binding_cycle)
        if decision.skipped:
            self.queue.done(queued.pod.key)
            return Outcome(decision, queued)
        if decision.failure is not None:
            failure = decision.failure
            self.nominator.remove(queued.pod.key)
            if failure.nominated:
                self.nominator.add(queued.pod, failure.nominated)
            self.queue.reject(queued.pod.key, failure.plugins, error=not failure.unfit, held=is_held)
            return Outcome(decision, queued)
        return Outcome(decision, queued, cleared=self._unplaced(queued.pod, decision))

    def _not_placeable(self, cycle: Cycle, first: QueuedPod, message: str) -> Outcome:
        """The pod's gang cannot be placed as it is."""
        decision = cycle.opened(first.pod)
        decision.refuse(Failure(GANG, Reject(Status.ERROR, (message,)), False))
        return self._of_gang(Member(first, decision))

    def extenders_of(self, pod: PodInfo) -> tuple[Extender, ...]:
        """The extenders that have a say in a pod."""
        return tuple(item for item in self.settings.extenders if item.is_interested(pod.shape.spec))

    def _cycle_of(self, queued: QueuedPod) -> Cycle:
        cycle = self.cycle_for(queued.pod)
        if cycle is None:
            name = queued.pod.pod.spec.scheduler_name
            raise LookupError(f"pod {queued.pod.key} is queued, but no profile has schedulerName {name!r}")
        return cycle

    def _decided(self, cycle: Cycle, queued: QueuedPod, decision: Decision) -> Outcome:
        """Take note of a decision."""
        pod = queued.pod
        if decision.gate is not None:
            self.held_back.note(cycle.profile, pod, *decision.gate)
        if decision.scheduled and decision.node is not None:
            self.nominator.remove(pod.key)
            self.cache.assume(pod, decision.node)
            plugin_plan = cycle.profile.plugin_plan(pod.shape)
            if plugin_plan.plain and not (
                self.settings.extenders and any(item.bind_verb for item in self.extenders_of(pod))
            ):
                self.queue.placed(pod.key)
                return Outcome(decision, queued)
            return self._begin(
                BindingCycle(plugin_plan, cycle.state_of(pod.shape), pod, decision.node, cycle.profile),
                decision,
                queued,
            )
        if decision.skipped:
            self.queue.done(pod.key)
            return Outcome(decision, queued)
        return Outcome(decision, queued, cleared=self._unplaced(pod, decision))

    def _begin(self, binding_cycle: BindingCycle, decision: Decision, queued: QueuedPod) -> Outcome:
        """Reserve and Permit: the last moment at which plugins can find that the pod does not fit."""
        failure = binding_cycle.begin()
        if failure is None:
            return Outcome(decision, queued, binding_cycle)
        decision.refuse(failure)
        self._put_back(binding_cycle.pod, failure)
        return Outcome(decision, queued)

    def _unplaced(self, pod: PodInfo, decision: Decision) -> tuple[PodInfo, ...]:
        """Put the pod back, with its nomination if preemption makes room."""
        outcome = decision.post_filter
        cleared: tuple[PodInfo, ...] = ()
        if outcome is not None and outcome.nominated is not None:
            cleared = outcome.clears
            for other in cleared:
                self.nominator.remove(other.key)
            self.nominator.add(pod, decision.nominated_node)
        elif decision.nomination == "":
            self.nominator.remove(pod.key)
        rejectors = self._rejectors(decision)
        self.queue.reject(pod.key, rejectors, error=bool(decision.error), held=bool(decision.victims))
        return cleared

    def _rejectors(self, decision: Decision) -> Iterable[str]:
        if decision.gate is not None:
            return (decision.gate[0],)
        if decision.node_count == 0:
            return ("NodeName",)
        return decision.unschedulable_plugins

    def bound(self, pod: PodInfo) -> None:
        """The binding was written. The pod stays assumed until its event comes."""
        self.queue.done(pod.key)

    def binding_failed(self, pod: PodInfo, failure: Failure) -> None:
        """The pod was not bound: its place is free again, and it waits for what may help it, or for its back-off.

        A binding cycle that was begun has to be undone before.
        """
        self._put_back(pod, failure)

    def _put_back(self, pod: PodInfo, failure: Failure) -> None:
        known = self.snapshot.pods.get(pod.key)
        assumed = known is not None and known.uid == pod.uid and self.cache.is_assumed(pod.key)
        node_name = known.node_name if known is not None else ""
        if assumed:
            self.cache.forget(pod.key)
        queued = self.queue.get(pod.key)
        if queued is not None and queued.pod.uid == pod.uid:
            # The pod's own leaving must not count as an event that may help it.
            self.queue.reject(pod.key, failure.plugins, error=not failure.unfit)
        if assumed:
            self.queue.move(ClusterEvent("Pod", Action.DELETE), _on_node(pod.pod, node_name), None, without=pod.key)

    def explain(self, pod: Pod) -> Decision:
        """What would happen to a pod now, with all scores; nothing is changed. LookupError if no profile takes it."""
        info = self.snapshot.pod_info(self.custom_groups.joined(pod), pending=True)
        cycle = self.cycle_for(info)
        if cycle is None:
            raise LookupError(f"no profile has schedulerName {pod.spec.scheduler_name!r}")
        return cycle.decide(info, explain=True)


class _MixedGangError(Exception):
    """Pods of one gang ask for different schedulers, which can never be placed together."""

    def __init__(self, first: QueuedPod, other: QueuedPod) -> None:
        names = [item.pod.pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME for item in (first, other)]
        super().__init__(
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            f'got: "{names[0]}" and "{names[1]}"'
        )


def _makes_room(result: GroupResult) -> bool:
    """Whether pods are evicted for a group."""
    return result.preemption is not None and bool(result.preemption.victims)


def _on_node(pod: Pod, node_name: str) -> Pod:
    """The pod as it would be if it had been bound."""
    return replace(pod, spec=replace(pod.spec, node_name=node_name))
