"""Node life cycle: a node whose kubelet stopped renewing its lease becomes unknown, and conditions show as taints.

Source of the behaviour: kube-controller-manager's node-lifecycle-controller: grace periods, NoSchedule taints for conditions at once, NoExecute taints `not-ready`
and `unreachable` as fast as the zone's state allows (`node_zones`), none while all zones are lost; pods on an unreachable node marked as not ready.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass

from bayplan.api.errors import ApiError
from bayplan.api.nodes import is_ready_node
from bayplan.api.strategies.base import clone
from bayplan.api.types import coordination_v1, core_v1
from bayplan.controllers.base import Controller, condition_of, with_condition
from bayplan.controllers.nodes.node_zones import FULL, Limiter, rate_of, states_of, zone_of
from bayplan.controllers.pods import index_by_node, is_ready
from bayplan.support.timestamps import parse_rfc3339, rfc3339

logger = logging.getLogger(__name__)

_ZONE_KEY = "zone:"
LEASE_NAMESPACE = "kube-node-lease"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_CONDITION_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_OWN = {
    *((key, "NoSchedule") for key in (*_CONDITION_TAINTS.values(), UNSCHEDULABLE)),
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
}
"""Key and effect of the taints that this controller sets and takes away."""
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def wanted_taints(node: core_v1.Node, now: str, *, no_execute: bool = True) -> tuple[core_v1.Taint, ...]:
    """The taints of a node: foreign ones as they are, own ones as conditions and `unschedulable` say. Equal taints keep their time.

    With `no_execute` False the node may not be emptied, however it is.
    """
    wanted: dict[tuple[str, str], core_v1.Taint] = {}
    for condition in node.status.conditions:
        key = _CONDITION_TAINTS.get((condition.type, condition.status))
        if key is not None:
            wanted[key, "NoSchedule"] = core_v1.Taint(key=key, effect="NoSchedule", time_added=now)
            if key in (NOT_READY, UNREACHABLE) and no_execute:
                wanted[key, "NoExecute"] = core_v1.Taint(key=key, effect="NoExecute", time_added=now)
    if node.spec.unschedulable:
        wanted[UNSCHEDULABLE, "NoSchedule"] = core_v1.Taint(key=UNSCHEDULABLE, effect="NoSchedule", time_added=now)
    kept = tuple(
        taint
        for taint in node.spec.taints
        if (taint.key, taint.effect) not in _OWN or (taint.key, taint.effect) in wanted
    )
    for taint in kept:
        wanted.pop((taint.key, taint.effect), None)
    return (*kept, *wanted.values())


def unknown_conditions(node: core_v1.Node, now: str) -> tuple[core_v1.NodeCondition, ...]:
    """The conditions of a node whose kubelet is silent."""
    conditions: Iterable[core_v1.NodeCondition] = node.status.conditions
    for name in _KUBELET_CONDITIONS:
        known = condition_of(conditions, name)
        if known is None:
            reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
        else:
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
        if known is None or known.status != "Unknown":
            heartbeat = known.last_heartbeat_time if known is not None else node.metadata.creation_timestamp
            unknown = core_v1.NodeCondition(
                type=name,
                status="Unknown",
                reason=reason,
                message=message,
                last_heartbeat_time=heartbeat,
                last_transition_time=now,
            )
            conditions = with_condition(conditions, unknown)
    return tuple(conditions)


def fails(node: core_v1.Node) -> bool:
    """Whether a node does not say that it is ready."""
    return not is_ready_node(node)


def is_being_emptied(node: core_v1.Node) -> bool:
    """Whether the node has one of the taints that drive pods away because it fails."""
    return any(one.effect == "NoExecute" and one.key in (NOT_READY, UNREACHABLE) for one in node.spec.taints)


@dataclass(slots=True, kw_only=True)
class _Sight:
    """What is to be seen of one node."""

    node: core_v1.Node
    lease: coordination_v1.Lease | None
    beat: str
    """Its latest sign of life: times of lease and heartbeat, by its own clock."""
    since: float
    """When that was first seen, by our clock: clocks of nodes need not agree with it."""
    grace: float
    """Seconds after which it counts as silent."""
    zone: str
    fails: bool
    """Whether it does not say that it is ready."""
    is_given_up: bool
    """Whether its silence has been noted."""

    def is_silent(self, now: float) -> bool:
        """Whether it has given no sign of life for too long."""
        return now - self.since > self.grace


class NodeLifecycleController(Controller):
    """See the module. Keys are names of nodes, and `zone:NAME`."""

    name = "node-lifecycle-controller"
    event_source = "node-controller"

    def setup(self) -> None:
        self.nodes = self.informer(core_v1.Node)
        self.pods = self.informer(core_v1.Pod)
        self.leases = self.informer(coordination_v1.Lease)
        index_by_node(self.pods)
        self._sights: dict[str, _Sight] = {}
        """What was last seen of each node."""
        self._waiting: dict[str, dict[str, None]] = {}
        """Zone -> failing nodes that are to be emptied, in order."""
        self._granted: set[str] = set()
        """Nodes that may be emptied."""
        self._limiters: dict[str, Limiter] = {}
        self._all_lost = False
        """Whether no zone has a node that is ready: then nothing is emptied, since no other place is better."""
        self._stirred = True
        """Whether a node or a lease has changed since all nodes were looked at."""
        self._due = 0.0
        """Until when nothing else is to be seen by looking at them."""
        self.nodes.on_change(add=self._node_added, update=self._node_changed, delete=self._node_gone)
        self.leases.on_change(add=self._stir, update=self._stir, delete=self._stir)

    def _stir(self, *_: object) -> None:
        self._stirred = True

    def _node_added(self, node: core_v1.Node) -> None:
        self._stir()
        name = node.metadata.name
        self.recorder.event(
            node, "Normal", "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller"
        )
        self.queue.add(name)

    def _node_gone(self, node: core_v1.Node) -> None:
        self._stir()
        name = node.metadata.name
        self._sights.pop(name, None)
        self._take_back(node)
        self.recorder.event(node, "Normal", "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")

    def _node_changed(self, old: core_v1.Node, new: core_v1.Node) -> None:
        self._stir()
        if (old.spec, old.status.conditions) != (new.spec, new.status.conditions):
            self.queue.add(new.metadata.name)
        if zone_of(old) != zone_of(new):
            self._take_back(old)
            self.queue.add(new.metadata.name)

    async def run_background(self) -> None:
        """Look at every node now and then."""
        while True:
            await self.clock.sleep(self.context.settings.node_monitor_period)
            now = self.clock.now()
            if not self._stirred and now <= self._due:
                continue
            self._stirred = False
            sights = [self._look(node, now) for node in self.nodes.cache]
            self._due = min((one.since + one.grace for one in sights if not one.is_given_up), default=math.inf)
            for sight in sights:
                if sight.is_silent(now) and not sight.is_given_up:
                    self.queue.add(sight.node.metadata.name)
            self._judge_zones(sights, now)

    def _look(self, node: core_v1.Node, now: float) -> _Sight:
        """What is to be seen of a node. Costs nothing while neither node nor lease has changed."""
        name = node.metadata.name
        lease: coordination_v1.Lease | None = self.leases.cache.get(LEASE_NAMESPACE, name)
        known = self._sights.get(name)
        if known is not None and known.node is node and known.lease is lease:
            return known
        ready = condition_of(node.status.conditions, "Ready")
        renewed = (lease.spec.renew_time or "") if lease is not None else ""
        beat = f"{renewed}|{ready.last_heartbeat_time if ready is not None else ''}"
        if known is None:
            since = self._first_seen(node, ready, renewed, now)
        else:
            since = known.since if known.beat == beat else now
        sight = self._sights[name] = _Sight(
            node=node,
            lease=lease,
            beat=beat,
            since=since,
            grace=self._grace(ready, lease),
            zone=zone_of(node),
            fails=fails(node),
            is_given_up=ready is not None and ready.status == "Unknown",
        )
        return sight

    def _grace(self, ready: core_v1.NodeCondition | None, lease: coordination_v1.Lease | None) -> float:
        settings = self.context.settings
        if ready is None:
            return settings.node_startup_grace_period
        promised = (lease.spec.lease_duration_seconds or 0) if settings.trusts_leases and lease is not None else 0
        return max(settings.node_monitor_grace_period, promised)

    def _first_seen(self, node: core_v1.Node, ready: core_v1.NodeCondition | None, renewed: str, now: float) -> float:
        """After a start of this controller every node gets its full grace period; a new node counts from its creation."""
        if ready is None and not renewed and node.metadata.creation_timestamp:
            return parse_rfc3339(node.metadata.creation_timestamp)
        return now

    # Zones

    def _judge_zones(self, sights: Iterable[_Sight], now: float) -> None:
        """See how all zones are, and how fast their nodes may be emptied."""
        settings = self.context.settings
        seen = ((sight.zone, sight.fails or sight.is_silent(now)) for sight in sights)
        states = states_of(seen, settings.unhealthy_zone_threshold)
        all_lost = bool(states) and all(state == FULL for state, _ in states.values())
        if all_lost != self._all_lost:
            self._all_lost = all_lost
            logger.warning("all zones are lost: nothing is emptied" if all_lost else "a zone is back")
            if not all_lost:  # nobody could be heard: all get their grace period again
                for sight in self._sights.values():
                    sight.since = now
            self._granted.clear()
            for node in self.nodes.cache:
                self.queue.add(node.metadata.name)
        moment = self.clock.monotonic()
        for zone, (state, size) in states.items():
            rate = 0.0 if all_lost else rate_of(state, size, settings)
            limiter = self._limiters.get(zone)
            if limiter is None:
                self._limiters[zone] = Limiter(rate, moment)
            elif limiter.rate != rate:
                logger.info("zone %s: %s, %g nodes per second may be emptied", zone, state, rate)
                limiter.set_rate(rate, moment)
                self.queue.add(_ZONE_KEY + zone)

    def _empty_some(self, zone: str) -> None:
        """Let failing nodes of a zone be emptied, as many as may be now."""
        now = self.clock.now()
        self._judge_zones([self._look(node, now) for node in self.nodes.cache], now)
        waiting, limiter = self._waiting.get(zone), self._limiters.get(zone)
        while waiting and limiter is not None:
            pause = limiter.take(self.clock.monotonic())
            if pause is None:
                return
            if pause:
                self.queue.add_after(_ZONE_KEY + zone, pause)
                return
            name = next(iter(waiting))
            del waiting[name]
            self._granted.add(name)
            self.queue.add(name)

    def _take_back(self, node: core_v1.Node) -> None:
        """A node is not to be emptied (any more)."""
        self._granted.discard(node.metadata.name)
        waiting = self._waiting.get(zone_of(node))
        if waiting is not None:
            waiting.pop(node.metadata.name, None)

    def _may_be_emptied(self, node: core_v1.Node) -> bool:
        """Whether a node may have NoExecute taints now; if it needs some and may not have them yet, it waits for its turn."""
        if not fails(node):
            self._take_back(node)
            return True
        if self._all_lost:
            return False
        name = node.metadata.name
        if name in self._granted or is_being_emptied(node):
            return True
        if condition_of(node.status.conditions, "Ready") is not None:
            self._waiting.setdefault(zone_of(node), {})[name] = None
            self.queue.add(_ZONE_KEY + zone_of(node))
        return False

    # Nodes

    async def reconcile(self, key: str) -> None:
        if key.startswith(_ZONE_KEY):
            self._empty_some(key.removeprefix(_ZONE_KEY))
            return
        cached: core_v1.Node | None = self.nodes.cache.by_key(key)
        if cached is None or cached.metadata.deletion_timestamp:
            return
        node = cached
        now = self.clock.now()
        try:
            if self._look(node, now).is_silent(now):
                conditions = unknown_conditions(node, rfc3339(now))
                if conditions != node.status.conditions:
                    was_ready = not fails(node)
                    changed = clone(node)
                    changed.status.conditions = conditions
                    node = await self.client.update_status(changed)
                    if was_ready:
                        self.recorder.event(node, "Normal", "NodeNotReady", f"Node {key} status is now: NodeNotReady")
            taints = wanted_taints(node, rfc3339(now), no_execute=self._may_be_emptied(node))
            if taints != node.spec.taints:
                changed = clone(node)
                changed.spec.taints = taints
                node = await self.client.update(changed)
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
                return
            if error.code == 404:
                return
            raise
        ready = condition_of(node.status.conditions, "Ready")
        if ready is not None and ready.status != "True":
            await self._mark_pods(key)

    async def _mark_pods(self, node_name: str) -> None:
        """Pods on a node that is unreachable are not ready."""
        now = rfc3339(self.clock.now())
        for pod in self.pods.cache.by_index("node", node_name):
            if not is_ready(pod):
                continue
            changed = clone(pod)
            condition = core_v1.PodCondition(type="Ready", status="False", last_transition_time=now)
            changed.status.conditions = with_condition(pod.status.conditions, condition)
            try:
                await self.client.update_status(changed)
            except ApiError as error:
                if error.code not in (404, 409):
                    raise
                continue
            self.recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")
