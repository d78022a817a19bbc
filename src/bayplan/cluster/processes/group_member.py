"""What an API server has in common with other processes that serve the same address, and what is its own."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bayplan.apiserver.audit.log_backend import Lines
from bayplan.apiserver.http.connection_share import ConnectionShare


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One of the processes."""

    sockets: Sequence[socket.socket]
    """On which all of them listen."""
    share: ConnectionShare
    """Of this process in the connections."""
    leads: bool
    """Whether this process says where the server is, and that it is there: for all that are one server, or because it is one of its own."""
    own_address: str = ""
    """Where it listens as well, and nobody else; "" if it is a part of one server."""
    metrics: Callable[[], Awaitable[bytes]] | None
    """The metrics of all that are one server; None for its own."""
    identity: str = ""
    """By which name the server says that it is there; "" for that of the machine."""
    audit_lines: Lines | None
    """What writes the audit log for all of them; None if there is no file."""
