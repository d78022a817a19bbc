"""What a cluster begins with: objects that are written as they are, with identity and status, before any component looks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from typing import Any, Final

from bayplan.api.kinds import Kind
from bayplan.apiserver.server import ApiServer
from bayplan.store.errors import Conflict

_AT_ONCE: Final = 512
"""Objects that may share a commit."""


async def take_in(api: ApiServer, contents: Iterable[tuple[Kind, Any]]) -> int:
    """Write objects into the open store of an API server; nobody admits or validates them, and what is there already stays.

    Returns how many were written. The objects belong to the server from then on. Raises ApiError if the store refuses one.
    """
    written = 0
    iterator = iter(contents)
    while batch := list(itertools.islice(iterator, _AT_ONCE)):
        written += sum(await asyncio.gather(*(_write(api, kind, obj) for kind, obj in batch)))
    if written:
        await api.context.allocators.open()
    return written


async def _write(api: ApiServer, kind: Kind, obj: Any) -> bool:
    try:
        await api.context.objects.insert(kind, obj)
    except Conflict:
        return False
    return True
