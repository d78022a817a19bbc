"""An API server of a group of its own, as projects write them: it takes requests of the front proxy alone, and tells what it was asked."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from bayplan.apiserver.certificates import KeyPair, make_authority, sign
from bayplan.apiserver.tls import tls_context
from bayplan.support.clock import SystemClock

GROUP, VERSION = "stats.example.com", "v1"
PATH = f"/apis/{GROUP}/{VERSION}"
RESOURCES = {
    "kind": "APIResourceList",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get", "list"], "shortNames": ["th"]},
        {"name": "things/scale", "singularName": "", "namespaced": True, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
    ],
}  # fmt: skip
OPENAPI_V2: dict[str, Any] = {
    "paths": {f"{PATH}/things": {"get": {"schema": {"$ref": "#/definitions/Thing"}}}, "/version": {}},
    "definitions": {"Thing": {"properties": {"part": {"$ref": "#/definitions/Part"}}}, "Part": {}, "Unused": {}},
}


@dataclass
class RemoteServer:
    """What was asked of it, and how it answers."""

    authority: KeyPair
    port: int = 0
    documents: dict[str, Any] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ca_bundle(self) -> str:
        """For an APIService."""
        return base64.b64encode(self.authority.certificate).decode()

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        certificate = http.transport.get_extra_info("peercert") if http.transport is not None else None
        seen = {
            "method": http.method,
            "path": http.raw_path,
            "headers": [(name.lower(), value) for name, value in http.headers.items()],
            "body": (await http.read()).decode(),
            "certificate": dict(row[0] for row in certificate["subject"])["commonName"] if certificate else "",
        }
        if http.path in self.documents:
            return web.json_response(self.documents[http.path])
        self.requests.append(seen)
        if "watch=true" in http.query_string:
            stream = web.StreamResponse()
            await stream.prepare(http)
            await stream.write(b'{"type":"ADDED"}\n')
            await stream.write_eof()
            return stream
        return web.json_response(seen, status=201 if http.method == "POST" else 200)


@contextlib.asynccontextmanager
async def remote_server(front_proxy: bytes, name: str = "stats.default.svc") -> AsyncIterator[RemoteServer]:
    """A server with a certificate for a name. front_proxy: the authority (PEM) of who may ask."""
    now = SystemClock().now()
    authority = make_authority(now)
    tls = tls_context(sign(authority, now, name, hosts=(name,)), front_proxy)
    tls.verify_mode = ssl.CERT_REQUIRED
    server = RemoteServer(authority)
    server.documents = {
        PATH: RESOURCES,
        "/openapi/v2": OPENAPI_V2,
        "/openapi/v3": {"paths": {PATH[1:]: {"serverRelativeURL": f"/openapi/v3{PATH}?hash=ABC"}}},
        f"/openapi/v3{PATH}": {"openapi": "3.0.0", "paths": {"mine": {}}},
    }
    runner = web.ServerRunner(web.Server(lambda http: server.handle(http), access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()
        await asyncio.sleep(0.05)  # connections whose handshake failed are closed a moment later
