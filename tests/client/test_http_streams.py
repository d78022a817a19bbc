"""Commands in containers and logs over HTTP, against servers that know one version of the channels only, or refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from bayplan.api.errors import ApiError
from bayplan.client.credentials import Credentials
from bayplan.client.errors import TransportError
from bayplan.client.http import HttpTransport
from bayplan.client.http_streams import HttpStreams, streams_of

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PATH = "/api/v1/namespaces/default/pods/web/exec"


def served(handler: Handler, story: Callable[[HttpStreams], Awaitable[None]]) -> None:
    async def whole() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        streams = HttpStreams(HttpTransport(Credentials(f"http://127.0.0.1:{runner.addresses[0][1]}")))
        try:
            await asyncio.wait_for(story(streams), 20)
        finally:
            await streams.close()
            await runner.cleanup()

    asyncio.run(whole())


def shell(*protocols: str, outcome: bytes) -> Handler:
    """Answers what it is sent, with what it was asked for first, then ends."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=protocols)
        await socket.prepare(request)
        said = f"{socket.ws_protocol} {request.query_string}\n".encode()
        await socket.send_bytes(b"\x01" + said)
        await socket.send_str("1text is of no channel")
        await socket.send_bytes(b"\x01")  # an empty message shows that the channel is there
        for _ in range(2):
            await socket.send_bytes(b"\x02" + await socket.receive_bytes())
        await socket.send_bytes(b"\x03" + outcome)
        await socket.close()
        return socket

    return handle


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_a_command_is_sent_input_and_sizes_and_prints(protocol: str) -> None:
    async def story(streams: HttpStreams) -> None:
        session = await streams.exec(PATH, ["sh", "-c", "a b"], "main")
        await session.send(b"hello")
        await session.resize(80, 24)
        printed = [piece async for piece in session]
        query = "stdin=true&stdout=true&tty=true&command=sh&command=-c&command=a b&container=main"
        assert printed == [f"{protocol} {query}\n".encode(), b"\x00hello", b'\x04{"Width":80,"Height":24}']
        assert session.outcome == ""

    served(shell(protocol, outcome=b'{"status":"Success"}'), story)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (b'{"status":"Failure","message":"exit code 3"}', "exit code 3"),
        (b"it broke", "it broke"),
    ],
)
def test_how_a_command_ended_is_known(outcome: bytes, words: str) -> None:
    async def story(streams: HttpStreams) -> None:
        session = await streams.exec(PATH, ["sh"])
        await session.send(b"")
        await session.send(b"")
        async for _ in session:
            pass
        assert session.outcome == words

    served(shell("v5.channel.k8s.io", outcome=outcome), story)


def test_a_connection_that_breaks_is_no_success() -> None:
    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        await socket.close()
        return socket

    async def story(streams: HttpStreams) -> None:
        session = await streams.exec(PATH, ["sh"])
        assert [piece async for piece in session] == []
        assert "broke" in session.outcome

    served(handle, story)


def test_why_a_command_is_refused_is_said() -> None:
    async def handle(request: web.Request) -> web.Response:
        body = {"kind": "Status", "status": "Failure", "message": "pods is forbidden", "code": 403}
        return web.json_response(body, status=403)

    async def story(streams: HttpStreams) -> None:
        with pytest.raises(ApiError, match="pods is forbidden") as raised:
            await streams.exec(PATH, ["sh"])
        assert raised.value.code == 403
        with pytest.raises(ApiError, match="pods is forbidden"):
            async for _ in streams.text("/log", {}):
                pass

    served(handle, story)


def test_an_answer_that_has_another_code_without_a_socket_is_no_reason() -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=503 if "Upgrade" in request.headers else 400, text="Upgrade request required")

    async def story(streams: HttpStreams) -> None:
        with pytest.raises(ApiError, match="HTTP status 503"):
            await streams.exec(PATH, ["sh"])

    served(handle, story)


def test_a_server_that_is_not_there_is_a_transport_error() -> None:
    async def whole() -> None:
        streams = HttpStreams(HttpTransport(Credentials("http://127.0.0.1:1")))
        with pytest.raises(TransportError, match=r"connect .*127\.0\.0\.1:1"):
            await streams.exec(PATH, ["sh"])
        await streams.close()

    asyncio.run(whole())


def test_other_transports_have_no_streams() -> None:
    assert streams_of(object()) is None
