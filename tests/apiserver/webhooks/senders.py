"""Webhooks for tests: functions instead of servers, and functions behind real ones."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from bayplan.apiserver.certificates import make_authority, sign
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.tls import tls_context
from bayplan.apiserver.webhooks.calling import SendError, Target
from bayplan.client import Client
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import client_of, opened

Tree = dict[str, Any]
Hook = Callable[[Tree], Tree]
"""From the request of a review to its response, without uid."""

NAME = "hook.default.svc"
"""The name under which `listening` is known."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


class FakeSender:
    """Webhooks by URL."""

    def __init__(self) -> None:
        self.hooks: dict[str, Hook] = {}
        self.asked: list[Tree] = []
        self.targets: list[Target] = []
        self.version = "v1"

    def dials(self, url: str) -> bool:
        return False

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        self.targets.append(target)
        hook = self.hooks.get(target.url)
        if hook is None:
            raise SendError("dial tcp: connect: connection refused")
        review = json.loads(body)
        self.asked.append(review["request"])
        response = {"uid": review["request"]["uid"], "allowed": True, **hook(review["request"])}
        return json.dumps(
            {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}
        ).encode()

    async def close(self) -> None:
        """Nothing to let go of."""


class RefusedSender:
    """Dials whatever it is told to; nobody listens anywhere."""

    def __init__(self) -> None:
        self.targets: list[Target] = []

    def dials(self, url: str) -> bool:
        return True

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        self.targets.append(target)
        raise SendError("refused")

    async def close(self) -> None:
        """Nothing to let go of."""


@asynccontextmanager
async def webhooks() -> AsyncIterator[tuple[ApiServer, Client, FakeSender]]:
    """A server that asks functions."""
    async with opened() as api:
        sender = api.context.webhook_sender = FakeSender()
        yield api, client_of(api), sender


async def create(client: Client, path: str, obj: Tree, **query: str) -> Tree:
    made: Tree = json.loads(await client.raw("POST", path, query, json.dumps(obj).encode()))
    return made


async def configure(
    client: Client, sender: FakeSender, name: str, hook: Hook, *, mutating: bool = True, **more: Any
) -> None:
    """A configuration with one webhook, which a function answers."""
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    url = f"https://hooks.test/{name}"
    sender.hooks[url] = hook
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": url},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
    await create(client, f"{CONFIGURATIONS}/{kind.lower()}s", configuration)


def config_map(name: str, data: Tree | None = None, **metadata: Any) -> Tree:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


def patch(*operations: Tree) -> Tree:
    """A response with a JSON patch."""
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(list(operations)).encode()).decode()}


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[tuple[int, bytes]]:
    """A webhook's server, known as a service and by its address: its port and its authority."""
    now = SystemClock().now()
    authority = make_authority(now)
    runner = web.ServerRunner(web.Server(handler))  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(
        runner, "127.0.0.1", 0, ssl_context=tls_context(sign(authority, now, NAME, hosts=(NAME, "127.0.0.1")), None)
    )
    await site.start()
    try:
        yield runner.addresses[0][1], authority.certificate
    finally:
        await runner.cleanup()
