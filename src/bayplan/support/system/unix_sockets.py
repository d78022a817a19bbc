"""Unix sockets at paths of any length, for the owner of a file alone."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bayplan.support.system.private_files import PRIVATE_FILE

_BACKLOG: Final = 128


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name of the path that fits into an address (108 bytes), while the context lasts. Raises OSError."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def listen(path: Path) -> socket.socket:
    """A listening socket in place of one that an earlier process has left. Only the user of this process can connect. Raises OSError."""
    path.unlink(missing_ok=True)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            before = os.umask(0o777 & ~PRIVATE_FILE)
            try:
                found.bind(name)
            finally:
                os.umask(before)
        found.listen(_BACKLOG)
        found.setblocking(False)
    except BaseException:
        found.close()
        raise
    return found


def connect(path: Path) -> socket.socket:
    """A connection. Raises OSError if nobody listens."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            found.connect(name)
        found.setblocking(False)
    except BaseException:
        found.close()
        raise
    return found
