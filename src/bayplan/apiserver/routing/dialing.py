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


def request_problem(error: aiohttp.ClientError | TimeoutError, host: str, port: str | int) -> str:
    """Why a request to an address got no answer."""
    import aiohttp  # this module is imported where no client is

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return dial_problem(error, host, port)
    return str(error) or type(error).__name__


def authority_of(host: str, port: str | int) -> str:
    """Host and port as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
