"""What to say of a connection that could not be made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


def dial_problem(error: aiohttp.ClientConnectorError, host: str, port: str | int) -> str:
    """Why an address cannot be reached, in Go's words."""
    number = error.os_error.errno
    why = os.strerror(number) if number else str(error.os_error)
    return f"dial tcp {authority_of(host, port)}: connect: {why.lower()}"


def authority_of(host: str, port: str | int) -> str:
    """Host and port as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
