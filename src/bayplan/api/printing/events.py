"""How events look in tables when they are read through `events.k8s.io`: as through the core group."""

from __future__ import annotations

from typing import Any

from bayplan.api.conversions.kinds import event_to_core
from bayplan.api.printing.base import Printer, columns
from bayplan.api.printing.core import event_cells
from bayplan.api.types import events_v1


def _event(obj: events_v1.Event, now: float) -> list[Any]:
    return event_cells(event_to_core(obj), now)


PRINTERS = {"Event": Printer(columns("core/Event"), _event)}
