"""`exec` and `attach`: the streams of a command, as kubectl and other clients ask for them.

    SPDY        a stream for each of error, stdin, stdout, stderr and resize, named by its header `streamType`
    WebSocket   a channel for each: 0 stdin, 1 stdout, 2 stderr, 3 error, 4 resize

How it ended goes over `error`: since the fourth version of the protocol as a Status, before as a text.
Source: Kubernetes' `kubelet/pkg/cri/streaming/remotecommand`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web

from bayplan.streaming.channels import Channels
from bayplan.streaming.interface import CommandStreams, Reader, Run, StreamError, TerminalSize, Wanted
from bayplan.streaming.serving import while_connected
from bayplan.streaming.spdy import SpdyConnection, SpdyStream
from bayplan.support.clock import Clock
from bayplan.support.web.upgrades import Sent, Upgraded, is_websocket_request

_VERSIONS: Final = tuple(f"{version}channel.k8s.io" for version in ("v4.", "v3.", "v2.", ""))
_SOCKET_PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
)
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_OPEN_SECONDS: Final = 30.0
"""For a client to open its streams."""
_LONGEST_SIZE: Final = 4096
"""Characters in which a size must have come to its end; what follows is no terminal's."""


class _Ending(Protocol):
    """The stream over which the end is told."""

    async def write(self, data: bytes) -> None:
        """Send."""

    async def finish(self) -> None:
        """Nothing more follows."""


@dataclass(slots=True)
class _Opened:
    """What a client has opened."""

    error: _Ending
    streams: CommandStreams
    version: int
    """Of the protocol."""


async def serve_command(http: web.BaseRequest, wanted: Wanted, run: Run, clock: Clock) -> web.StreamResponse:
    """Run something with the client's streams, and tell it how that ended."""
    if is_websocket_request(http):
        return await _over_socket(http, wanted, run)
    offered = [one.strip() for one in ",".join(http.headers.getall("X-Stream-Protocol-Version", [])).split(",")]
    version = next((one for one in offered if one in _VERSIONS), "channel.k8s.io" if offered == [""] else None)
    if version is None:
        text = (
            f"unable to upgrade: unable to negotiate protocol: client supports {offered}, server supports {_VERSIONS}"
        )
        return web.Response(status=403, text=text)
    headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": version}
    carrier = Upgraded(http, headers, clock)
    connection = SpdyConnection(carrier)
    await while_connected(connection.run(), _over_spdy(connection, wanted, version, run))
    await carrier.close()
    return Sent()


async def _over_spdy(connection: SpdyConnection, wanted: Wanted, version: str, run: Run) -> None:
    """Raises ConnectionError."""
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            found = await _spdy_streams(connection, wanted, version)
    except TimeoutError:
        return  # the client has opened less than it said
    await _run(_Opened(found["error"], _command_streams(found, wanted), 4 - _VERSIONS.index(version)), run)
    for name in ("stdout", "stderr"):
        if name in found:
            await found[name].finish()
    await connection.go_away()


async def _spdy_streams(connection: SpdyConnection, wanted: Wanted, version: str) -> dict[str, SpdyStream]:
    """The streams that a client opens. Raises ConnectionError if it closes before it has."""
    names = {"error", *(name for name in ("stdin", "stdout", "stderr") if getattr(wanted, name))}
    if wanted.tty and version not in _VERSIONS[2:]:
        names.add("resize")
    found: dict[str, SpdyStream] = {}
    while set(found) != names:
        stream = await connection.accept()
        if stream is None:
            raise ConnectionResetError("the client has gone")
        if stream.headers.get("streamtype") in names:
            found[stream.headers["streamtype"]] = stream
    return found


def _command_streams(found: Mapping[str, Any], wanted: Wanted) -> CommandStreams:
    resize = found.get("resize")
    return CommandStreams(
        found.get("stdin") if wanted.stdin else None,
        found.get("stdout") if wanted.stdout else None,
        found.get("stderr") if wanted.stderr else None,
        _Sizes(resize) if wanted.tty and resize is not None else None,
    )


async def _over_socket(http: web.BaseRequest, wanted: Wanted, run: Run) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=_SOCKET_PROTOCOLS, compress=False)
    await socket.prepare(http)
    channels = Channels(socket, 5)
    found = {"stdin": channels[_STDIN], "stdout": channels[_STDOUT], "stderr": channels[_STDERR]}
    streams = _command_streams({**found, "resize": channels[_RESIZE]}, wanted)
    version = 4 if (socket.ws_protocol or "").startswith(("v4.", "v5.")) else 1
    opened = _Opened(channels[_ERROR], streams, version)
    await while_connected(channels.run(), _over_channels(channels, opened, run))
    await socket.close()
    return socket


async def _over_channels(channels: Channels, opened: _Opened, run: Run) -> None:
    """Raises ConnectionError."""
    await (opened.streams.stdout or opened.streams.stderr or channels[_ERROR]).write(b"")
    await _run(opened, run)


async def _run(opened: _Opened, run: Run) -> None:
    """Run to the end, and tell how it was. Raises ConnectionError."""
    code, problem = 0, ""
    try:
        code = await run(opened.streams)
    except StreamError as error:
        problem = str(error)
    if opened.version >= 4:
        await opened.error.write(msgspec.json.encode(_status(code, problem)))
    elif code or problem:
        text = problem or f"command terminated with non-zero exit code: command terminated with exit code {code}"
        await opened.error.write(text.encode())
    await opened.error.finish()


def _status(code: int, problem: str) -> dict[str, Any]:
    """The end of a command as a Status."""
    if problem:
        return {"metadata": {}, "status": "Failure", "message": problem, "reason": "InternalError", "code": 500}
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


class _Sizes:
    """Sizes of a terminal, each an object of JSON, one after the other."""

    def __init__(self, source: Reader) -> None:
        self._source = source
        self._text = ""

    async def next(self) -> TerminalSize | None:
        """See Sizes."""
        while True:
            text, brace, rest = self._text.partition("}")
            if brace:
                self._text = rest
                with contextlib.suppress(msgspec.DecodeError):
                    size = msgspec.json.decode(f"{text}}}", type=dict[str, int])
                    return TerminalSize(size.get("Width", 0), size.get("Height", 0))
                continue
            piece = await self._source.read()
            if not piece or len(self._text) > _LONGEST_SIZE:
                return None
            self._text += piece.decode(errors="replace")
