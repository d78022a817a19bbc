"""What the HTTP server needs of connections, whichever version of HTTP they speak.

A connection of HTTP/1.1 has one request at a time, so `Connection` is all of these; of HTTP/2, `Http2Connection` is a peer and an open connection, and each of its
streams is the exchange of one request.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from aiohttp import web

from bayplan.apiserver.authentication.client_certificates import Certified
from bayplan.apiserver.http.headers import ParsedHeaders
from bayplan.apiserver.requests import Request, Response


class Peer(Protocol):
    """Who sends requests."""

    certified: Certified | None
    """What the client's certificate is good for; known once a request has come."""
    has_spoken: bool
    """Whether a request has come."""
    user: str | None
    """Whose requests come this way, as far as a priority level limits them (see `intake`)."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """The way to the client; None if it has gone."""


class Exchange(Peer, Protocol):
    """One request and its response: what aiohttp's requests have as their protocol."""

    is_long_running: bool
    """Whether the request is one that lasts until its client or the server ends it."""

    def take_answered(self) -> tuple[Request, Response] | None:
        """To be called when aiohttp has read a request: that and its response, if it has been answered already."""

    def learn(self, head: ParsedHeaders) -> None:
        """Remember the headers of the request, which has come whole and says this."""

    def expect_body(self) -> None:
        """Tell a client that waits for it to send the body (`100 Continue`)."""

    def bad_request(self) -> web.StreamResponse:
        """The response to a request whose body is none; what brought it is of no further use."""


class OpenConnection(Peer, Protocol):
    """A connection, as its server looks after it. Times are Unix seconds."""

    rests_since: float | None
    """When the last request was answered; None while there is one."""
    head_since: float | None
    """When the first byte of a head came whose end has not come; None if there is no such head."""

    @property
    def is_busy(self) -> bool:
        """Whether a request, or a part of one, has come and is not answered."""

    @property
    def is_long_running(self) -> bool:
        """Whether the present requests last until their client or the server ends them."""

    def close_idle(self, since: float) -> None:
        """Close if the last answer was given before a moment and nothing has come since."""

    def force_close(self) -> None:
        """Close now."""

    def end(self) -> None:
        """Stop working for the client."""
