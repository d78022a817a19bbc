"""The cluster that the page shows: followed with informers, or a copy that stays as it is.

A kind that may not be listed, or that the server does not have, is named in the page's status with the server's message, and
tried again from time to time. Whether the server answers at all is asked every few seconds, since an informer that waits for
events cannot tell silence from absence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol

from bayplan.api.errors import ApiError
from bayplan.api.kinds import DEFAULT_KINDS, Kind, KindTable
from bayplan.api.types import apps_v1, batch_v1, core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.informers import InformerFactory, ObjectCache
from bayplan.informers.cache import key_of
from bayplan.informers.informer import Informer
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Supervisor
from bayplan.ui.cluster_figures import ClusterFigures
from bayplan.ui.feed import Feed, Table
from bayplan.ui.rows import (
    EVENT_COLUMNS,
    NODE_COLUMNS,
    POD_COLUMNS,
    WORKLOAD_COLUMNS,
    Row,
    event_row,
    node_row,
    pod_row,
    workload_row,
)

WORKLOADS: Final = "workloads"
_SINGLE: Final[Mapping[str, tuple[type, tuple[str, ...], Callable[[Any], Row]]]] = {
    "nodes": (core_v1.Node, NODE_COLUMNS, node_row),
    "pods": (core_v1.Pod, POD_COLUMNS, pod_row),
    "events": (core_v1.Event, EVENT_COLUMNS, event_row),
}
"""Tables of one kind: its class, columns, and what makes a row."""
_WORKLOAD_KINDS: Final[tuple[type, ...]] = (
    apps_v1.Deployment,
    apps_v1.StatefulSet,
    apps_v1.DaemonSet,
    batch_v1.Job,
    batch_v1.CronJob,
)
_ALIVE_SECONDS: Final = 5.0
_ALIVE_PATIENCE: Final = 4.0
_RIGHTS_EVERY: Final = 6
"""Of so many signs of life each comes with another look at what may be listed."""


class ClusterSource(Protocol):
    """A cluster as the page sees it."""

    @property
    def caches(self) -> Mapping[type, ObjectCache[Any]]:
        """The objects of each kind of the tables."""

    client: Client | None
    """None for a copy."""
    copy: ClusterSnapshot | None
    """None for a live cluster."""

    figures: ClusterFigures
    """What pods do, counted; nothing for a copy."""

    async def start(self) -> None:
        """Begin to follow."""

    async def stop(self) -> None:
        """Follow no more."""


def add_tables(feed: Feed, caches: Mapping[type, ObjectCache[Any]]) -> None:
    """The tables of the page over these caches, of which others may take the places later."""
    for name, (cls, columns, make) in _SINGLE.items():
        feed.add(Table(name, columns, partial(_row, caches, cls, make), partial(_keys, caches, cls)))
    kinds = {cls.__name__: cls for cls in _WORKLOAD_KINDS}
    feed.add(Table(WORKLOADS, WORKLOAD_COLUMNS, partial(_workload, caches, kinds), partial(_workload_keys, caches)))


def _row(caches: Mapping[type, ObjectCache[Any]], cls: type, make: Callable[[Any], Row], key: str) -> Row | None:
    obj = caches[cls].by_key(key)
    return make(obj) if obj is not None else None


def _keys(caches: Mapping[type, ObjectCache[Any]], cls: type) -> Iterable[str]:
    return caches[cls].keys()


def _workload(caches: Mapping[type, ObjectCache[Any]], kinds: Mapping[str, type], key: str) -> Row | None:
    kind, _, rest = key.partition("/")
    obj = caches[kinds[kind]].by_key(rest)
    return workload_row(kind, obj) if obj is not None else None


def _workload_keys(caches: Mapping[type, ObjectCache[Any]]) -> Iterator[str]:
    for cls in _WORKLOAD_KINDS:
        for key in caches[cls].keys():  # noqa: SIM118 (a cache is no mapping)
            yield f"{cls.__name__}/{key}"


def _followed() -> Iterator[tuple[type, str, str]]:
    """(class, table, what keys begin with) of every kind that is followed."""
    for name, (cls, _, _) in _SINGLE.items():
        yield cls, name, ""
    for cls in _WORKLOAD_KINDS:
        yield cls, WORKLOADS, f"{cls.__name__}/"


class LiveCluster:
    """Follows a cluster as one user."""

    def __init__(self, client: Client, feed: Feed, *, clock: Clock, randomness: Randomness) -> None:
        self.client: Client | None = client
        self.copy: ClusterSnapshot | None = None
        self._client = client
        self._feed = feed
        self._clock = clock
        self._informers = InformerFactory(client, clock, randomness)
        self.caches: dict[type, ObjectCache[Any]] = {cls: ObjectCache() for cls, _, _ in _followed()}
        self.figures = ClusterFigures(clock)
        self._refused: dict[type, str] = {}
        """Why kinds cannot be listed."""
        self._started: set[type] = set()
        self._tasks = Supervisor("ui", clock=clock)
        add_tables(feed, self.caches)

    async def start(self) -> None:
        """Look at what may be listed, and follow that."""
        self._informers.start()
        await self._look()
        self._tasks.spawn("cluster", self._watch_over())

    async def stop(self) -> None:
        """Follow no more."""
        await self._tasks.close()
        await self._informers.stop()

    async def _watch_over(self) -> None:
        count = 0
        while True:
            await self._clock.sleep(_ALIVE_SECONDS)
            count += 1
            if count % _RIGHTS_EVERY == 0 or self._refused or self._feed.status.get("unreachable"):
                await self._look()
            else:
                self._feed.set_status(unreachable=await self._absence("/version"))

    async def _look(self) -> None:
        """Whether the server answers, and what may be listed."""
        away = await self._absence("/version")
        if not away:
            for cls, table, prefix in _followed():
                why = await self._absence(self._client.kinds.of_type(cls).path(), limit="1")
                if why:
                    self._refused[cls] = why
                else:
                    self._refused.pop(cls, None)
                    self._follow(cls, table, prefix)
        self._feed.set_status(unreachable=away, refused={cls.__name__: why for cls, why in self._refused.items()})

    async def _absence(self, path: str, **query: str) -> str:
        """Why a path cannot be read; "" if it can."""
        try:
            async with asyncio.timeout(_ALIVE_PATIENCE):
                await self._client.raw("GET", path, query)
        except ApiError as error:
            return "the credentials are not valid (any more)" if error.code == 401 else error.message
        except TransportError as error:
            return str(error)
        except TimeoutError:
            return f"the server has not answered for {_ALIVE_PATIENCE:.0f} s"
        return ""

    def _follow(self, cls: type, table: str, prefix: str) -> None:
        """Follow a kind, if that is not done yet."""
        if cls in self._started:
            return
        self._started.add(cls)
        informer: Informer[Any] = self._informers.informer(cls)
        self.caches[cls] = informer.cache
        counted = self.figures.changed if cls is core_v1.Pod else None
        mark = self._feed.mark

        def added(obj: Any) -> None:
            if counted is not None:
                counted(None, obj)
            mark(table, prefix + key_of(obj))

        def changed(old: Any, new: Any) -> None:
            if counted is not None:
                counted(old, new)
            mark(table, prefix + key_of(new))

        def deleted(old: Any) -> None:
            if counted is not None:
                counted(old, None)
            mark(table, prefix + key_of(old))

        informer.on_change(added, changed, deleted)


class CopiedCluster:
    """Shows a copy."""

    def __init__(self, copy: ClusterSnapshot, feed: Feed, clock: Clock) -> None:
        self.client: Client | None = None
        self.copy: ClusterSnapshot | None = copy
        self.figures = ClusterFigures(clock)
        self.caches: dict[type, ObjectCache[Any]] = {}
        for cls, _, _ in _followed():
            cache: ObjectCache[Any] = ObjectCache()
            for obj in copy.of(cls.__name__):
                cache.put(obj)
            self.caches[cls] = cache
        add_tables(feed, self.caches)
        refused = {cls.__name__: copy.why_unread(cls.__name__) for cls, _, _ in _followed()}
        feed.set_status(
            copy=copy.source or "a copy",
            taken_at=copy.taken_at,
            refused={kind: why for kind, why in refused.items() if why},
        )

    async def start(self) -> None:
        """Nothing changes."""

    async def stop(self) -> None:
        """Nothing changes."""


class NoCluster(CopiedCluster):
    """Nothing, for a page that shows scenarios alone."""

    def __init__(self, feed: Feed, clock: Clock) -> None:
        super().__init__(ClusterSnapshot({}), feed, clock)
        feed.set_status(copy="", refused={})


def kind_of(cluster: ClusterSource, name: str) -> Kind:
    """The kind that is meant. Raises KeyError."""
    kinds = cluster.client.kinds if cluster.client is not None else KindTable(DEFAULT_KINDS)
    return kinds.named(name)
