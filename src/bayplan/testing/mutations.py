"""The mutation detector: finds out who changes an object that all share.

Objects in informers' caches belong to everybody. Under the detector every object is encoded when it enters a cache, and again at the end: a difference names the
object that somebody changed in place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from bayplan.api.codec import encode
from bayplan.informers.cache import ObjectCache, key_of


class MutatedObject(AssertionError):
    """A shared object was changed in place."""


@contextlib.contextmanager
def detect_mutations() -> Iterator[None]:
    """Watch over every informer cache for as long as the context lasts. Raises MutatedObject at its end."""
    seen: list[tuple[Any, bytes]] = []
    put: Any = ObjectCache.put

    def remember(cache: ObjectCache[Any], obj: Any) -> Any:
        seen.append((obj, encode(obj)))
        return put(cache, obj)

    setattr(ObjectCache, "put", remember)  # noqa: B010
    try:
        yield
    finally:
        setattr(ObjectCache, "put", put)  # noqa: B010
    for obj, before in seen:
        after = encode(obj)
        if after != before:
            name = f"{type(obj).__name__} {key_of(obj)}"
            raise MutatedObject(f"{name} was changed while it was shared:\n  {before.decode()}\n  {after.decode()}")
