"""How runtime classes look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import object_age, printers
from bayplan.api.types import node_v1


def _runtime_class(obj: node_v1.RuntimeClass, now: float) -> list[Any]:
    return [obj.metadata.name, obj.handler, object_age(obj, now)]


PRINTERS = printers("node", {"RuntimeClass": _runtime_class})
