"""One API server behind every transport, so that every test of the client runs over each."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.certificates import make_authority, sign
from bayplan.apiserver.http.server import HttpServer
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.piped import PipedRequests
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.tls import tls_context
from bayplan.client import Client
from bayplan.client.credentials import Credentials
from bayplan.client.http import HttpTransport
from bayplan.client.piped import PipedServer
from bayplan.support.pipe import Pipe, open_pipe
from tests.apiserver.serving import ADMIN, TOKENS, client_of, new_api

HTTP, IN_PROCESS, PIPED = "http", "in-process", "piped"
TRANSPORTS = (HTTP, IN_PROCESS, PIPED)


class Door:
    """A server that can be opened and shut, with a client that stays."""

    def __init__(self, transport: str) -> None:
        self.transport = transport
        self.api: ApiServer = new_api()
        self.client: Client
        self._http: HttpServer | None = None
        self._pipes: list[Pipe] = []
        self._port = 0
        now = self.api.context.clock.now()
        self._authority = make_authority(now)
        self._pair = sign(self._authority, now, "kube-apiserver", hosts=("127.0.0.1",))

    async def open(self) -> None:
        """Begin to serve."""
        await self.api.open()
        await self.serve()
        if self.transport == IN_PROCESS:
            self.client = client_of(self.api)
            return
        if self.transport == PIPED:
            self._pipes = [await open_pipe(end) for end in socket.socketpair()]
            self._requests = PipedRequests(self._pipes[0], lambda _: InProcessEndpoint(self.api, ADMIN))
            self.client = Client(PipedServer(self._pipes[1]).transport("admin"))
            return
        trust = ssl.create_default_context(cadata=self._authority.certificate.decode())
        credentials = Credentials(f"https://127.0.0.1:{self._port}", trust, TOKENS["admin"][0])
        self.client = Client(HttpTransport(credentials))

    async def serve(self) -> None:
        """Listen, on the same port as before."""
        if self.transport == HTTP:
            authenticator = Authenticator()
            authenticator.add_token(TOKENS["admin"][0], "admin", ("system:masters",))
            self._http = HttpServer(self.api, authenticator)
            tls = tls_context(self._pair, self._authority.certificate)
            self._port = await self._http.start("127.0.0.1", self._port, tls)

    async def close(self) -> None:
        """End for good."""
        await self.client.close()
        await self.shut()
        for pipe in self._pipes:
            pipe.close()
            await pipe.ended()
        await self.api.close()

    async def shut(self) -> None:
        """Stop listening; objects stay."""
        if self._http is not None:
            await self._http.stop()
            self._http = None
        for cache in self.api.context.objects.caches():
            for watcher in tuple(cache.watchers):
                watcher.close()


@contextlib.asynccontextmanager
async def door(transport: str) -> AsyncIterator[Door]:
    """A server that is open, and its client."""
    opened = Door(transport)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()
