"""The library's front door: one decision, a queue of them, or a planner that takes nodes once and places many pods.

Objects may be given as API objects (structs), as plain dicts in the form of the API, as dict of lists by kind
(`{"nodes": [...], "pods": [...]}`), or as one flat list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from bayplan.api import codec
from bayplan.api.feature_gates import COMPOSITE_POD_GROUPS
from bayplan.api.types.core_v1 import Node, Pod
from bayplan.scheduler.cache import Cache
from bayplan.scheduler.configuration.settings import SchedulerSettings, load
from bayplan.scheduler.cycle import Choice, Cycle, FirstByName
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.errors import SchedulerError
from bayplan.scheduler.extenders.protocol import Answer, Call, ExtenderCaller, Questions, asked, unasked
from bayplan.scheduler.extenders.steps import decision_of
from bayplan.scheduler.framework.claims import forget_user
from bayplan.scheduler.gangs.composite_cycle import CompositeCycle
from bayplan.scheduler.gangs.custom_groups import CustomGroups
from bayplan.scheduler.gangs.gang_cycle import GangCycle, GroupResult, Member, minimum_of_group
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.queueing.nominator import Nominator
from bayplan.scheduler.queueing.queued_pod import QueuedPod
from bayplan.scheduler.snapshot.catalog import KINDS
from bayplan.scheduler.snapshot.gangs import group_key
from bayplan.scheduler.snapshot.group_trees import TreeError
from bayplan.scheduler.snapshot.newer_groups import read_composite, read_group
from bayplan.scheduler.snapshot.pods import PodInfo, is_ended, pod_key
from bayplan.scheduler.snapshot.snapshot import Snapshot
from bayplan.scheduler.tentative import TentativePlacements

Objects = Mapping[str, Iterable[Any]] | Iterable[Any]
Config = SchedulerSettings | Mapping[str, Any] | str | None

_MODULES: Final = {
    "ReplicaSet": "apps_v1",
    "StatefulSet": "apps_v1",
    "StorageClass": "storage_v1",
    "CSINode": "storage_v1",
    "CSIDriver": "storage_v1",
    "CSIStorageCapacity": "storage_v1",
    "VolumeAttachment": "storage_v1",
    "PodDisruptionBudget": "policy_v1",
    "ResourceClaim": "resource_v1",
    "ResourceSlice": "resource_v1",
    "DeviceClass": "resource_v1",
    "DeviceTaintRule": "resource_v1alpha3",
    "PodGroup": "scheduling_v1alpha2",
}
"""Kind -> module of its type; all others are in core_v1."""

_PLURALS: Final = {
    "nodes": "Node",
    "pods": "Pod",
    **{f"{kind.lower()}{'es' if kind.endswith('s') else 's'}": kind for kind in KINDS if not kind.endswith("Capacity")},
    "csistoragecapacities": "CSIStorageCapacity",
}
MAX_ATTEMPTS: Final = 3
"""How often `place` tries a pod that preempted others."""


def typed(kind: str, obj: Any) -> Any:
    """An API object from a plain dict; an API object is given back as it is. Raises codec.DecodeError."""
    if isinstance(obj, msgspec.Struct):
        return obj
    if kind == "Pod":
        return codec.from_tree(Pod, obj)
    if kind == "Node":
        return codec.from_tree(Node, obj)
    module = __import__(f"bayplan.api.types.{_MODULES.get(kind, 'core_v1')}", fromlist=[kind])
    return codec.from_tree(getattr(module, kind), obj)


def _kind_of(obj: Any) -> str:
    if isinstance(obj, msgspec.Struct):
        return getattr(obj, "kind", "") or type(obj).__name__
    return str(obj.get("kind", ""))


def _by_kind(objects: Objects) -> Iterable[tuple[str, Any]]:
    if not isinstance(objects, Mapping):
        for obj in objects:
            yield _kind_of(obj), obj
        return
    for plural, items in objects.items():
        kind = _PLURALS.get(plural.lower())
        for obj in items or ():
            yield kind or _kind_of(obj), obj


class Planner:
    """A cluster in memory: put objects in, ask for decisions, place pods.

    Nothing is written anywhere. `choice` decides among equally good nodes; by default the first by name. `ask` carries
    calls to the extenders of the configuration; without it they are left out.
    """

    def __init__(
        self,
        objects: Objects = (),
        config: Config = None,
        choice: Choice | None = None,
        ask: ExtenderCaller | None = None,
    ) -> None:
        self.settings = load(config)
        self._ask = ask
        self.snapshot = Snapshot()
        self.nominator = Nominator()
        self._choice = choice or FirstByName()
        self._cycles = {
            profile.scheduler_name: Cycle(Profile(profile, self.snapshot), self.nominator, self._choice)
            for profile in self.settings.profiles
        }
        self._custom_groups = CustomGroups(cycle.profile for cycle in self._cycles.values())
        self._has_trees = any(COMPOSITE_POD_GROUPS in one.feature_gates for one in self.settings.profiles)
        self._waiting: list[Pod] = []
        self._placements = TentativePlacements(self.snapshot, self.nominator)
        for kind, obj in _by_kind(objects):
            self.add(kind, obj)
        self._nominate_waiting()

    def add(self, kind: str, obj: Any) -> None:
        """Put an object in, or take over its new state. Kinds that do not bear on scheduling are ignored."""
        if kind == "Node":
            self.snapshot.put_node(typed(kind, obj))
        elif kind == "Pod":
            pod = self.read_pod(obj)
            if pod.spec.scheduling_group is not None and not is_ended(pod):
                self.snapshot.gangs.add(group_key(pod), pod_key(pod))
            if pod.spec.node_name:
                self.snapshot.put_pod(pod)
            elif pod.status.nominated_node_name and not is_ended(pod):
                self._waiting.append(pod)
        elif isinstance(obj, Mapping) and (custom := self._custom_groups.group_from(obj)) is not None:
            self.snapshot.put_object("PodGroup", custom)
        elif kind == "PodGroup":
            self.snapshot.put_object(kind, read_group(obj, has_trees=self._has_trees))
        elif kind == "CompositePodGroup":
            if self._has_trees:
                composite = read_composite(obj)
                self.snapshot.catalog.put_composite(composite.key, composite)
        elif kind in KINDS:
            self.snapshot.put_object(kind, typed(kind, obj))

    def pod(self, pod: Any) -> PodInfo:
        """A pending pod in the form that `decide` takes; pods of one shape share what was compiled for them."""
        return self.snapshot.pod_info(self.read_pod(pod), pending=True)

    def read_pod(self, pod: Any) -> Pod:
        """A pod as the configuration takes it: a member of the group that it names. Raises DecodeError."""
        return self._custom_groups.joined(typed("Pod", pod))

    def why_not_ours(self, pod: Pod) -> str:
        """Why no profile schedules a pod; "" if one does."""
        name = pod.spec.scheduler_name or "default-scheduler"
        return "" if name in self._cycles else f"no profile has schedulerName {name!r}; add one to the configuration"

    def cycle_for(self, pod: PodInfo) -> Cycle:
        """The cycle of the profile that schedules a pod. Raises SchedulerError if there is none."""
        cycle = self._cycles.get(pod.pod.spec.scheduler_name or "default-scheduler")
        if cycle is None:
            raise SchedulerError(f"pod {pod.key}: {self.why_not_ours(pod.pod)}")
        return cycle

    def decide(self, pod: Any, *, full: bool = True, explain: bool = False) -> Decision:
        """What would happen to a pod; nothing is changed."""
        info = pod if isinstance(pod, PodInfo) else self.pod(pod)
        return self.decide_in(self.cycle_for(info), info, full=full, explain=explain)

    def decide_in(self, cycle: Cycle, info: PodInfo, *, full: bool, explain: bool) -> Decision:
        """The decision of a cycle about a pod, with what extenders say to it."""
        if self._ask is None or not self.settings.extenders:
            return cycle.decide(info, full=full, explain=explain)
        return asked(decision_of(cycle, self.settings.extenders, info, full=full, explain=explain), self._ask)

    def decide_gang(self, gang: Sequence[QueuedPod], *, scored: bool = False) -> tuple[list[Member], GroupResult]:
        """Decide about the pods of a gang, or of a tree of gangs, together. Those that are placed are counted on their nodes, and their binding cycles start.

        scored: keep the scores in the decisions.
        """
        cycle = self.cycle_for(gang[0].pod)
        extenders = self.settings.extenders if self._ask is not None else ()
        steps = self._gang_steps(GangCycle(cycle, Cache(self.snapshot), extenders, scored=scored), gang)
        return asked(steps, self._ask) if self._ask is not None else unasked(steps)

    def _gang_steps(self, cycle: GangCycle, gang: Sequence[QueuedPod]) -> Questions[tuple[list[Member], GroupResult]]:
        key, trees = group_key(gang[0].pod.pod), self.snapshot.catalog.trees
        if not trees.is_child(key):
            return (yield from cycle.run(gang, minimum_of_group(self.snapshot, gang[0].pod.pod) or 0))
        gangs: dict[str, list[QueuedPod]] = {}
        for queued in gang:
            gangs.setdefault(group_key(queued.pod.pod), []).append(queued)
        tree = yield from CompositeCycle(cycle, trees.root_of(key), gangs).run()
        return [member for members in tree.members.values() for member in members], tree.results[0]

    def tried_with(self, pod: Pod) -> frozenset[str]:
        """The pod groups (`namespace/name`) that are placed together with that of a pod, which is one of them."""
        key, trees = group_key(pod), self.snapshot.catalog.trees
        try:
            root = trees.root_of(key) if trees.is_child(key) else ""
        except TreeError:
            root = ""
        return frozenset(trees.leaves(root)) if root else frozenset((key,))

    def schedule(self, pod: Any, *, full: bool = False) -> Decision:
        """Decide, and count the pod on its node if one was found."""
        info = pod if isinstance(pod, PodInfo) else self.pod(pod)
        cycle = self.cycle_for(info)
        decision = self.decide_in(cycle, info, full=full, explain=False)
        if decision.row >= 0:
            self.settle(cycle, info, decision)
        return decision

    def settle(self, cycle: Cycle, info: PodInfo, decision: Decision) -> None:
        """Count a pod on the node that was found for it, and let plugins reserve what it takes besides.

        If a plugin refuses, the decision is one of no node from then on.
        """
        self._placements.place(cycle, info, decision)

    def take_back(self, key: str) -> None:
        """Undo `settle`: count a pod no more, and let plugins give back what they reserved for it. Last settled, first undone."""
        self._placements.take_back(key)

    def remove(self, key: str) -> None:
        """Take a pod away (`namespace/name`), wherever it is. What was bound for it, such as volumes, stays bound; devices are freed."""
        info = self.snapshot.remove_pod(key)
        self._placements.forget(key)
        if info is not None:
            forget_user(self.snapshot, info)
        if info is not None and info.pod.spec.scheduling_group is not None:
            self.snapshot.gangs.remove(group_key(info.pod), key)
        self.nominator.remove(key)

    def _nominate_waiting(self) -> None:
        for pod in self._waiting:
            info = self.pod(pod)
            cycle = self._cycles.get(pod.spec.scheduler_name or "default-scheduler")
            if cycle is not None and cycle.profile.gate(info) is None:
                self.nominator.add(info, pod.status.nominated_node_name)
        self._waiting.clear()


@dataclass(slots=True)
class Attempt:
    """One attempt of a run: the decision, or that the pod is gated."""

    pod: str
    number: int
    decision: Decision

    def to_dict(self) -> dict[str, Any]:
        """In the form of the golden sequences."""
        decision = self.decision
        entry: dict[str, Any] = {"pod": self.pod, "attempt": self.number}
        if decision.gate is not None:
            entry["gated"] = list(decision.gate[1].reasons)
        elif decision.scheduled:
            entry |= {"node": decision.node, "best": decision.best}
            if decision.scores:
                entry["total"] = int(decision.total[decision.row])
            if decision.decided_by:
                entry["decidedBy"] = decision.decided_by
        else:
            entry["message"] = decision.message
            if decision.nominated_node:
                entry |= {"nominatedNode": decision.nominated_node, "victims": list(decision.victims)}
        return entry


@dataclass(slots=True, repr=False)
class Run:
    """What `place` did, attempt by attempt."""

    attempts: list[Attempt] = field(default_factory=list)

    def __repr__(self) -> str:
        tried = {attempt.pod for attempt in self.attempts}
        placed = {attempt.pod for attempt in self.attempts if attempt.decision.scheduled}
        return f"<Run: {len(placed):,} of {len(tried):,} pods placed in {len(self.attempts):,} attempts>"

    def to_dict(self) -> dict[str, Any]:
        """`{"attempts": [...]}` in the form of the golden sequences."""
        return {"attempts": [attempt.to_dict() for attempt in self.attempts]}


def over_http(call: Call) -> Answer:
    """Ask an extender where its configuration says that it is. Raises ExtenderError."""
    from bayplan.scheduler.extenders.blocking import BlockingDoor

    return BlockingDoor()(call)


def evaluate(objects: Objects, pod: Any, config: Config = None, *, ask: ExtenderCaller | None = None) -> Decision:
    """What kube-scheduler would do with a pod in a cluster, node by node. Raises SettingsError, DecodeError.

    Extenders of the configuration are asked over HTTP, or through `ask`.
    """
    planner = Planner(objects, config, ask=ask or over_http)
    return planner.decide(pod, explain=True)


def place(
    objects: Objects,
    queue: Iterable[Any],
    config: Config = None,
    *,
    requeue: str = "immediate",
    start_time: str = "2000-01-01T00:00:00Z",
    ask: ExtenderCaller | None = None,
) -> Run:
    """Schedule a queue of pods, one after the other, by priority and then position.

    The pods of a gang are tried together, when the first of them has its turn, and all or none are placed. Of equally
    good nodes the first by name is taken; a placed pod runs at once. `requeue`: whether a pod that
    preempted others is tried again next (`immediate`) or after all others (`deferred`). `start_time`: RFC 3339; a pod
    placed in the n-th attempt started n seconds after it. Extenders of the configuration are asked over HTTP, or through
    `ask`. Raises SettingsError, DecodeError, ValueError.
    """
    if requeue not in ("immediate", "deferred"):
        raise ValueError(f"requeue: {requeue!r} is neither 'immediate' nor 'deferred'")
    planner = Planner(objects, config, ask=ask or over_http)
    waiting = [(planner.read_pod(pod), 1) for pod in queue]
    for pod, _ in waiting:
        if pod.status.nominated_node_name or pod.spec.scheduling_group is not None:
            planner.add("Pod", pod)
    planner._nominate_waiting()
    waiting.sort(key=lambda item: -(item[0].spec.priority or 0))
    run = Run()
    cleared: set[str] = set()
    started = datetime.fromisoformat(start_time.replace("Z", "+00:00"))
    while waiting:
        pod, number = waiting.pop(0)
        if minimum_of_group(planner.snapshot, pod) is not None:
            groups = planner.tried_with(pod)
            together = [item for item in waiting if group_key(item[0]) in groups]
            waiting = [item for item in waiting if item not in together]
            waiting += _attempt_gang(planner, [(pod, number), *together], run, started)
            continue
        decision = _attempt(planner, pod, run, number, started, cleared)
        if decision.nominated_node and number < MAX_ATTEMPTS:
            again = (_nominated(pod, decision.nominated_node), number + 1)
            waiting.insert(0 if requeue == "immediate" else len(waiting), again)
    return run


def _attempt_gang(planner: Planner, gang: list[tuple[Pod, int]], run: Run, started: datetime) -> list[tuple[Pod, int]]:
    """Try a gang as a whole; returns those of its pods that are to be tried again, once their victims are gone."""
    infos = [planner.pod(pod) for pod, _ in gang]
    cycle = planner.cycle_for(infos[0])
    gated = [info for info in infos if cycle.profile.gate(info) is not None]
    if gated:
        run.attempts += [
            Attempt(info.key, number, cycle.opened(info)) for info, (_, number) in zip(infos, gang, strict=True)
        ]
        return []
    members, result = planner.decide_gang([QueuedPod(info, (), 0.0) for info in infos], scored=True)
    again: list[tuple[Pod, int]] = []
    for gone in result.preemption.victims if result.preemption is not None else ():
        planner.remove(gone.key)
    asked_for = {info.key: item for info, item in zip(infos, gang, strict=True)}
    for member in members:
        info, decision = member.queued.pod, member.decision
        pod, number = asked_for[info.key]
        run.attempts.append(Attempt(info.key, number, decision))
        if member.binding_cycle is not None:
            member.binding_cycle.settle()
            member.binding_cycle.conclude()
            info.start_time = _moment(started, len(run.attempts))
            planner.nominator.remove(info.key)
            continue
        for victim in decision.victims:
            planner.remove(victim)
        node_name = decision.nomination
        if node_name and number < MAX_ATTEMPTS:
            planner.nominator.add(info, node_name)
            again.append((_nominated(pod, node_name), number + 1))
    return again


def _moment(started: datetime, attempts: int) -> str:
    return (started + timedelta(seconds=attempts)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _nominated(pod: Pod, node_name: str) -> Pod:
    status = msgspec.structs.replace(pod.status, nominated_node_name=node_name)
    return msgspec.structs.replace(pod, status=status)


def _attempt(planner: Planner, pod: Pod, run: Run, number: int, started: datetime, cleared: set[str]) -> Decision:
    info = planner.pod(pod)
    if info.key in cleared and pod.status.nominated_node_name:
        cleared.discard(info.key)
        info = planner.pod(_nominated(pod, ""))
    cycle = planner.cycle_for(info)
    decision = planner.decide(info, explain=True)
    run.attempts.append(Attempt(info.key, number, decision))
    outcome = decision.post_filter
    if decision.row >= 0:
        info.start_time = _moment(started, len(run.attempts))
        planner.settle(cycle, info, decision)
    elif outcome is not None and outcome.nominated is not None:
        for victim in outcome.nominated.victims:
            planner.remove(victim.key)
        for other in outcome.clears:
            planner.nominator.remove(other.key)
            cleared.add(other.key)
        planner.nominator.add(info, decision.nominated_node)
    elif decision.nomination == "":
        planner.nominator.remove(info.key)
    return decision
