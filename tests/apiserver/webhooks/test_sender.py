"""Webhooks behind services and over real HTTPS."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from aiohttp import web

from bayplan.api.errors import ApiError
from bayplan.apiserver.certificates import make_authority
from bayplan.apiserver.webhook_http import HttpSender
from bayplan.apiserver.webhooks.calling import SendError, Target
from bayplan.client import Client
from bayplan.support.clock import SystemClock
from tests.apiserver.webhooks.senders import (
    CONFIGURATIONS,
    MAPS,
    NAME,
    RULE,
    Tree,
    config_map,
    create,
    listening,
    webhooks,
)

SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


async def allow(request: web.Request) -> web.Response:
    review = json.loads(await request.read())
    response = {"uid": review["request"]["uid"], "allowed": True, "warnings": [request.host, str(request.rel_url)]}
    return web.json_response({**review, "response": response, "request": None})


async def refused(port: int, authority: bytes, seconds: float = 5, name: str = NAME) -> str:
    sender = HttpSender()
    try:
        with pytest.raises(SendError) as error:
            await sender.post(Target(f"https://{name}:443/x", ("127.0.0.1", port), authority), b"{}", seconds)
    finally:
        await sender.close()
    return str(error.value)


async def offer(client: Client, port: int, **spec: Any) -> None:
    """The service `hook`, whose port 8443 leads to a port of this machine."""
    named = {"name": "https", "port": 8443}
    await create(client, SERVICES, {"metadata": {"name": "hook"}, "spec": spec or {"ports": [named]}})
    labels = {"kubernetes.io/service-name": "hook"}
    slice_ = {
        "metadata": {"name": "hook", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port}],
    }
    endpoints = [{"addresses": ["192.0.2.5"]}, {"addresses": ["192.0.2.7"], "conditions": {"ready": False}}]
    await create(client, SLICES, {**slice_, "endpoints": endpoints})


async def configure(client: Client, authority: bytes, port: int = 8443) -> None:
    service = {"namespace": "default", "name": "hook", "path": "/check", "port": port}
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"service": service, "caBundle": base64.b64encode(authority).decode()},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    where = f"{CONFIGURATIONS}/validatingwebhookconfigurations"
    await create(client, where, {"metadata": {"name": "hook"}, "webhooks": [webhook]})


def test_a_service_is_asked_under_its_own_name() -> None:
    async def main() -> None:
        asked: list[Tree] = []

        async def note(request: web.Request) -> web.Response:
            asked.append({"host": request.host, "path": str(request.rel_url)})
            return await allow(request)

        async with listening(note) as (port, authority), webhooks() as (api, client, _):
            api.context.webhook_sender = HttpSender()
            spec = {"type": "ExternalName", "externalName": "localhost"}
            await create(client, SERVICES, {"metadata": {"name": "hook"}, "spec": spec})
            await configure(client, authority, port)
            await create(client, MAPS, config_map("one"))
            assert asked == [{"host": f"{NAME}:{port}", "path": "/check?timeout=10s"}]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("spec", "port", "why"),
    [
        (None, 8443, 'service "hook" not found'),
        ({"ports": [{"name": "https", "port": 8443}]}, 9, 'no service port 9 found for service "hook"'),
        ({"ports": [{"name": "other", "port": 8443}]}, 8443, 'no endpoints available for service "hook"'),
    ],
)
def test_a_service_that_leads_nowhere_fails_the_request(spec: Tree | None, port: int, why: str) -> None:
    async def main() -> None:
        async with webhooks() as (_, client, _):
            if spec is not None:
                await offer(client, 1, **spec)
            await configure(client, b"", port)
            with pytest.raises(ApiError) as error:
                await create(client, MAPS, config_map("one"))
            assert error.value.message.endswith(f'Post "https://{NAME}:{port}/check?timeout=10s": {why}')

    asyncio.run(main())


def test_a_service_is_asked_at_an_endpoint_that_is_ready() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            await offer(client, 9443)
            await configure(client, b"")
            with pytest.raises(ApiError, match="connection refused"):
                await create(client, MAPS, config_map("one"))
            assert [target.address for target in sender.targets] == [("192.0.2.5", 9443)]

    asyncio.run(main())


def test_what_goes_wrong_is_worded_as_go_words_it() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async def main() -> None:
        async with listening(slow) as (port, authority):
            assert await refused(port, authority, 0.2) == "context deadline exceeded"
            other = make_authority(SystemClock().now()).certificate
            assert (await refused(port, other)).startswith("tls: failed to verify certificate: ")
            assert (await refused(port, authority, name="wrong.default.svc")).startswith("tls: failed to verify")
        assert await refused(port, authority) == f"dial tcp 127.0.0.1:{port}: connect: connection refused"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (503, "", "the server is currently unable to handle the request"),
        (404, "no page", "the server could not find the requested resource"),
        (500, 'it "broke"', r'an error on the server ("it \"broke\"") has prevented the request from succeeding'),
        (502, None, 'an error on the server ("unknown") has prevented the request from succeeding'),
        (403, "not you", "not you"),
        (406, None, "the server was unable to respond with a content type that the client supports"),
        (302, "", "the server responded with the status code 302 but did not return more information"),
    ],
)
def test_error_codes_are_worded_as_clients_of_kubernetes_word_them(status: int, text: str | None, why: str) -> None:
    async def broken(_: web.Request) -> web.Response:
        return web.Response(status=status) if text is None else web.Response(status=status, text=text)

    async def main() -> None:
        async with listening(broken) as (port, authority):
            assert await refused(port, authority) == why
        async with listening(broken) as (port, authority), webhooks() as (api, client, _):
            api.context.webhook_sender = HttpSender()
            spec = {"type": "ExternalName", "externalName": "localhost"}
            await create(client, SERVICES, {"metadata": {"name": "hook"}, "spec": spec})
            await configure(client, authority, port)
            with pytest.raises(ApiError) as error:
                await create(client, MAPS, config_map("one"))
            assert error.value.message.endswith(f": failed to call webhook: {why}")

    asyncio.run(main())


def test_bundles_that_are_no_certificates_are_told() -> None:
    async def main() -> None:
        assert await refused(1, b"no certificate") == "tls: unable to load root certificates: not a PEM bundle"

    asyncio.run(main())
