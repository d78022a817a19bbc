"""What to say of a connection that could not be made."""

from __future__ import annotations

import os

import aiohttp


def dial_problem(error: aiohttp.ClientConnectorError, host: str, port: str | int) -> str:
    """Why an address cannot be reached, in Go's words."""
    number = error.os_error.errno
    why = os.strerror(number) if number else str(error.os_error)
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"dial tcp {where}: connect: {why.lower()}"
