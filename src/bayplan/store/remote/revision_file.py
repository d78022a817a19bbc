"""The committed revision of a store in memory that its owner and all clients have mapped.

The file stays when the owner of the store ends, and the next owner goes on with the same one: a client that has not noticed yet is never told less than what any
other client knows.
"""

from __future__ import annotations

from pathlib import Path

from bayplan.support.metrics.shared_numbers import SharedNumbers


class RevisionFile:
    """The mapped number."""

    def __init__(self, path: Path) -> None:
        """Map the file, which is made if there is none. Raises OSError."""
        self._numbers = SharedNumbers.at(path, 1)

    def get(self) -> int:
        """The last revision that was committed."""
        return self._numbers[0]

    def set(self, revision: int) -> None:
        """Tell all processes. To be called by the owner of the store, before anybody hears of the commit otherwise."""
        self._numbers[0] = revision

    def close(self) -> None:
        """Give the mapping back; the file stays."""
        self._numbers.close()
