"""Who may use the page: whoever has the token of the printed URL, from the page's own origin.

The token comes once in the URL and is exchanged for a cookie, so that it stays in no history and no referrer. The server listens on the loopback address only; a
Host header of another name (DNS rebinding) and a request that another site sends are refused before anything else. Pure: no I/O.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from bayplan.support.randomness import Randomness
from bayplan.ui.errors import RequestError

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Headers of every answer. There is none of CORS: no other origin may read an answer."""
_NAMES: Final = ("127.0.0.1", "localhost")
_SAFE_METHODS: Final = ("GET", "HEAD")


class Access:
    """The token, the cookie, and what requests must say. port: the one that the server listens on."""

    def __init__(self, randomness: Randomness, port: int) -> None:
        self.token = randomness.uuid4().replace("-", "")
        self._session = randomness.uuid4().replace("-", "")
        self.port = port

    @property
    def cookie_name(self) -> str:
        """Cookies are shared by all ports of a host, so the port is in the name."""
        return f"bayplan-{self.port}"

    @property
    def url(self) -> str:
        """The URL that opens the page."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The `Set-Cookie` header that takes the place of the token."""
        return f"{self.cookie_name}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def takes_token(self, token: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def takes_cookie(self, value: str) -> bool:
        """Whether this is the value of the cookie."""
        return hmac.compare_digest(value.encode(), self._session.encode())

    def check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse what comes under another name or from another site. Raises RequestError."""
        own = [f"{name}:{self.port}" for name in _NAMES]
        host = headers.get("Host", "")
        if host not in own:
            raise RequestError(421, f"this page is at 127.0.0.1:{self.port}, not at {host[:100] or 'no host'}")
        origin = headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            raise RequestError(403, "a request from another site")
        if method in _SAFE_METHODS:
            return
        if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise RequestError(403, "a request from another site")
        if headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise RequestError(415, "the body must be JSON")
