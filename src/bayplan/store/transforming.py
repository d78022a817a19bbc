"""A store whose values are kept in another form than they are read and written in, such as encrypted.

put(key, value)  -> transformer of the key -> to_storage   -> the store below
get, range, watch <- transformer of the key <- from_storage <- the store below

What a transformer cannot read is delivered as an `UnreadableValue`: one lost key of one object takes nothing else away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from bayplan.store.errors import Untransformable
from bayplan.store.interface import (
    Deliver,
    Event,
    KeyValue,
    Lost,
    PendingWrite,
    RangeResult,
    Store,
    UnreadableValue,
    Watch,
)


class Transformer(Protocol):
    """Turns values into their stored form and back."""

    def to_storage(self, key: str, value: bytes) -> bytes:
        """The stored form. Raises Untransformable."""

    def from_storage(self, key: str, value: bytes) -> bytes:
        """What a stored form stands for. Raises Untransformable."""

    def is_current(self, value: bytes) -> bool:
        """Whether a stored form, or the `form` of it, is the one that would be written today."""

    def form(self, value: bytes) -> bytes:
        """As much of a stored form as `is_current` looks at. There may be thousands of them: if equal ones can be the same object, they are."""


class Readiness(Protocol):
    """Values whose key somebody else has to be asked for: they wait for it, and hold up nothing else on the event loop."""

    def is_ready(self, key: str, value: bytes) -> bool:
        """Whether a stored form can be transformed at once."""

    async def make_ready(self, key: str, value: bytes) -> None:
        """Return when it can, or when it is known why not; `from_storage` tells that."""


Choose = Callable[[str], Transformer | None]
"""The transformer of a key; None if its values are kept as they are."""


class TransformingStore:
    """`Store` over another one. Guards, revisions and histories are those of the store below."""

    def __init__(
        self, below: Store, choose: Choose, *, forms_stay_current: bool = False, readiness: Readiness | None = None
    ) -> None:
        """forms_stay_current: whether a form that is current will always be; then only those that are not have to be remembered. readiness: what values have to
        wait for; a shared store below has to let events wait for it itself."""
        self._below = below
        self._readiness = readiness
        self._choose = choose
        self._forms_stay_current = forms_stay_current
        self._forms: dict[str, bytes] = {}
        """The form of values that were transformed, by key."""
        self._own: dict[str, tuple[bytes, bytes, Transformer]] = {}
        """Values that are being put, stored form first, and their transformer, by key: their events need not be read."""

    @property
    def sole_writer(self) -> bool:
        return self._below.sole_writer

    @property
    def revision(self) -> int:
        return self._below.revision

    @property
    def compacted_revision(self) -> int:
        return self._below.compacted_revision

    @property
    def write_error(self) -> str:
        return self._below.write_error

    async def open(self) -> None:
        await self._below.open()

    async def close(self) -> None:
        await self._below.close()

    def is_outdated(self, key: str) -> bool:
        """Whether the value of a key is stored in another form than it would be written in today, so that the same value is worth writing again."""
        transformer, form = self._choose(key), self._forms.get(key)
        if transformer is not None and form is not None and not transformer.is_current(form):
            return True
        below = self._below
        return isinstance(below, TransformingStore) and below.is_outdated(key)

    def _stored(self, key: str, value: bytes) -> bytes:
        transformer = self._choose(key)
        return value if transformer is None else transformer.to_storage(key, value)

    def _item(self, item: KeyValue) -> KeyValue:
        transformer = self._choose(item.key)
        value = item.value if transformer is None else _read(transformer, item.key, item.value)
        return item if value is item.value else replace(item, value=value)

    def _note(self, key: str, value: bytes | None, transformer: Transformer) -> None:
        """Remember in which form a key is stored."""
        if value is None or (self._forms_stay_current and transformer.is_current(value)):
            self._forms.pop(key, None)
        else:
            self._forms[key] = transformer.form(value)

    def _event(self, event: Event) -> Event:
        own = self._own.get(event.key)
        transformer = own[2] if own is not None else self._choose(event.key)
        if transformer is None:
            return event
        value, previous = event.value, event.previous
        self._note(event.key, value, transformer)
        if own is not None and own[0] == value:
            read: bytes | None = own[1]
        else:
            read = None if value is None else _read(transformer, event.key, value)
        read_previous = None if previous is None else _read(transformer, event.key, previous)
        if read is value and read_previous is previous:
            return event
        return replace(event, value=read, previous=read_previous)

    async def _make_ready(self, items: Sequence[KeyValue]) -> None:
        if self._readiness is None:
            return
        for item in items:
            if not self._readiness.is_ready(item.key, item.value):
                await self._readiness.make_ready(item.key, item.value)

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        item = await self._below.get(key, revision=revision)
        if item is not None:
            await self._make_ready((item,))
        return None if item is None else self._item(item)

    async def range(self, start: str, end: str, *, limit: int = 0, revision: int = 0) -> RangeResult:
        page = await self._below.range(start, end, limit=limit, revision=revision)
        await self._make_ready(page.items)
        if page.revision == self._below.revision:
            for item in page.items:
                transformer = self._choose(item.key)
                if transformer is not None:
                    self._note(item.key, item.value, transformer)
        return RangeResult([self._item(item) for item in page.items], page.revision, page.count)

    async def put(
        self, key: str, value: bytes, *, guard: int | None = None, ttl: float | None = None, attachment: object = None
    ) -> int:
        """See Store. Raises Untransformable, too."""
        transformer = self._choose(key)
        stored = value if transformer is None else transformer.to_storage(key, value)
        if transformer is None or stored is value:
            return await self._below.put(key, value, guard=guard, ttl=ttl, attachment=attachment)
        own = self._own[key] = (stored, value, transformer)
        try:
            return await self._below.put(key, stored, guard=guard, ttl=ttl, attachment=attachment)
        finally:
            if self._own.get(key) is own:
                del self._own[key]

    async def delete(self, key: str, *, guard: int | None = None, attachment: object = None) -> int:
        return await self._below.delete(key, guard=guard, attachment=attachment)

    def submit(self, key: str, value: bytes | None, *, guard: int, attachment: object = None) -> PendingWrite:
        """See Store. Raises Untransformable, too."""
        stored = None if value is None else self._stored(key, value)
        return self._below.submit(key, stored, guard=guard, attachment=attachment)

    def pending(self, key: str) -> PendingWrite | None:
        return self._below.pending(key)

    @property
    def knows_lag(self) -> bool:
        return self._below.knows_lag

    @property
    def may_be_behind(self) -> bool:
        return self._below.may_be_behind

    async def catch_up(self) -> None:
        await self._below.catch_up()

    async def watch(self, prefix: str, start_revision: int, deliver: Deliver, lost: Lost | None = None) -> Watch:
        def delivered(events: Sequence[Event]) -> None:
            deliver([self._event(event) for event in events])

        return await self._below.watch(prefix, start_revision, delivered, lost)

    async def compact(self, revision: int) -> None:
        await self._below.compact(revision)


def _read(transformer: Transformer, key: str, value: bytes) -> bytes:
    if type(value) is UnreadableValue:
        return value
    try:
        return transformer.from_storage(key, value)
    except Untransformable as error:
        return UnreadableValue.of(value, str(error))
