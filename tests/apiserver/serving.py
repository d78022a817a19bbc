"""An API server for tests: over HTTPS, or in this process."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp

from bayplan.apiserver.certificates import make_authority, sign
from bayplan.apiserver.http.http2_support import protocols_of
from bayplan.apiserver.http.server import HttpServer
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.tls import tls_context
from bayplan.client import Client
from bayplan.client.in_process import InProcessTransport
from bayplan.store.interface import Store
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SystemRandomness

TOKENS = {
    "admin": ("gold-admin-token", "gold-admin", "gold-admin-uid", ("system:masters",)),
    "alice": ("gold-alice-token", "alice", "alice-uid", ("gold:dev", "gold:qa")),
    "bob": ("gold-bob-token", "bob", "bob-uid", ("gold:ops",)),
    "carol": ("gold-carol-token", "carol", "carol-uid", ()),
    "node1": ("gold-node1-token", "system:node:gold-node-1", "node1-uid", ("system:nodes",)),
    "node2": ("gold-node2-token", "system:node:gold-node-2", "node2-uid", ("system:nodes",)),
}
ADMIN = User("gold-admin", ("system:masters", "system:authenticated"), "gold-admin-uid")


AS_RECORDED = ApiServerSettings(
    service_cluster_ip_range="10.0.0.0/16",
    authorization_modes=("Node", "RBAC"),
    enable_admission_plugins=("NodeRestriction",),
)
"""How the server was set up whose answers the transcripts hold."""


@dataclass
class Served:
    """A running server and a session that trusts it."""

    api: ApiServer
    url: str
    session: aiohttp.ClientSession
    http: HttpServer
    """What listens."""

    def headers(self, user: str = "admin") -> dict[str, str]:
        """Credentials of a user."""
        return {"Authorization": f"Bearer {TOKENS[user][0]}"}


def new_api(store: Store | None = None, settings: ApiServerSettings | None = None) -> ApiServer:
    """An API server over a memory store, not yet open."""
    clock = SystemClock()
    return ApiServer(
        store or open_store("memory:", clock=clock),
        clock=clock,
        randomness=SystemRandomness(),
        settings=settings or ApiServerSettings(service_cluster_ip_range="10.0.0.0/16"),
    )


@contextlib.asynccontextmanager
async def opened(store: Store | None = None, settings: ApiServerSettings | None = None) -> AsyncIterator[ApiServer]:
    """An API server in this process."""
    api = new_api(store, settings)
    await api.open()
    try:
        yield api
    finally:
        await api.close()


def client_of(api: ApiServer, user: User = ADMIN) -> Client:
    """An in-process client of one user."""
    return Client(InProcessTransport(InProcessEndpoint(api, user)))


@contextlib.asynccontextmanager
async def served(
    settings: ApiServerSettings | None = None,
    *,
    kubelet_tls: ssl.SSLContext | None = None,
    store: Store | None = None,
) -> AsyncIterator[Served]:
    """An API server over HTTPS, alone: no controllers, no nodes."""
    async with opened(store, settings or AS_RECORDED) as api:
        authenticator = api.context.authenticator
        for token, name, uid, groups in TOKENS.values():
            authenticator.add_token(token, name, groups, uid)
        authority = make_authority(api.context.clock.now())
        pair = sign(authority, api.context.clock.now(), "kube-apiserver", hosts=("127.0.0.1",))
        http = HttpServer(api, authenticator, kubelet_tls)
        tls = tls_context(pair, authority.certificate, (), protocols_of(api.context.settings))
        port = await http.start("127.0.0.1", 0, tls)
        await api.publish_address("192.0.2.1", port)
        trust = ssl.create_default_context(cadata=authority.certificate.decode())
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0)) as session:
                yield Served(api, f"https://127.0.0.1:{port}", session, http)
        finally:
            await http.stop()
