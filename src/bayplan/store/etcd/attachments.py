"""What writers of this process hand to the events of their writes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class PendingAttachment:
    """One write whose event has not come."""

    key: str
    value: bytes | None
    attachment: object


class Attachments:
    """Finds the attachment of an event by the key and the bytes, which arrive before the writer knows its revision.

    Bytes that equal those of the event say the same, whoever has written them. Of two writers in this process that write the same at once neither's is taken.
    """

    def __init__(self) -> None:
        self._pending: dict[str, list[PendingAttachment]] = {}

    def add(self, key: str, value: bytes | None, attachment: object) -> PendingAttachment:
        """A write begins."""
        pending = PendingAttachment(key, value, attachment)
        self._pending.setdefault(key, []).append(pending)
        return pending

    def discard(self, pending: PendingAttachment) -> None:
        """The write has ended."""
        waiting = self._pending.get(pending.key)
        if waiting is not None and pending in waiting:
            waiting.remove(pending)
            if not waiting:
                del self._pending[pending.key]

    def take(self, key: str, value: bytes | None) -> object:
        """The attachment of an event; None if there is none, or no telling which."""
        same = [one for one in self._pending.get(key, ()) if one.value == value]
        if len(same) != 1:
            return None
        self.discard(same[0])
        return same[0].attachment
