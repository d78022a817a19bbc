"""Who listens on a port of this machine that somebody else wants, for messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_LISTENING = "0A"
"""TCP_LISTEN, as /proc/net/tcp writes it."""


def holder_of(port: int) -> str:
    """The process that listens on a TCP port in this network namespace, such as `process 812 (kubelet)`, or `another process` where
    it is not to be seen; empty if nobody does."""
    sockets = {f"socket:[{inode}]" for inode in listening_inodes(port)}
    for process in Path("/proc").glob("[0-9]*") if sockets else ():
        try:
            if any(os.readlink(each) in sockets for each in (process / "fd").iterdir()):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
        except OSError:
            continue  # it has just ended, or is not ours to look at
    return "another process" if sockets else ""


def listening_inodes(port: int, tables: Path = Path("/proc/self/net")) -> set[int]:
    """Inodes of the sockets that listen on a TCP port, of IPv4 and IPv6. Source: proc_net_tcp(5)."""
    return {inode for name in ("tcp", "tcp6") for inode in _inodes(tables / name, f"{port:04X}")}


def _inodes(table: Path, port: str) -> Iterator[int]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if fields[3] == _LISTENING and fields[1].rpartition(":")[2] == port:
            yield int(fields[9])
