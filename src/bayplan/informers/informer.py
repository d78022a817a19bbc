"""Informers and the factory that shares them.

The reflector loop of an informer: list (or stream the initial state), hand over the differences to what was known, then watch from that revision on; when the
watch ends, watch again from the last revision seen; when that revision is no longer kept (410), list again. Failures are retried with growing pauses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bayplan.api.errors import ApiError
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.informers.cache import IndexFunction, ObjectCache, Part, key_of
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

if TYPE_CHECKING:
    from bayplan.informers.custom_kinds import CustomKinds

logger = logging.getLogger(__name__)
T = TypeVar("T")
M = TypeVar("M")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 30.0
_PAGE = 10_000


class Handler(Generic[T]):
    """What to do when something changes. Calls come on the event loop, in order, and must not block; objects are shared."""

    def on_add(self, obj: T) -> None:
        """An object is there (also for each one that exists when the handler is added)."""

    def on_update(self, old: T, new: T) -> None:
        """An object has changed."""

    def on_delete(self, obj: T) -> None:
        """An object is gone; its last known state."""


class Informer(Generic[T]):
    """One kind (in one namespace, with selectors), listed once and followed. Start it through its factory."""

    def __init__(
        self,
        client: Client,
        cls: type[T],
        *,
        clock: Clock,
        randomness: Randomness,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        self.cache: ObjectCache[T] = ObjectCache()
        self._client = client
        self._cls = cls
        self._clock = clock
        self._randomness = randomness
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._when_added: list[Callable[[T], None]] = []
        self._when_changed: list[Callable[[T, T], None]] = []
        self._when_deleted: list[Callable[[T], None]] = []
        self._synced = asyncio.Event()
        self.resource_version = ""
        """Revision up to which the cache is current."""

    @property
    def kind_name(self) -> str:
        """The kind that it follows, for messages."""
        return self._cls.__name__

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the cache."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Return once the first list is in the cache and handlers have seen it."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[T]) -> None:
        """Tell a handler of everything there is, and of every change from now on."""
        self.on_change(handler.on_add, handler.on_update, handler.on_delete)

    def on_change(
        self,
        add: Callable[[T], None] | None = None,
        update: Callable[[T, T], None] | None = None,
        delete: Callable[[T], None] | None = None,
    ) -> None:
        """Add a handler made of functions."""
        if add is not None:
            for obj in self.cache:
                add(obj)
            self._when_added.append(add)
        if update is not None:
            self._when_changed.append(update)
        if delete is not None:
            self._when_deleted.append(delete)

    def add_index(self, name: str, function: IndexFunction, part: Part | None = None) -> None:
        """Index the cache, see ObjectCache."""
        self.cache.add_index(name, function, part)

    async def run(self) -> None:
        """List and watch until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            try:
                if not self.resource_version:
                    await self._list()
                if await self._watch():
                    pause = _FIRST_PAUSE
                    continue
            except ApiError as error:
                if error.code == 410:
                    logger.info("%s: revision %s is gone, listing again", self._cls.__name__, self.resource_version)
                    self.resource_version = ""
                    continue
                logger.warning("%s: %s", self._cls.__name__, error)
            except TransportError as error:
                logger.warning("%s: %s", self._cls.__name__, error)
            await self._clock.sleep(self._randomness.jitter(pause, 0.5))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def clear(self) -> None:
        """Forget everything; handlers hear of it as of deletions."""
        for key in list(self.cache.keys()):
            self._remove(key)

    async def _list(self) -> None:
        found = await self._client.list(
            self._cls,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version="0",
            page_size=_PAGE,
        )
        present = set()
        for obj in found.items:
            present.add(key_of(obj))
            self._put(obj)
        for key in list(self.cache.keys()):
            if key not in present:
                self._remove(key)
        self.resource_version = found.resource_version
        self._synced.set()

    async def _watch(self) -> bool:
        """Follow changes until the watch ends. Returns whether anything came."""
        came = False
        stream = await self._client.watch(
            self._cls,
            self._namespace,
            resource_version=self.resource_version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            bookmarks=True,
        )
        try:
            while batch := await stream.next_batch():
                came = True
                for event_type, obj in batch:
                    if event_type == "DELETED":
                        self._remove(key_of(obj), obj)
                    elif event_type != "BOOKMARK":
                        self._put(obj)
                    self.resource_version = obj.metadata.resource_version  # type: ignore[attr-defined]
        except TransportError:
            if not came:
                raise
            logger.info("%s: the watch broke, resuming from revision %s", self._cls.__name__, self.resource_version)
        finally:
            stream.close()
        return came

    def _put(self, obj: T) -> None:
        old = self.cache.put(obj)
        if old is None:
            for added in self._when_added:
                added(obj)
        elif old.metadata.uid != obj.metadata.uid:  # type: ignore[attr-defined]
            for deleted in self._when_deleted:
                deleted(old)
            for added in self._when_added:
                added(obj)
        elif old is not obj:
            for changed in self._when_changed:
                changed(old, obj)

    def _remove(self, key: str, last: T | None = None) -> None:
        old = self.cache.remove(key)
        if old is not None:
            for deleted in self._when_deleted:
                deleted(last if last is not None else old)


