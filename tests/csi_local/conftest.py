"""What tests of the storage interface share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory for sockets, whose paths have 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="csi-") as directory:
        yield Path(directory)
