"""What open pages get: a snapshot of all tables, and from then on frames of differences, each encoded once for all pages.

A frame has a number. A page takes a snapshot, which says as of which frame it is, and follows from there:

    snapshot 41 ── frame 42 ── frame 43 ── frame 44 ...

Frames hold the present state of the rows that changed since the frame before, so that to apply one twice, or one whose rows a
snapshot has already, does no harm. The newest frames are kept; a page that asks for older ones, or reads so slowly that they
are gone, is told to take a snapshot again. So no page has a queue of its own, and a slow one costs nothing. While no page is open no frame is made.

A table in a frame or snapshot is columns, of which those with few different values are `{"of": [values], "at": [place per row]}`:

    {"frame": 42, "tables": {"pods": {"keys": ["shop/web-1"], "columns": {"node": {"of": ["node-3"], "at": [0]}, ...}, "gone": ["shop/web-0"]}}}
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bayplan.support.clock import Clock, Timer
from bayplan.ui.rows import Row

_FRAMES_KEPT: Final = 256
_BYTES_KEPT: Final = 16 << 20
_ROWS_AT_ONCE: Final = 1000
"""Rows that are made before others of the event loop get their turn."""
_REMEMBERED_SECONDS: Final = 30.0
"""How long after a snapshot a page may come for the frames that follow it."""
_FEW: Final = 0.5
"""Share of different values up to which a column is written with places."""

_encode = msgspec.json.Encoder().encode


class Table:
    """One table of the page. rows: the row of a key, None if there is no such object (any more). keys: those of all rows."""

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        row: Callable[[str], Row | None],
        keys: Callable[[], Iterable[str]],
    ) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.row = row
        self.keys = keys

    def packed(self, rows: Mapping[str, Row], gone: Sequence[str] = ()) -> dict[str, Any]:
        """Rows as columns."""
        columns = zip(self.columns, zip(*rows.values(), strict=True), strict=True) if rows else ()
        found: dict[str, Any] = {"keys": list(rows), "columns": {name: packed_column(cells) for name, cells in columns}}
        return {**found, "gone": list(gone)} if gone else found


def packed_column(cells: tuple[Any, ...]) -> Any:
    """A column of texts of which many are equal as places; any other as it is."""
    if len(cells) < 8 or not isinstance(cells[0], str):
        return cells
    places: dict[Any, int] = {}
    at = [places.setdefault(cell, len(places)) for cell in cells]
    return {"of": list(places), "at": at} if len(places) <= len(cells) * _FEW else cells


class Feed:
    """Collects changes and makes snapshots and frames. Not thread-safe; meant for one event loop."""

    def __init__(self, clock: Clock, interval: float) -> None:
        """interval: seconds between two frames."""
        self._clock = clock
        self._interval = interval
        self.tables: dict[str, Table] = {}
        self.status: dict[str, Any] = {}
        """What the page says of the cluster as a whole."""
        self._changed: dict[str, dict[str, None]] = {}
        self._status_changed = False
        self._timer: Timer | None = None
        self.number = 0
        """That of the last frame."""
        self._frames: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._came = asyncio.Event()
        self.followers = 0
        """Pages that follow."""
        self._wanted_until = 0.0
        self.is_closed = False
        self._snapshot: tuple[int, asyncio.Task[bytes]] | None = None

    def add(self, table: Table) -> None:
        """A table whose rows are shown from now on."""
        self.tables[table.name] = table
        self._changed[table.name] = {}

    def mark(self, table: str, key: str) -> None:
        """A row has come, changed or gone."""
        self._changed[table][key] = None
        self._soon()

    def set_status(self, **status: Any) -> None:
        """Change what is said of the cluster as a whole."""
        if all(self.status.get(name) == value for name, value in status.items()):
            return
        self.status.update(status)
        self._status_changed = True
        self._soon()

    def _soon(self) -> None:
        if self._timer is None and not self.is_closed:
            self._timer = self._clock.call_later(self._interval, self._make)

    @property
    def is_wanted(self) -> bool:
        """Whether a page follows, or is about to."""
        return self.followers > 0 or self._clock.monotonic() < self._wanted_until

    def _make(self) -> None:
        """Make a frame of all that has changed, if a page wants it."""
        self._timer = None
        self.number += 1
        if not self.is_wanted:
            self._forget()
            return
        content: dict[str, Any] = {"frame": self.number, "tables": {}}
        for name, keys in self._changed.items():
            if keys:
                content["tables"][name] = self._difference(self.tables[name], keys)
                keys.clear()
        if self._status_changed:
            content["status"], self._status_changed = self.status, False
        self._keep(_encode(content))

    def _difference(self, table: Table, keys: Iterable[str]) -> dict[str, Any]:
        rows, gone = {}, []
        for key in keys:
            row = table.row(key)
            if row is None:
                gone.append(key)
            else:
                rows[key] = row
        return table.packed(rows, gone)

    def _forget(self) -> None:
        for keys in self._changed.values():
            keys.clear()
        self._status_changed = False
        self._frames.clear()
        self._bytes = 0

    def _keep(self, frame: bytes) -> None:
        self._frames.append((self.number, frame))
        self._bytes += len(frame)
        while len(self._frames) > _FRAMES_KEPT or (self._bytes > _BYTES_KEPT and len(self._frames) > 1):
            self._bytes -= len(self._frames.popleft()[1])
        came, self._came = self._came, asyncio.Event()
        came.set()

    def after(self, number: int) -> list[tuple[int, bytes]] | None:
        """The frames after one, oldest first; None if some of them are gone: take a snapshot."""
        if number == self.number:
            return []
        first = self._frames[0][0] if self._frames else self.number + 1
        if number > self.number or number < first - 1:
            return None
        return [frame for frame in self._frames if frame[0] > number]

    async def wait(self, seconds: float) -> bool:
        """Return when there is a further frame, or after so many seconds. Returns whether there is one."""
        came = self._came
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await came.wait()
        return came.is_set()

    async def snapshot(self) -> bytes:
        """All tables. Pages that ask at the same time share one."""
        self._wanted_until = self._clock.monotonic() + _REMEMBERED_SECONDS
        made = self._snapshot
        if made is None or made[0] != self.number or (made[1].done() and made[1].cancelled()):
            made = self._snapshot = (self.number, asyncio.ensure_future(self._made(self.number)))
        return await asyncio.shield(made[1])

    async def _made(self, number: int) -> bytes:
        """As of a frame, or later: what changes meanwhile is in the frames after it."""
        tables: dict[str, Any] = {}
        for name, table in self.tables.items():
            rows: dict[str, Row] = {}
            for count, key in enumerate(list(table.keys()), 1):
                row = table.row(key)
                if row is not None:
                    rows[key] = row
                if count % _ROWS_AT_ONCE == 0:
                    await self._clock.sleep(0)
            tables[name] = table.packed(rows)
        return _encode({"frame": number, "tables": tables, "status": self.status})

    def close(self) -> None:
        """Make no frame any more, and wake those who wait for one."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._came.set()
