"""Webhooks behind services and over real HTTPS."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ThreadedResolver, web
from aiohttp.abc import ResolveResult

from bayplan.api.errors import ApiError
from bayplan.apiserver.certificates import make_authority, sign
from bayplan.apiserver.routing.forwards import parse_forward
from bayplan.apiserver.routing.resolving import Resolver
from bayplan.apiserver.tls import tls_context
from bayplan.apiserver.webhooks.calling import SendError, Target
from bayplan.apiserver.webhooks.http import HttpSender
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
    sender = HttpSender(lambda host: "")
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
            api.context.webhook_sender = HttpSender(api.context.simulated.reason)
            spec = {"type": "ExternalName", "externalName": "localhost"}
            await create(client, SERVICES, {"metadata": {"name": "hook"}, "spec": spec})
            await configure(client, authority, port)
            await create(client, MAPS, config_map("one"))
            assert asked == [{"host": f"{NAME}:{port}", "path": "/check?timeout=10s"}]

    asyncio.run(main())


def test_a_server_whose_own_certificate_is_the_bundle_is_believed() -> None:
    async def main() -> None:
        async with listening(allow) as (port, _), listening(allow) as (other, _):
            certificate = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
            sender = HttpSender(lambda host: "")
            body = json.dumps({"request": {"uid": "1"}}).encode()
            try:
                target = Target(f"https://127.0.0.1:{port}/x", None, certificate.encode())
                assert json.loads(await sender.post(target, body, 5))["response"]["allowed"]
                with pytest.raises(SendError, match="failed to verify certificate"):
                    await sender.post(Target(f"https://127.0.0.1:{other}/x", None, certificate.encode()), body, 5)
            finally:
                await sender.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "posted"),
    [("", "/"), ("/", "/"), ("//failing", "/failing"), ("/a//b/", "/a/b"), ("/a/../b", "/b"), ("/a%2Fb", "/a%2Fb")],
)
def test_paths_are_posted_to_as_kubernetes_joins_them(path: str, posted: str) -> None:
    async def main() -> None:
        async with listening(allow) as (port, authority):
            sender = HttpSender(lambda host: "")
            try:
                target = Target(f"https://127.0.0.1:{port}{path}", None, authority)
                answer = json.loads(await sender.post(target, json.dumps({"request": {"uid": "1"}}).encode(), 5))
            finally:
                await sender.close()
        assert answer["response"]["warnings"][1] == f"{posted}?timeout=5s"

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
            api.context.webhook_sender = HttpSender(api.context.simulated.reason)
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


@asynccontextmanager
async def program(name: str = "", trusted: bytes = b"") -> AsyncIterator[tuple[int, list[str]]]:
    """A webhook on this machine, and the names by which it was asked. name: of its own certificate, which nobody vouches for; "": it speaks HTTP."""
    asked: list[str] = []

    async def note(request: web.Request) -> web.Response:
        asked.append(request.host)
        return await allow(request)

    now = SystemClock().now()
    tls = tls_context(sign(make_authority(now), now, name, hosts=(name,)), None) if name else None
    runner = web.ServerRunner(web.Server(note))  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1], asked
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(("scheme", "name"), [("", "my.laptop"), ("https://", "my.laptop"), ("http://", "")])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_program_of_this_machine_answers_for_a_service_with_any_certificate_or_none(
    scheme: str, name: str, host: str
) -> None:
    async def main() -> None:
        async with program(name) as (port, asked), webhooks() as (api, client, _):
            api.context.webhook_sender = HttpSender(api.context.simulated.reason)
            other = make_authority(SystemClock().now()).certificate
            await configure(client, other, 443)
            api.context.services.forwards.set(parse_forward(f"service/default/hook={scheme}{host}:{port}"))
            await create(client, MAPS, config_map("one"))
            assert asked == [f"{NAME}:443"]

    asyncio.run(main())


def test_the_certificate_of_a_program_on_another_machine_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def here(_: Resolver, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)]

    monkeypatch.setattr(Resolver, "resolve", here)

    async def main() -> None:
        async with program("dev.example.com") as (port, asked), webhooks() as (api, client, _):
            api.context.webhook_sender = HttpSender(api.context.simulated.reason)
            await configure(client, make_authority(SystemClock().now()).certificate, 443)
            api.context.services.forwards.set(parse_forward(f"service/default/hook=dev.example.com:{port}"))
            with pytest.raises(ApiError, match="tls: failed to verify certificate"):
                await create(client, MAPS, config_map("one"))
            assert asked == []
        async with listening(allow) as (port, authority), webhooks() as (api, client, _):
            api.context.webhook_sender = HttpSender(api.context.simulated.reason)
            await configure(client, authority, 443)
            api.context.services.forwards.set(parse_forward(f"service/default/hook=dev.example.com:{port}"))
            await create(client, MAPS, config_map("one"))

    asyncio.run(main())


def test_a_program_that_does_not_run_is_told() -> None:
    async def main() -> None:
        async with webhooks() as (api, client, _):
            api.context.webhook_sender = HttpSender(api.context.simulated.reason)
            await configure(client, b"", 443)
            api.context.services.forwards.set(parse_forward("service/default/hook=localhost:1"))
            with pytest.raises(ApiError, match="dial tcp localhost:1: connect: connection refused"):
                await create(client, MAPS, config_map("one"))

    asyncio.run(main())


def test_names_that_lead_to_simulated_pods_are_not_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(_: ThreadedResolver, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in addresses
        ]

    monkeypatch.setattr(ThreadedResolver, "resolve", found)
    addresses = ["10.128.4.7", "127.0.0.1"]

    async def main() -> None:
        resolver = Resolver(lambda host: "no route to host" if host.startswith("10.128.") else "")
        assert [one["host"] for one in await resolver.resolve("hook.example.com", 443)] == ["127.0.0.1"]
        addresses.pop()
        with pytest.raises(OSError, match="no route to host"):
            await resolver.resolve("hook.example.com", 443)
        assert [one["host"] for one in await resolver.resolve("localhost", 443)] == ["127.0.0.1"]
        await resolver.close()

    asyncio.run(main())
