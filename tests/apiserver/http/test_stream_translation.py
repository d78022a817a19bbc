"""WebSockets of clients that a kubelet gets as SPDY, with a kubelet that takes nothing else for the newest protocols, as containerd's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest
from aiohttp import WSMsgType, web

from bayplan.api.types import core_v1
from bayplan.streaming.commands import serve_command
from bayplan.streaming.interface import CommandStreams, Run, StreamError, Wanted
from bayplan.streaming.port_forwards import serve_port_forward
from bayplan.streaming.spdy_frames import DataFrame, FrameReader, FrameWriter
from bayplan.support.clock import SystemClock
from bayplan.support.web.upgrades import Sent, Upgraded, is_websocket_request
from tests.apiserver.relaying import POD, Handler, kubelet_tls, listening, node_and_pod
from tests.apiserver.serving import Served, client_of
from tests.streaming.peers import Echo, EndlessCommand, in_loop

V5 = "v5.channel.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"


def kubelet(run: Run) -> Handler:
    """Runs a command, with the streams that the query names."""

    async def answer(http: web.Request) -> web.StreamResponse:
        assert "Authorization" not in http.headers
        if is_websocket_request(http):
            return web.Response(status=403, text="unable to upgrade: no known protocol")
        query = http.rel_url.query
        if query.getall("command", []) == ["missing"]:
            return web.Response(status=404, text="container not found\n")
        wanted = Wanted("input" in query, "output" in query, "error" in query and "tty" not in query, "tty" in query)
        return await serve_command(http, wanted, run, SystemClock())

    return answer


async def echo(port: int) -> Echo:
    return Echo()


async def forwarder(http: web.Request) -> web.StreamResponse:
    """Answers at every port what it is told."""
    if is_websocket_request(http) or http.rel_url.path != "/portForward/default/p":
        return web.Response(status=403, text="refused")
    return await serve_port_forward(http, (), echo, "p", SystemClock())


@contextlib.asynccontextmanager
async def cluster(handler: Handler) -> AsyncIterator[Served]:
    async with listening(handler, kubelet_tls()) as port, node_and_pod(port) as server, asyncio.timeout(10):
        yield server


@contextlib.asynccontextmanager
async def command(server: Served, query: str, *protocols: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    url = f"{server.url}{POD}/exec?{query}"
    async with server.session.ws_connect(url, headers=server.headers(), protocols=protocols or (V5,)) as socket:
        yield socket


async def all_of(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """Channel -> what came on it, to the end."""
    found: dict[int, bytes] = {}
    async for message in socket:
        assert message.type is WSMsgType.BINARY
        found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


async def shout(streams: CommandStreams) -> int:
    """Says in capitals what it is told until that ends, and how many bytes these were on stderr."""
    assert streams.stdin is not None
    assert streams.stdout is not None
    count = 0
    while piece := await streams.stdin.read():
        count += len(piece)
        await streams.stdout.write(piece.upper())
    if streams.stderr is not None:
        await streams.stderr.write(str(count).encode())
    return 3


@in_loop
async def test_streams_and_the_exit_code_pass_and_input_can_end() -> None:
    async with cluster(kubelet(shout)) as server:
        query = "command=sh&stdin=true&stdout=true&stderr=true"
        async with command(server, query) as socket:
            assert socket.protocol == V5
            for _ in range(5):
                await socket.send_bytes(b"\0" + b"abc" * 100_000)
            await socket.send_bytes(b"\xff\0")
            found = await all_of(socket)
    assert found[1] == b"ABC" * 500_000
    assert found[2] == b"1500000"
    assert msgspec.json.decode(found[3]) == {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: command terminated with exit code 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }


@in_loop
async def test_a_terminal_gets_its_sizes() -> None:
    async def sizes(streams: CommandStreams) -> int:
        assert streams.sizes is not None
        assert streams.stdout is not None
        assert streams.stderr is None
        for _ in range(2):
            await streams.stdout.write(str(await streams.sizes.next()).encode())
        return 0

    async with cluster(kubelet(sizes)) as server, command(server, "command=sh&stdout=1&stderr=1&tty=1") as socket:
        await socket.send_bytes(b'\4{"Width":80,"Height":25}{"Width":100,"Height":30}')
        found = await all_of(socket)
    assert found[1] == b"TerminalSize(width=80, height=25)TerminalSize(width=100, height=30)"
    assert msgspec.json.decode(found[3]) == {"metadata": {}, "status": "Success"}


async def fails(streams: CommandStreams) -> int:
    raise StreamError("no such program")


async def breaks(http: web.Request) -> web.StreamResponse:
    """Agrees, and goes away when the first stream is opened."""
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
    carrier = Upgraded(http, headers, SystemClock())
    await carrier.read()
    assert http.transport is not None
    http.transport.close()
    return Sent()


@pytest.mark.parametrize(
    ("handler", "name", "reason"),
    [
        (kubelet(fails), "sh", "no such program"),
        (kubelet(fails), "missing", "unable to upgrade connection: container not found"),
        (breaks, "sh", "the connection broke before the command ended"),
        (None, "sh", "error sending request: Post "),
    ],
    ids=["not run", "refused", "broken", "nobody"],
)
@in_loop
async def test_the_client_learns_over_its_error_channel_what_goes_wrong(
    handler: Handler | None, name: str, reason: str
) -> None:
    async with cluster(handler or breaks) as server:
        if handler is None:
            async with listening(breaks) as free:
                pass
            port = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": free}}}}
            await client_of(server.api).patch(core_v1.Node, "n", "", port, subresource="status")
        async with command(server, f"command={name}&stdout=true") as socket:
            status = msgspec.json.decode((await all_of(socket))[3])
    assert (status["status"], status["code"]) == ("Failure", 500)
    assert status["message"].startswith(f"Internal error occurred: {reason}")


@in_loop
async def test_a_command_ends_when_the_client_goes() -> None:
    endless = EndlessCommand()
    async with cluster(kubelet(endless.run)) as server:
        async with command(server, "command=sh&stdout=true"):
            await endless.started.wait()
            assert not endless.ended.is_set()
        await endless.ended.wait()


@in_loop
async def test_other_protocols_and_kubelets_that_take_websockets_get_them_as_they_are() -> None:
    async def takes_all(http: web.Request) -> web.StreamResponse:
        assert is_websocket_request(http)
        socket = web.WebSocketResponse(protocols=(V5, "v4.channel.k8s.io", TUNNEL))
        await socket.prepare(http)
        await socket.send_str(http.path)
        await socket.close()
        return socket

    async with cluster(takes_all) as server:
        async with command(server, "command=sh&stdout=true", "v4.channel.k8s.io") as socket:
            assert await socket.receive_str() == "/exec/default/p/main"
        status = {"status": {"declaredFeatures": ["ExtendWebSocketsToKubelet"]}}
        await client_of(server.api).patch(core_v1.Node, "n", "", status, subresource="status")
        async with command(server, "command=sh&stdout=true") as socket:
            assert await socket.receive_str() == "/exec/default/p/main"
        url = f"{server.url}{POD}/portforward"
        async with server.session.ws_connect(url, headers=server.headers(), protocols=(TUNNEL,)) as socket:
            assert await socket.receive_str() == "/portForward/default/p"
        async with server.session.get(f"{server.url}/metrics", headers=server.headers()) as answer:
            page = await answer.text()
    name = "apiserver_websocket_streaming_requests_total"
    for labels in (
        'proxy_type="translated_at_apiserver",subresource="exec"',
        'proxy_type="proxied_to_kubelet",subresource="exec"',
        'proxy_type="proxied_to_kubelet",subresource="portforward"',
    ):
        assert f"{name}{{{labels}}} 1\n" in page


@in_loop
async def test_spdy_in_messages_is_unpacked_for_port_forwards() -> None:
    async with cluster(forwarder) as server:
        url = f"{server.url}{POD}/portforward"
        async with server.session.ws_connect(url, headers=server.headers(), protocols=(TUNNEL,)) as socket:
            assert socket.protocol == TUNNEL
            frames, reader = FrameWriter(), FrameReader()
            for number, kind in ((1, "error"), (3, "data")):
                await socket.send_bytes(frames.open(number, {"streamType": kind, "port": "80", "requestID": "0"}))
            await socket.send_bytes(frames.data(3, b"hello"))
            found: list[DataFrame] = []
            while not found:
                read = reader.feed(await socket.receive_bytes())
                found += [each for each in read if isinstance(each, DataFrame)]
    assert found == [DataFrame(3, b"hello")]


@in_loop
async def test_a_port_forward_that_is_refused_is_an_answer() -> None:
    async def refuse(http: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="pod not found")

    async with cluster(refuse) as server:
        headers = {**server.headers(), "Connection": "Upgrade", "Upgrade": "websocket"}
        headers |= {"Sec-WebSocket-Protocol": TUNNEL, "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "eA=="}
        async with server.session.get(f"{server.url}{POD}/portforward", headers=headers) as answer:
            status = await answer.json()
    expected = "Internal error occurred: unable to upgrade connection: pod not found"
    assert (status["code"], status["message"]) == (500, expected)
