"""Streams of commands, over SPDY and WebSockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest
from aiohttp import WSMsgType, web

from bayplan.streaming.commands import serve_command
from bayplan.streaming.interface import CommandStreams, Run, StreamError, TerminalSize, Wanted
from bayplan.support.clock import SystemClock
from tests.streaming.peers import EndlessCommand, SpdyClient, in_loop, served

ALL = Wanted(stdin=True, stdout=True, stderr=True)
V4 = "X-Stream-Protocol-Version: v4.channel.k8s.io"
FAILURE = {
    "metadata": {},
    "status": "Failure",
    "message": "command terminated with non-zero exit code: command terminated with exit code 3",
    "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}


@contextlib.asynccontextmanager
async def serving(run: Run, wanted: Wanted = ALL) -> AsyncIterator[int]:
    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        return await serve_command(http, wanted, run, SystemClock())

    async with served(answer) as port:
        yield port


async def shout(streams: CommandStreams) -> int:
    """Says in capitals what it is told, counts it on stderr, and ends with code 3."""
    count = 0
    assert streams.stdin is not None
    assert streams.stdout is not None
    while piece := await streams.stdin.read():
        count += len(piece)
        await streams.stdout.write(piece.upper())
    if streams.stderr is not None:
        await streams.stderr.write(str(count).encode())
    return 3


async def refuse(streams: CommandStreams) -> int:
    raise StreamError("there is no such program")


def open_all(client: SpdyClient) -> dict[str, int]:
    return {name: client.open(streamType=name) for name in ("error", "stdin", "stdout", "stderr")}


class TestSpdy:
    @in_loop
    async def test_a_command_reads_writes_and_ends(self) -> None:
        async with serving(shout) as port:
            client = await SpdyClient.connect(port, V4)
            assert "101 Switching Protocols" in client.head
            assert "X-Stream-Protocol-Version: v4.channel.k8s.io" in client.head
            streams = open_all(client)
            data = b"abc" * 100_000
            client.send(streams["stdin"], data)
            client.send(streams["stdin"], b"", is_last=True)
            await client.read_until(
                lambda: {streams[name] for name in ("error", "stdout", "stderr")} <= client.finished
            )
            assert client.received[streams["stdout"]] == data.upper()
            assert client.received[streams["stderr"]] == b"300000"
            assert msgspec.json.decode(client.received[streams["error"]]) == FAILURE
            await client.close()

    @pytest.mark.parametrize(
        ("version", "text"),
        [
            ("v3.channel.k8s.io", "command terminated with non-zero exit code: command terminated with exit code 3"),
            ("", "command terminated with non-zero exit code: command terminated with exit code 3"),
        ],
    )
    @in_loop
    async def test_older_versions_are_told_in_words(self, version: str, text: str) -> None:
        async with serving(shout) as port:
            client = await SpdyClient.connect(port, *([f"X-Stream-Protocol-Version: {version}"] if version else []))
            streams = open_all(client)
            client.send(streams["stdin"], b"", is_last=True)
            await client.read_until(lambda: streams["error"] in client.finished)
            assert client.received[streams["error"]].decode() == text
            await client.close()

    @in_loop
    async def test_the_first_version_that_both_know_is_spoken(self) -> None:
        async with serving(shout) as port:
            client = await SpdyClient.connect(port, "X-Stream-Protocol-Version: v9.x, v2.channel.k8s.io", V4)
            assert "X-Stream-Protocol-Version: v2.channel.k8s.io" in client.head
            await client.close()
            client = await SpdyClient.connect(port, "X-Stream-Protocol-Version: v9.x")
            assert client.head.startswith("HTTP/1.1 403")
            await client.close()

    @in_loop
    async def test_why_a_command_cannot_be_run_is_a_status(self) -> None:
        async with serving(refuse) as port:
            client = await SpdyClient.connect(port, V4)
            streams = open_all(client)
            await client.read_until(lambda: streams["error"] in client.finished)
            status = msgspec.json.decode(client.received[streams["error"]])
            assert (status["status"], status["message"]) == ("Failure", "there is no such program")
            await client.close()

    @in_loop
    async def test_a_terminal_has_sizes(self) -> None:
        sizes: list[TerminalSize | None] = []

        async def watch(streams: CommandStreams) -> int:
            assert streams.sizes is not None
            assert streams.stderr is None
            sizes.extend([await streams.sizes.next() for _ in range(3)])
            return 0

        async with serving(watch, Wanted(stdout=True, tty=True)) as port:
            client = await SpdyClient.connect(port, V4)
            streams = {name: client.open(streamType=name) for name in ("error", "stdout", "resize")}
            client.send(streams["resize"], b'{"Width":80,"Hei')
            client.send(streams["resize"], b'ght":25}\nnonsense}{"Width":100,"Height":30}', is_last=True)
            await client.read_until(lambda: streams["error"] in client.finished)
            assert sizes == [TerminalSize(80, 25), TerminalSize(100, 30), None]
            await client.close()

    @in_loop
    async def test_sizes_without_an_end_are_not_kept(self) -> None:
        sizes: list[TerminalSize | None] = []

        async def watch(streams: CommandStreams) -> int:
            assert streams.sizes is not None
            sizes.append(await streams.sizes.next())
            return 0

        async with serving(watch, Wanted(stdout=True, tty=True)) as port:
            client = await SpdyClient.connect(port, V4)
            streams = {name: client.open(streamType=name) for name in ("error", "stdout", "resize")}
            for _ in range(3):
                client.send(streams["resize"], b"x" * 5000)
            await client.read_until(lambda: streams["error"] in client.finished)
            assert sizes == [None]
            await client.close()

    @in_loop
    async def test_a_command_ends_when_the_client_goes(self) -> None:
        async with serving_forever() as (port, started, ended):
            client = await SpdyClient.connect(port, V4)
            open_all(client)
            await asyncio.wait_for(started.wait(), 5)
            assert not ended.is_set()
            await client.close()
            await asyncio.wait_for(ended.wait(), 5)

    @in_loop
    async def test_what_is_no_spdy_ends_the_connection(self) -> None:
        async with serving_forever() as (port, started, ended):
            client = await SpdyClient.connect(port, V4)
            open_all(client)
            await asyncio.wait_for(started.wait(), 5)
            assert not ended.is_set()
            client.send_raw(b"\x80\x63" + bytes(6))
            await asyncio.wait_for(ended.wait(), 5)
            await client.closed()
            await client.close()

    @in_loop
    async def test_pings_are_answered(self) -> None:
        async with serving_forever() as (port, _, _):
            client = await SpdyClient.connect(port, V4)
            client.send_raw(client.frames.ping(11))
            await client.read_until(lambda: bool(client.controls))
            assert client.controls[0].number == 11
            await client.close()


@contextlib.asynccontextmanager
async def serving_forever() -> AsyncIterator[tuple[int, asyncio.Event, asyncio.Event]]:
    """A port, and whether the command that goes on for ever has started and ended."""
    command = EndlessCommand()
    async with serving(command.run) as port:
        yield port, command.started, command.ended


class TestWebSockets:
    @pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
    @in_loop
    async def test_channels_carry_the_streams(self, protocol: str) -> None:
        async def greet(streams: CommandStreams) -> int:
            assert streams.stdin is not None
            assert streams.stdout is not None
            await streams.stdout.write(b"hello " + await streams.stdin.read())
            return 0

        async with (
            serving(greet) as port,
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://127.0.0.1:{port}/", protocols=(protocol,)) as socket,
        ):
            await socket.send_bytes(b"\0you")
            messages = [each.data async for each in socket]
        assert messages[:2] == [b"\1", b"\1hello you"]
        assert messages[2][:1] == b"\3"
        assert msgspec.json.decode(messages[2][1:]) == {"metadata": {}, "status": "Success"}

    @in_loop
    async def test_the_fifth_version_can_end_a_channel(self) -> None:
        async with (
            serving(shout) as port,
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://127.0.0.1:{port}/", protocols=("v5.channel.k8s.io",)) as socket,
        ):
            await socket.send_bytes(b"\0abc")
            await socket.send_bytes(b"\xff\0")
            messages = [each.data async for each in socket]
        assert messages[:3] == [b"\1", b"\1ABC", b"\x023"]
        assert msgspec.json.decode(messages[3][1:]) == FAILURE

    @in_loop
    async def test_text_is_in_base64(self) -> None:
        async def greet(streams: CommandStreams) -> int:
            assert streams.stdin is not None
            assert streams.stdout is not None
            await streams.stdout.write(await streams.stdin.read())
            return 4

        async with serving(greet) as port, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{port}/"
            async with session.ws_connect(url, protocols=("base64.channel.k8s.io",)) as socket:
                await socket.send_str("0%%%")
                await socket.send_str("x")
                await socket.send_str("0" + base64.b64encode(b"\xff\0").decode())
                messages = [each async for each in socket]
        assert [each.type for each in messages] == [WSMsgType.TEXT] * 3
        assert messages[1].data == "1" + base64.b64encode(b"\xff\0").decode()
        text = base64.b64decode(messages[2].data[1:]).decode()
        assert text == "command terminated with non-zero exit code: command terminated with exit code 4"

    @in_loop
    async def test_a_command_ends_when_the_client_goes(self) -> None:
        async with serving_forever() as (port, started, ended), aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{port}/"
            async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)):
                await asyncio.wait_for(started.wait(), 5)
                assert not ended.is_set()
            await asyncio.wait_for(ended.wait(), 5)
