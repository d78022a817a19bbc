"""The shape of a rule, and the loop that follows what it depends on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.apiserver.context import Context
from bayplan.apiserver.reads.watching import Entry, Event, Selection, Watcher


class Rule(Protocol):
    """Something that follows from the objects in the caches and is written into some of them."""

    context: Context

    def inputs(self) -> Sequence[tuple[Kind, Selection | None]]:
        """The kinds, and which of their objects, whose changes may change the outcome; asked again before each time it settles."""

    async def settle(self) -> None:
        """Compare with what should be, and write the difference. Raises ApiError; a conflict means that it is called again."""


class _Bell(Watcher):
    """A watcher that keeps no events: it only says that there was one."""

    __slots__ = ("rung",)

    def __init__(self, kind: Kind, select: Selection | None, rung: asyncio.Event) -> None:
        super().__init__(kind, select, 0)
        self.rung = rung

    def put(self, event_type: str, entry: Entry, event: Event | None) -> None:
        """Somebody changed what the rule depends on."""
        self.rung.set()


async def keep(rule: Rule, changed: asyncio.Event | None = None) -> None:
    """Settle now and after every change until cancelled. changed: to be set by what changes besides the inputs. Raises ApiError."""
    changed = changed or asyncio.Event()
    bells: dict[str, _Bell] = {}
    try:
        while True:
            changed.clear()
            _hang_up(rule, bells, changed)
            try:
                await rule.settle()
            except ApiError as error:
                if error.reason not in ("Conflict", "NotFound"):
                    raise
                changed.set()  # somebody changed or deleted it meanwhile: look again
                await asyncio.sleep(0)
            await changed.wait()
    finally:
        for bell in bells.values():
            bell.close()


def _hang_up(rule: Rule, bells: dict[str, _Bell], changed: asyncio.Event) -> None:
    """See to it that there is a bell for each input, and for nothing else; a cache that ends takes its bell with it."""
    wanted = {kind.storage_prefix: (kind, select) for kind, select in rule.inputs()}
    for prefix in [prefix for prefix, bell in bells.items() if prefix not in wanted or bell.closed]:
        bells.pop(prefix).close()
    for prefix, (kind, select) in wanted.items():
        if prefix not in bells:
            bells[prefix] = bell = _Bell(kind, select, changed)
            rule.context.objects.cache(kind).watch(bell)
