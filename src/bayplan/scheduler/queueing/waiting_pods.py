"""Which pods wait for which event.

Waiting pods are indexed by the plugins that rejected them and by their shape (and partition, where a plugin has any), and
events by the plugins that care: an event which no rejecting plugin cares for costs nothing, and most others one look per
shape, however many pods wait; those that a plugin knows to be about some partitions, one per shape in these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from bayplan.scheduler.framework.events import ClusterEvent, EventHint
from bayplan.scheduler.queueing.queued_pod import Clock, QueuedPod
from bayplan.scheduler.snapshot.pods import PodInfo

Hinted = Callable[[str, str, bool, float], None]
"""(plugin, event, whether it may help, seconds that the look took)"""

Partition = Callable[[PodInfo], Hashable]
"""See `Plugin.partition_of`."""


class Waiting:
    """The pods that plugins rejected. `hints`: plugin -> the events that may help what it rejected; without hints any may."""

    def __init__(
        self,
        clock: Clock,
        hints: Mapping[str, Iterable[EventHint]],
        partitions: Mapping[str, Partition] | None = None,
    ) -> None:
        """partitions: plugin -> the partition of a pod among those of its shape, for plugins that divide them."""
        self.hinted: Hinted | None = None
        """Told what a plugin's hints said; None if nobody wants to know."""
        self._clock = clock
        self._hints = {plugin: tuple(found) for plugin, found in hints.items()}
        self._partitions = partitions or {}
        self._pods: dict[str, dict[Hashable, dict[str, QueuedPod]]] = {}
        """Plugin -> shape, perhaps with partition -> key -> pod that the plugin rejected."""
        self._buckets: dict[tuple[str, Hashable], dict[Hashable, None]] = {}
        """Plugin and partition -> shapes with the partition, in the order in which they came."""

    def use(self, hints: Mapping[str, Iterable[EventHint]], partitions: Mapping[str, Partition]) -> None:
        """Go by what other plugins say."""
        waiting = {
            key: queued for buckets in self._pods.values() for pods in buckets.values() for key, queued in pods.items()
        }
        for queued in waiting.values():
            self.discard(queued)
        self._hints = {plugin: tuple(found) for plugin, found in hints.items()}
        self._partitions = partitions
        for queued in waiting.values():
            self.add(queued)

    def rejected_by(self, plugin: str) -> Iterator[QueuedPod]:
        """The pods that a plugin rejected."""
        for pods in self._pods.get(plugin, {}).values():
            yield from pods.values()

    def add(self, queued: QueuedPod) -> None:
        """A pod waits for what helps the plugins that rejected it."""
        queued.waits_as = tuple(self._bucket_of(plugin, queued.pod) for plugin in queued.rejected_by)
        for plugin, bucket in zip(queued.rejected_by, queued.waits_as, strict=True):
            self._pods.setdefault(plugin, {}).setdefault(bucket, {})[queued.pod.key] = queued
            if isinstance(bucket, tuple):
                self._buckets.setdefault((plugin, bucket[1]), {})[bucket] = None

    def _bucket_of(self, plugin: str, pod: PodInfo) -> Hashable:
        partition = self._partitions.get(plugin)
        return pod.shape if partition is None else (pod.shape, partition(pod))

    def discard(self, queued: QueuedPod) -> None:
        """A pod waits no more, if it did."""
        buckets, queued.waits_as = queued.waits_as, ()
        if not buckets:
            return
        for plugin, bucket in zip(queued.rejected_by, buckets, strict=True):
            known = self._pods[plugin]
            pods = known[bucket]
            del pods[queued.pod.key]
            if not pods:
                del known[bucket]
                if isinstance(bucket, tuple):
                    self._forget_bucket(plugin, bucket)
                if not known:
                    del self._pods[plugin]

    def _forget_bucket(self, plugin: str, bucket: tuple[Hashable, ...]) -> None:
        alike = self._buckets[plugin, bucket[1]]
        del alike[bucket]
        if not alike:
            del self._buckets[plugin, bucket[1]]

    def helped(self, event: ClusterEvent, old: Any, new: Any) -> Iterator[tuple[QueuedPod, bool]]:
        """The pods that an event may help, each once per plugin that says so, and whether it says so by a hint.

        Pods may be discarded on the way.
        """
        for plugin in list(self._pods):
            hints = self._interested(plugin, event)
            if hints is None:
                continue
            for pods in self._pods_in_question(plugin, hints, old, new):
                for queued in self._helped_of(plugin, hints, pods, event, old, new):
                    yield queued, bool(hints)

    def _pods_in_question(
        self, plugin: str, hints: tuple[EventHint, ...], old: Any, new: Any
    ) -> list[dict[str, QueuedPod]]:
        """The buckets of a plugin in which an event may help pods."""
        known = self._pods.get(plugin, {})
        if plugin not in self._partitions or not hints:
            return list(known.values())
        partitions: dict[Hashable, None] = {None: None}  # that of pods which a plugin could not tell the partition of
        for hint in hints:
            found = hint.partitions(old, new) if hint.partitions is not None else None
            if found is None:
                return list(known.values())
            partitions |= dict.fromkeys(found)
        return [known[bucket] for one in partitions for bucket in self._buckets.get((plugin, one), ())]

    def helps(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> bool:
        """Whether an event may help a pod."""
        for plugin in queued.rejected_by:
            hints = self._interested(plugin, event)
            if hints is not None and self._may_help(plugin, hints, queued, event, old, new):
                return True
        return False

    def _helped_of(
        self,
        plugin: str,
        hints: tuple[EventHint, ...],
        pods: Mapping[str, QueuedPod],
        event: ClusterEvent,
        old: Any,
        new: Any,
    ) -> list[QueuedPod]:
        """Those of some pods of one bucket that an event may help."""
        if all(hint.per_shape or hint.hint is None for hint in hints):
            first = next(iter(pods.values()))
            return list(pods.values()) if self._may_help(plugin, hints, first, event, old, new) else []
        return [queued for queued in pods.values() if self._may_help(plugin, hints, queued, event, old, new)]

    def _may_help(
        self, plugin: str, hints: tuple[EventHint, ...], queued: QueuedPod, event: ClusterEvent, old: Any, new: Any
    ) -> bool:
        if not hints:
            return True
        started = self._clock.monotonic() if self.hinted is not None else 0.0
        answer = any(hint.may_help(event, queued.pod, old, new) for hint in hints)
        if self.hinted is not None:
            self.hinted(plugin, event.label, answer, self._clock.monotonic() - started)
        return answer

    def _interested(self, plugin: str, event: ClusterEvent) -> tuple[EventHint, ...] | None:
        """A plugin's hints about an event: () any event helps, None this one never does."""
        hints = self._hints.get(plugin, ())
        if not hints:
            return ()
        found = tuple(h for h in hints if h.resource in (event.resource, "*") and h.actions & event.action)
        return found or None
