"""How to reach one server as one user."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bayplan.client.errors import TransportError

_FILE_SECONDS: Final = 60.0
"""After which a token is read again."""


class TokenSource(Protocol):
    """Has a token that changes."""

    async def token(self) -> str:
        """The token for a request; empty for none. Raises TransportError."""

    def refuse(self, token: str) -> None:
        """A server did not take this token: get another one for the next request."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to reach one server as one user."""

    server: str
    """Base URL such as `https://127.0.0.1:6443`."""
    tls: ssl.SSLContext | None = None
    token: str = ""
    source: TokenSource | None = None
    """Who has the token, in place of `token`, if it changes."""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers of each request."""
    tls_server_name: str = ""
    """The name that the server's certificate has to have, if that is not the one in the URL."""
    proxy: str = ""
    """URL of the HTTP proxy that leads there."""


class FileToken:
    """A `TokenSource`: a file that is read again once it may have changed, as those of service accounts do."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = ""
        self._until = 0.0

    async def token(self) -> str:
        """See TokenSource. While the file cannot be read, the last token is used."""
        now = asyncio.get_running_loop().time()
        if not self._token or now >= self._until:
            try:
                self._token = self._path.read_text().strip()
                self._until = now + _FILE_SECONDS
            except OSError as error:
                if not self._token:
                    raise TransportError(f"{self._path}: {error.strerror or error}") from error
        return self._token

    def refuse(self, token: str) -> None:
        """See TokenSource."""
        self._until = 0.0
