"""How objects look in tables (`kubectl get`): one file per API group with the cells of its kinds, found by group and loaded on first use.

A printer is pure: cells follow from the object and the time. Kinds without one show name and time of creation.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.kinds import Kind
from bayplan.api.printing.base import Printer, default_printer


def printer_for(kind: Kind) -> Printer:
    """The printer of a kind: `PRINTERS[kind name]` of the module named after the group's first label (`core.py`, `apps.py`, ...); kinds
    served in several versions may have an entry `Kind/version` of their own. Custom resources bring their own."""
    return kind.printer if isinstance(kind, CustomKind) else _built_in(kind)


@functools.cache
def _built_in(kind: Kind) -> Printer:
    name = f"{__name__}.{kind.group.split('.')[0] or 'core'}"
    if importlib.util.find_spec(name) is None:
        return default_printer()
    printers: dict[str, Printer] = importlib.import_module(name).PRINTERS
    return printers.get(f"{kind.kind}/{kind.version}") or printers.get(kind.kind) or default_printer()
