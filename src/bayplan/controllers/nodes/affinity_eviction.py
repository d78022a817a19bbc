"""Affinity eviction: pods leave a node when an affinity rule of theirs that holds during execution has ceased to hold.

Which rules those are says `api.execution_rules`; which of them are broken is found by `affinity_eviction_index`. A pod whose rule is broken for as long as its
grace says is evicted through the eviction API, so that disruption budgets hold, as fast as the zone of its node allows. Its owner makes another one, and the
scheduler places that by the same rules.

Source of the behaviour: KEP-4328; the controller is off unless the feature gate AffinityDuringExecution is on or `--controllers` names it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from bayplan.api.errors import ApiError
from bayplan.api.nodes import is_ready_node
from bayplan.api.pods.execution_rules import annotation_errors, grace_of
from bayplan.api.types import core_v1
from bayplan.client.errors import TransportError
from bayplan.controllers.base import Controller, controller_of
from bayplan.controllers.nodes.affinity_eviction_index import Broken, ExecutionIndex
from bayplan.controllers.nodes.affinity_eviction_metrics import AffinityEvictionMetrics
from bayplan.controllers.nodes.affinity_eviction_rules import OwnerBackOff, eviction_rate, retry_delay
from bayplan.controllers.nodes.node_zones import FULL, Limiter, states_of, zone_of
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import parse_rfc3339

logger = logging.getLogger(__name__)

_MIRROR = "kubernetes.io/config.mirror"
_ZONE_KEY = "zone:"
_ZONE_PERIOD = 5.0
"""Seconds between two looks at how zones are, while pods wait."""
_CONFLICT, _NOT_FOUND = 409, 404


class AffinityEvictionController(Controller):
    """See the module. Keys are those of pods, and `zone:NAME`."""

    name = "affinity-eviction-controller"

    def setup(self) -> None:
        self.nodes = self.informer(core_v1.Node)
        self.pods = self.informer(core_v1.Pod)
        self.namespaces = self.informer(core_v1.Namespace)
        self.index = ExecutionIndex()
        self._since: dict[str, dict[str, float]] = {}
        """Uid of a pod -> rule that is broken -> unix time since when."""
        self._failures: dict[str, tuple[int, float]] = {}
        """Uid of a pod -> evictions in a row that failed, and when the next one may be tried."""
        self._waiting: dict[str, dict[str, None]] = {}
        """Zone -> keys of pods that are to be evicted, in order."""
        self._limiters: dict[str, Limiter] = {}
        self._next_look = 0.0
        """When the states of zones are looked at again (monotonic seconds)."""
        self._owners = OwnerBackOff()
        registry = self.context.metrics
        self._metrics = AffinityEvictionMetrics(registry) if registry is not None else None
        self.nodes.on_change(
            add=lambda node: self._look_again(self.index.set_node(node.metadata.name, node.metadata.labels)),
            update=lambda old, node: self._look_again(self.index.set_node(node.metadata.name, node.metadata.labels)),
            delete=lambda node: self._look_again(self.index.set_node(node.metadata.name, None)),
        )
        self.namespaces.on_change(
            add=lambda one: self._look_again(self.index.set_namespace(one.metadata.name, one.metadata.labels)),
            update=lambda old, one: self._look_again(self.index.set_namespace(one.metadata.name, one.metadata.labels)),
            delete=lambda one: self._look_again(self.index.set_namespace(one.metadata.name, None)),
        )
        self.pods.on_change(
            add=self._pod_added,
            update=self._pod_changed,
            delete=self._pod_deleted,
        )

    def _look_again(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.queue.add(key)

    def _pod_added(self, pod: core_v1.Pod) -> None:
        self._report_errors(pod)
        self._look_again(self.index.set_pod(pod))

    def _pod_changed(self, old: core_v1.Pod, pod: core_v1.Pod) -> None:
        if pod.metadata.annotations != old.metadata.annotations:
            self._report_errors(pod)
        self._look_again(self.index.set_pod(pod))

    def _report_errors(self, pod: core_v1.Pod) -> None:
        for error in annotation_errors(pod.metadata.annotations):
            self.recorder.event(pod, "Warning", "InvalidAffinityRules", error)

    def _pod_deleted(self, pod: core_v1.Pod) -> None:
        self._since.pop(pod.metadata.uid, None)
        if self._failures.pop(pod.metadata.uid, None) is not None and self._metrics is not None:
            self._metrics.forget(key_of(pod))
        self._look_again(self.index.remove_pod(key_of(pod)))

    # What is to be done about a pod

    async def reconcile(self, key: str) -> None:
        if key.startswith(_ZONE_KEY):
            await self._evict_some(key.removeprefix(_ZONE_KEY))
            return
        pod: core_v1.Pod | None = self.pods.cache.by_key(key)
        if pod is None or pod.metadata.uid != self.index.uid_of(key):
            return
        broken = self.index.broken(key)
        now = self.clock.now()
        since = self._since.get(pod.metadata.uid, {})
        since = {one.rule.name: since.get(one.rule.name, now) for one in broken}
        if not since:
            self._since.pop(pod.metadata.uid, None)
            return
        self._since[pod.metadata.uid] = since
        when = max(self._end_of_grace(pod, broken, since), self._end_of_delay(pod, now))
        if when > now:
            self.queue.add_after(key, when - now)
            return
        node: core_v1.Node | None = self.nodes.cache.get("", pod.spec.node_name)
        if node is not None:
            zone = zone_of(node)
            self._waiting.setdefault(zone, {})[key] = None
            self.queue.add(_ZONE_KEY + zone)

    def _end_of_grace(self, pod: core_v1.Pod, broken: Sequence[Broken], since: dict[str, float]) -> float:
        """When the first broken rule is not put up with any more."""
        default, annotations = self.context.settings.affinity_eviction_grace, pod.metadata.annotations
        return min(since[one.rule.name] + grace_of(annotations, one.rule.kind, default) for one in broken)

    def _end_of_delay(self, pod: core_v1.Pod, now: float) -> float:
        """Until when a pod stays because its owner's pods are evicted again and again, or a budget forbade its eviction."""
        owner = controller_of(pod)
        delay = self._owners.delay(owner.uid, _created(pod), now) if owner is not None else 0.0
        return max(now + delay, self._failures.get(pod.metadata.uid, (0, 0.0))[1])

    # Evictions

    async def _evict_some(self, zone: str) -> None:
        """Evict pods that wait in a zone, as many as may go now."""
        self._look_at_zones()
        waiting = self._waiting.get(zone, {})
        while waiting:
            key = next(iter(waiting))
            pod: core_v1.Pod | None = self.pods.cache.by_key(key)
            broken = self.index.broken(key)
            if pod is None or pod.metadata.uid != self.index.uid_of(key) or not broken or _is_mirror(pod):
                del waiting[key]
                continue
            limiter = self._limiters.get(zone)
            pause = limiter.take(self.clock.monotonic()) if limiter is not None else None
            if pause is None or pause > 0:
                self.queue.add_after(_ZONE_KEY + zone, _ZONE_PERIOD if pause is None else pause)
                return
            del waiting[key]
            await self._evict_if_broken(pod)
        self._waiting.pop(zone, None)

    def _look_at_zones(self) -> None:
        """See how fast pods of each zone may be evicted."""
        moment = self.clock.monotonic()
        if moment < self._next_look:
            return
        self._next_look = moment + _ZONE_PERIOD
        settings = self.context.settings
        seen = ((zone_of(node), not is_ready_node(node)) for node in self.nodes.cache)
        states = states_of(seen, settings.unhealthy_zone_threshold)
        all_lost = all(state == FULL for state, _ in states.values())
        for zone, (state, size) in states.items():
            rate = 0.0 if all_lost else eviction_rate(state, size, settings)
            limiter = self._limiters.get(zone)
            if limiter is None:
                self._limiters[zone] = Limiter(rate, moment)
            elif limiter.rate != rate:
                limiter.set_rate(rate, moment)

    async def _evict_if_broken(self, pod: core_v1.Pod) -> None:
        """Evict a pod if a rule does not hold by the labels that its node has now: the cache may be behind."""
        key = key_of(pod)
        try:
            node = await self.client.get(core_v1.Node, pod.spec.node_name)
            self._look_again(self.index.set_node(node.metadata.name, node.metadata.labels))
            broken = self.index.broken(key)
            if broken:
                await self._evict(pod, broken[0])
        except TransportError:
            self.queue.add_rate_limited(key)
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                logger.warning("%s: %s: %s", self.name, key, error)
            self.queue.add_rate_limited(key)

    async def _evict(self, pod: core_v1.Pod, broken: Broken) -> None:
        """Raises ApiError, if not a budget refused, and TransportError."""
        metadata, rule = pod.metadata, broken.rule
        try:
            await self.client.evict(metadata.namespace, metadata.name, uid=metadata.uid)
        except ApiError as error:
            if error.code in (_NOT_FOUND, _CONFLICT):
                raise
            self._failed(pod, broken, error)
            return
        now = self.clock.now()
        owner = controller_of(pod)
        if owner is not None:
            self._owners.evicted(owner.uid, _created(pod), now)
        self._failures.pop(metadata.uid, None)
        if self._metrics is not None:
            self._metrics.evicted(rule.kind)
        text = f"Evicted from node {pod.spec.node_name}: {rule.name} has ceased to hold: {broken.why}"
        self.recorder.event(pod, "Normal", _reason(broken), text)

    def _failed(self, pod: core_v1.Pod, broken: Broken, error: ApiError) -> None:
        """An eviction was refused, as a rule by a disruption budget; it is asked for again, later and later."""
        failures = self._failures.get(pod.metadata.uid, (0, 0.0))[0] + 1
        delay = retry_delay(failures)
        self._failures[pod.metadata.uid] = (failures, self.clock.now() + delay)
        if self._metrics is not None:
            self._metrics.failed(broken.rule.kind, key_of(pod))
        text = f"Not evicted though {broken.rule.name} has ceased to hold ({broken.why}): {error}"
        self.recorder.event(pod, "Warning", f"Failed{_reason(broken)}", text)
        self.queue.add_after(key_of(pod), delay)


def _reason(broken: Broken) -> str:
    """The reason of events: NodeAffinityEviction, as KEP-4328 has it, PodAffinityEviction, PodAntiAffinityEviction."""
    kind = broken.rule.kind
    return f"{kind[0].upper()}{kind[1:]}Eviction"


def _created(pod: core_v1.Pod) -> float:
    created = pod.metadata.creation_timestamp
    return parse_rfc3339(created) if created else 0.0


def _is_mirror(pod: core_v1.Pod) -> bool:
    """Whether the pod only shows one that a kubelet runs from a file, which no eviction ends."""
    return _MIRROR in pod.metadata.annotations
