"""What an API server has in common with other processes that serve the same address."""

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
    """Whether this process says for all where the server is, and that it is there."""
    metrics: Callable[[], Awaitable[bytes]]
    """The metrics of all of them."""
    audit_lines: Lines | None
    """What writes the audit log for all of them; None if there is no file."""
