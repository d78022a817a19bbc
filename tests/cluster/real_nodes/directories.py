"""Directories for tests of real nodes."""

from __future__ import annotations

import hashlib
from pathlib import Path


def short(directory: Path) -> Path:
    """A directory beside a test's own whose name is short: the path of a socket has room for 107 bytes."""
    return directory.parent / hashlib.sha256(directory.name.encode()).hexdigest()[:4]
