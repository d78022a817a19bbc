"""What patches make of the status of pods, remembered: pods that wait for the same, or have to go for the same, are told so in the same words.

The new status depends on the old one and on the patch alone, and so do the fields that change. Statuses that differ in an address or a time are different
ones; for those, remembering costs no more than looking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from bayplan.api.codec import encode

if TYPE_CHECKING:
    from bayplan.api.managedfields.compare import Comparison
    from bayplan.api.types.core_v1 import PodStatus

_MOST: Final = 512
_LONGEST: Final = 4096
"""Bytes of a status, and of a patch."""


class Outcome:
    """What a patch makes of a status."""

    __slots__ = ("_status", "changes")

    def __init__(self) -> None:
        self._status: PodStatus | None = None
        self.changes: Comparison | None = None
        """The fields that it changes; None if that is not known yet."""

    @property
    def status(self) -> PodStatus | None:
        """The new status, of which the members may be set, but not changed; None if it is not known yet."""
        return msgspec.structs.replace(self._status) if self._status is not None else None

    def keep(self, status: PodStatus) -> None:
        """Remember the new status as it is now."""
        self._status = msgspec.structs.replace(status)


_kept: dict[tuple[str, bytes, bytes], Outcome] = {}


def outcome_of(patch_type: str, status: PodStatus, patch: dict[str, Any]) -> Outcome | None:
    """The outcome, known or still to be worked out, of a patch for a status. None if it is too large to be remembered."""
    key = (patch_type, encode(status), encode(patch))
    known = _kept.get(key)
    if known is None and len(key[1]) <= _LONGEST >= len(key[2]):
        if len(_kept) >= _MOST:
            _kept.clear()
        known = _kept[key] = Outcome()
    return known
