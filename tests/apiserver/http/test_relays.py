"""Logs, exec, port forwarding and proxies: requests that a kubelet or a pod answers."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp import web

from bayplan.api.types import meta_v1, rbac_v1
from bayplan.apiserver.http import relay as http_relay
from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.routing import relays
from bayplan.apiserver.tls import client_tls
from tests.apiserver.relaying import POD, kubelet_tls, listening, node_and_pod
from tests.apiserver.serving import ADMIN, AS_RECORDED, TOKENS, Served, client_of, opened


async def kubelet(request: web.Request) -> web.StreamResponse:
    """Answers what a kubelet is asked."""
    assert "bearer" not in request.headers.get("Sec-WebSocket-Protocol", "")
    if request.path.startswith("/exec/") or request.path.startswith("/portForward/"):
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_str(f"{request.path}?{request.rel_url.raw_query_string}")
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket
    if request.query.get("tailLines") == "1000":
        return await broken(request)
    if request.query.get("previous"):
        return web.Response(status=400, text="previous terminated container not found")
    if request.query.get("follow"):
        stream = web.StreamResponse()
        await stream.prepare(request)
        for line in (b"one\n", b"two\n"):
            await stream.write(line)
            await asyncio.sleep(0.01)
        return stream
    assert "Authorization" not in request.headers
    return web.Response(text=f"{request.path}?{request.rel_url.raw_query_string}")


async def broken(request: web.Request) -> web.StreamResponse:
    """Begins an answer and goes away."""
    stream = web.StreamResponse()
    await stream.prepare(request)
    await stream.write(b"begun")
    assert request.transport is not None
    request.transport.abort()
    return stream


async def pod(request: web.Request) -> web.StreamResponse:
    """Answers what the container of a pod is asked."""
    if request.path == "/moved":
        return web.Response(status=302, headers={"Location": "/there/"})
    if request.path == "/links":
        return web.Response(text='<a href="/there">x</a>', content_type="text/html")
    if request.path == "/cookies":
        return web.Response(headers={"Set-Cookie": "c=" + "x" * 100_000})
    if request.path == "/nowhere":
        return web.Response(status=302, headers={"Location": "http://[::1"})
    if request.path == "/broken":
        return await broken(request)
    body = await request.text()
    shown = {name: request.headers.get(name, "") for name in ("X-Forwarded-Uri", "X-Own", "Authorization")}
    return web.json_response({"path": request.path_qs, "method": request.method, "body": body, **shown})


def ask(
    check: Callable[[Served, Callable[[str], Awaitable[tuple[int, Any]]]], Awaitable[None]], *, strict: bool = True
) -> None:
    """Run a check against a server, a kubelet and a pod."""

    async def main() -> None:
        tls = kubelet_tls()
        if strict:
            tls.verify_mode = ssl.CERT_REQUIRED
        async with (
            listening(kubelet, tls) as kubelet_port,
            listening(pod) as pod_port,
            node_and_pod(kubelet_port, pod_port) as server,
        ):

            async def get(path: str) -> tuple[int, Any]:
                url = server.url + path
                async with server.session.get(url, headers=server.headers(), allow_redirects=False) as answer:
                    is_json = answer.content_type == "application/json"
                    return answer.status, await (answer.json() if is_json else answer.text())

            await check(server, get)

    asyncio.run(main())


def test_logs_come_from_the_kubelet_of_the_pods_node() -> None:
    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        path = "/containerLogs/default/p/main"
        assert await get(f"{POD}/log") == (200, f"{path}?")
        assert await get(f"{POD}/log?tailLines=3&timestamps=true&container=main") == (
            200,
            f"{path}?tailLines=3&timestamps=true",
        )
        assert await get(f"{POD}/log?follow=true") == (200, "one\ntwo\n")
        code, status = await get(f"{POD}/log?previous=true")
        assert (code, status["reason"], status["message"]) == (
            400,
            "BadRequest",
            "previous terminated container not found",
        )
        code, status = await get(f"{POD}/log?tailLines=-1&limitBytes=0")
        assert (code, [cause["field"] for cause in status["details"]["causes"]]) == (422, ["tailLines", "limitBytes"])
        code, status = await get(f"{POD}/log?container=x")
        assert (code, status["message"]) == (400, "container x is not valid for pod p")

    ask(check)


@pytest.mark.parametrize("what", ["exec", "attach", "portforward"])
def test_who_may_get_but_not_create_opens_no_connection(what: str) -> None:
    async def main() -> None:
        async with opened(settings=AS_RECORDED) as api:
            client = client_of(api)
            metadata = meta_v1.ObjectMeta(name="looker", namespace="default")
            rule = rbac_v1.PolicyRule(api_groups=("",), resources=(f"pods/{what}",), verbs=("get",))
            await client.create(rbac_v1.Role(metadata=metadata, rules=(rule,)))
            group = "rbac.authorization.k8s.io"
            reference = rbac_v1.RoleRef(api_group=group, kind="Role", name="looker")
            subject = rbac_v1.Subject(api_group=group, kind="User", name="alice")
            metadata = meta_v1.ObjectMeta(name="looker", namespace="default")
            await client.create(rbac_v1.RoleBinding(metadata=metadata, role_ref=reference, subjects=(subject,)))
            answer = await api.handle(Request("GET", f"{POD}/{what}", {"command": "ls"}, User("alice")))
            assert (answer.code, json.loads(answer.body)["message"]) == (403, 'pods "p" is forbidden: ')
            answer = await api.handle(Request("GET", f"{POD}/{what}", {"command": "ls"}, ADMIN))
            assert answer.code == 404

    asyncio.run(main())


def test_exec_becomes_a_connection_between_client_and_kubelet() -> None:
    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        code, status = await get(f"{POD}/exec?command=ls&stdout=true")
        assert (code, status["message"]) == (400, "Upgrade request required")
        url = f"{server.url}{POD}/exec?command=sh&command=-c&command=a+b&stdin=true&stdout=true&tty=false"
        async with server.session.ws_connect(
            url, headers=server.headers(), protocols=("v4.channel.k8s.io",), max_msg_size=0
        ) as socket:
            assert socket.protocol == "v4.channel.k8s.io"
            asked = "/exec/default/p/main?command=sh&command=-c&command=a+b&input=1&output=1"
            assert await socket.receive_str() == asked
            for size in (1, 70_000, 3_000_000):
                await socket.send_bytes(bytes(size))
                assert await socket.receive_bytes() == bytes(size)
        async with server.session.ws_connect(
            f"{server.url}{POD}/portforward?ports=80&ports=81", headers=server.headers()
        ) as socket:
            assert await socket.receive_str() == "/portForward/default/p?port=80%2C81"

    ask(check)


def test_a_browser_sends_its_token_among_the_subprotocols_of_a_websocket() -> None:
    prefix = "base64url.bearer.authorization.k8s.io."

    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        url = f"{server.url}{POD}/exec?command=ls&stdout=true"
        good, wrong = (
            prefix + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
            for token in (TOKENS["admin"][0], "no such token")
        )
        own = "v4.channel.k8s.io"
        async with server.session.ws_connect(url, protocols=(good, own)) as socket:
            assert socket.protocol == own
            assert (await socket.receive_str()).startswith("/exec/default/p/main")
        for protocols in ((good,), (wrong, own), (good, good, own), (prefix + "=", own), (prefix, own)):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                await server.session.ws_connect(url, protocols=protocols)
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await server.session.ws_connect(url, protocols=(own,))
        headers = {"Sec-WebSocket-Protocol": f"{good}, {own}"}
        async with server.session.get(f"{server.url}{POD}", headers=headers) as answer:
            assert answer.status == 403  # this is no WebSocket

    ask(check)


async def spdy(server: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that has asked for an exec by SPDY."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]), ssl=client_tls())
    writer.write(
        f"POST {POD}/exec?command=sh HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        f"Authorization: {server.headers()['Authorization']}\r\nContent-Length: 0\r\n\r\n".encode()
    )
    return reader, writer


MANY = 3_000_000
"""Bytes that are more than the buffers on their way."""


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("sends", ["kubelet", "client", "both"])
def test_all_bytes_pass_however_slow_the_other_end_is(run: Callable[[Any], None], sends: str) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
        if sends != "client":
            writer.write(bytes(MANY))
        for _ in range(0 if sends == "kubelet" else MANY // 1_000_000):
            await reader.readexactly(1_000_000)
            await asyncio.sleep(0.05)
        writer.write(b"last words")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    async def main() -> None:
        kubelet_side = await asyncio.start_server(speak, "127.0.0.1", 0, ssl=kubelet_tls(), limit=MANY)
        async with kubelet_side, node_and_pod(kubelet_side.sockets[0].getsockname()[1]) as server:
            reader, writer = await spdy(server)
            await reader.readuntil(b"\r\n\r\n")
            if sends != "kubelet":
                writer.write(bytes(MANY))
            await asyncio.sleep(0.1)
            found = bytearray()
            async with asyncio.timeout(20):
                while not found.endswith(b"last words"):
                    found += await reader.read(50_000)
                    writer.write(b"got it")
            assert found.removeprefix(b"\0" * (0 if sends == "client" else MANY)) == b"last words"
            writer.close()

    run(main())


def test_other_protocols_than_websockets_pass_as_well() -> None:
    async def main() -> None:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"\r\nUpgrade: SPDY/3.1\r\n" in head
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nearly")
            while piece := await reader.read(100):
                writer.write(piece.upper())
            writer.close()

        tls = kubelet_tls()
        kubelet_side = await asyncio.start_server(speak, "127.0.0.1", 0, ssl=tls)
        async with kubelet_side, node_and_pod(kubelet_side.sockets[0].getsockname()[1]) as server:
            reader, writer = await spdy(server)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
            assert await reader.readexactly(5) == b"early"
            writer.write(b"frame")
            assert await reader.readexactly(5) == b"FRAME"
            writer.close()

    asyncio.run(main())


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"], ids=["head", "body"])
def test_nothing_goes_on_for_a_client_that_has_gone(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_relay, "_LOOK_SECONDS", 0.01)

    async def main() -> None:
        asked, left = asyncio.Event(), asyncio.Event()

        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            asked.set()
            await reader.read()
            left.set()
            writer.close()

        tls = kubelet_tls()
        kubelet_side = await asyncio.start_server(speak, "127.0.0.1", 0, ssl=tls)
        async with kubelet_side, node_and_pod(kubelet_side.sockets[0].getsockname()[1]) as server:
            url = f"{server.url}{POD}/log?follow=true"
            following = asyncio.create_task(server.session.get(url, headers=server.headers()))
            async with asyncio.timeout(10):
                await asked.wait()
                if head:
                    (await following).close()
                following.cancel()
                await left.wait()

    asyncio.run(main())


def test_a_kubelet_that_does_not_answer_is_named() -> None:
    async def main() -> None:
        async with listening(pod) as free:
            pass
        async with node_and_pod(free) as server:
            url = f"{server.url}{POD}/log"
            async with server.session.get(url, headers=server.headers()) as answer:
                status = await answer.json()
            expected = (
                f'Get "https://127.0.0.1:{free}/containerLogs/default/p/main":'
                f" dial tcp 127.0.0.1:{free}: connect: connection refused"
            )
            assert (status["code"], status["message"]) == (500, expected)
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await server.session.ws_connect(f"{server.url}{POD}/exec?command=ls", headers=server.headers())
            assert refused.value.status == 500

    asyncio.run(main())


def test_pods_are_proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        code, status = await get(f"{POD}/proxy/")
        assert (code, status["message"]) == (400, "address not allowed")
        monkeypatch.setattr(relays, "check_address", lambda address: None)
        assert (await get(f"{POD}/proxy"))[0] == 301
        code, status = await get(f"{POD}:abc/proxy/")
        assert (code, status["message"]) == (503, 'error trying to reach service: invalid port ":abc" after host')
        headers = {**server.headers(), "X-Own": "yes"}
        async with server.session.post(f"{server.url}{POD}/proxy/a/b/?x=1&x=2", headers=headers, data="in") as answer:
            assert await answer.json() == {
                "path": "/a/b/?x=1&x=2",
                "method": "POST",
                "body": "in",
                "X-Forwarded-Uri": f"{POD}/proxy/a/b/",
                "X-Own": "yes",
                "Authorization": "",
            }
        async with server.session.get(
            f"{server.url}{POD}/proxy/moved", headers=headers, allow_redirects=False
        ) as answer:
            assert answer.headers["Location"] == f"{server.url}{POD}/proxy/there/"
        async with server.session.get(f"{server.url}{POD}/proxy/links", headers=headers) as answer:
            assert await answer.text() == f'<a href="{POD}/proxy/there">x</a>'
            assert int(answer.headers["Content-Length"]) == len(await answer.read())
        async with server.session.head(f"{server.url}{POD}/proxy/links", headers=headers) as answer:
            assert answer.headers["Content-Length"] == "22"

    ask(check)


def test_long_headers_of_an_answer_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        monkeypatch.setattr(relays, "check_address", lambda address: None)
        url = f"{server.url}{POD}/proxy/cookies"
        async with server.session.get(url, headers=server.headers(), max_field_size=1 << 20) as answer:
            assert answer.headers["Set-Cookie"] == "c=" + "x" * 100_000

    ask(check)


def test_an_answer_that_breaks_off_stays_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        monkeypatch.setattr(relays, "check_address", lambda address: None)
        with pytest.raises(aiohttp.ClientPayloadError):
            await get(f"{POD}/proxy/broken")
        assert await get(f"{POD}/log?tailLines=1000") == (200, "begun")
        code, status = await get(f"{POD}/proxy/nowhere")
        assert (code, status["reason"]) == (500, "InternalError")

    ask(check)


def test_the_kubelet_is_reached_through_the_proxy_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        code, status = await get("/api/v1/nodes/n/proxy/healthz")
        assert (code, status["message"]) == (400, "address not allowed")
        monkeypatch.setattr(relays, "check_address", lambda address: None)
        assert await get("/api/v1/nodes/n/proxy/healthz?verbose") == (200, "/healthz?verbose")

    ask(check)


PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize("accept", [PROTOBUF, f"{PROTOBUF},application/json", "application/yaml", "application/json"])
def test_what_a_relay_answers_passes_unconverted(accept: str) -> None:
    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        headers = {**server.headers(), "Accept": accept}
        async with server.session.get(f"{server.url}{POD}/log?tailLines=3", headers=headers) as answer:
            assert (answer.status, answer.content_type) == (200, "text/plain")
            assert await answer.text() == "/containerLogs/default/p/main?tailLines=3"
        refused = f"{server.url}{POD}/log?previous=true"
        async with server.session.get(refused, headers=headers) as answer:
            assert (answer.status, answer.content_type) == (400, accept.partition(",")[0])
            assert b"previous terminated container not found" in await answer.read()

    ask(check)


def test_the_form_of_a_proxied_answer_is_not_negotiated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "check_address", lambda _: None)

    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        for method in ("GET", "HEAD", "OPTIONS", "POST"):
            headers = {**server.headers(), "Accept": "image/png"}
            async with server.session.request(method, f"{server.url}{POD}/proxy/page", headers=headers) as answer:
                assert answer.status == 200, await answer.read()
                assert method == "HEAD" or (await answer.json())["method"] == method

    ask(check)


@pytest.mark.parametrize("protocol", ["binary.k8s.io", "base64.binary.k8s.io", ""])
@pytest.mark.parametrize("accept", [PROTOBUF, "application/json"])
def test_logs_over_a_websocket(protocol: str, accept: str) -> None:
    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        protocols = ("unknown.k8s.io", protocol) if protocol else ()
        headers = {**server.headers(), "Accept": accept}
        async with server.session.ws_connect(
            f"{server.url}{POD}/log?follow=true", headers=headers, protocols=protocols
        ) as socket:
            assert (socket.protocol or "") == protocol
            messages = [message async for message in socket]
        is_text = protocol.startswith("base64")
        assert {message.type for message in messages} == {
            aiohttp.WSMsgType.TEXT if is_text else aiohttp.WSMsgType.BINARY
        }
        pieces = [base64.b64decode(message.data) if is_text else message.data for message in messages]
        assert (pieces[0], b"".join(pieces)) == (b"", b"one\ntwo\n")
        for path, code in (("log?previous=true", 400), ("log?tailLines=-1", 422)):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await server.session.ws_connect(f"{server.url}{POD}/{path}", headers=headers, protocols=protocols)
            assert refused.value.status == code
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await server.session.ws_connect(f"{server.url}{POD}/log", headers=headers, protocols=("v4.channel.k8s.io",))
        assert refused.value.status == 403
        assert await get(f"{POD}/log?tailLines=1") == (200, "/containerLogs/default/p/main?tailLines=1")

    ask(check)


def test_a_client_that_closes_its_websocket_ends_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        try:
            while True:
                await stream.write(b"line\n")
                await asyncio.sleep(0.001)
        finally:
            ended.set()

    monkeypatch.setattr(sys.modules[__name__], "kubelet", endless)

    async def check(server: Served, get: Callable[[str], Awaitable[tuple[int, Any]]]) -> None:
        async with server.session.ws_connect(f"{server.url}{POD}/log?follow=true", headers=server.headers()) as socket:
            while b"line" not in await socket.receive_bytes():
                pass
        await asyncio.wait_for(ended.wait(), 10)

    ask(check)
