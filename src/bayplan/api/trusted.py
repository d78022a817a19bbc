"""Parts that the server made itself and shares between objects: complete and valid, so that nobody defaults or checks them again.

What comes from a client is decoded afresh and never is such a part, however much it looks like one.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

T = TypeVar("T")

_parts: Final[dict[int, Any]] = {}
"""By identity; kept for ever, so that no other object gets the identity of one."""


def trust(part: T) -> T:
    """Make a part known. It is defaulted, valid, gives no warnings, and nobody changes it any more."""
    _parts[id(part)] = part
    return part


def is_trusted(part: object) -> bool:
    """Whether this very object was made known."""
    return id(part) in _parts