class InformerFactory:
    """Informers of one client, shared by everybody who asks for the same thing."""

    def __init__(self, client: Client, clock: Clock, randomness: Randomness) -> None:
        self.client = client
        self.clock = clock
        self.randomness = randomness
        self._informers: dict[tuple[Any, str, str, str], Informer[Any]] = {}
        self._tasks: dict[tuple[Any, str, str, str], asyncio.Task[None]] = {}
        self._started = False
        self._asked: list[Informer[Any]] | None = None
        """What was asked for, while `asked_by` wants to know."""
        self._custom_kinds: CustomKinds | None = None

    @property
    def custom_kinds(self) -> CustomKinds:
        """The custom kinds of the client's table, which are followed from the first time on that somebody asks."""
        if self._custom_kinds is None:
            from bayplan.informers.custom_kinds import CustomKinds

            self._custom_kinds = CustomKinds(self)
        return self._custom_kinds

    def informer(
        self, cls: type[T], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Informer[T]:
        """The informer of a kind; made (and started, if the factory runs) when first asked for."""
        key = (cls, namespace, label_selector, field_selector)
        informer = self._informers.get(key)
        if informer is None:
            informer = self._informers[key] = Informer(
                self.client,
                cls,
                clock=self.clock,
                randomness=self.randomness,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
            )
            if self._started:
                self._start(key, informer)
        if self._asked is not None:
            self._asked.append(informer)
        return informer

    def asked_by(self, make: Callable[[], M]) -> tuple[M, list[Informer[Any]]]:
        """What a function makes, and the informers that it asked for meanwhile."""
        asked = self._asked = []
        try:
            return make(), asked
        finally:
            self._asked = None

    def start(self) -> None:
        """Start all informers, and every later one at once."""
        self._started = True
        for key, informer in self._informers.items():
            if key not in self._tasks:
                self._start(key, informer)

    def _start(self, key: tuple[Any, str, str, str], informer: Informer[Any]) -> None:
        self._tasks[key] = asyncio.create_task(informer.run(), name=f"informer {key[0].__name__}")

    def drop(self, cls: Any, *, gone: bool) -> None:
        """End the informers of a kind that is served no more. If its objects are gone with it, handlers hear so."""
        for key in [key for key in self._informers if key[0] is cls]:
            informer = self._informers.pop(key)
            task = self._tasks.pop(key, None)
            if task is not None:
                task.cancel()
            if gone:
                informer.clear()

    async def wait_for_sync(self, informers: Collection[Informer[Any]] | None = None) -> None:
        """Return once all informers, or some, have their first list. Raises what ended an informer, if one ended."""
        for key, informer in tuple(self._informers.items()):
            if informers is not None and informer not in informers:
                continue
            task, synced = self._tasks[key], asyncio.create_task(informer.wait_for_sync())
            try:
                await asyncio.wait({synced, task}, return_when=asyncio.FIRST_COMPLETED)
                if not synced.done():
                    await task
            finally:
                synced.cancel()

    async def stop(self) -> None:
        """End all informers. What is asked for from now on does not start."""
        self._started = False
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
