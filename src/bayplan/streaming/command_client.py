"""`exec` and `attach` from the other side: ask a kubelet or a runtime over SPDY, and be the client of the command's streams.

    error, stdin, stdout, stderr, resize    a stream for each that is wanted, opened in this order, named by its header `streamType`

Source: Kubernetes' `client-go/tools/remotecommand` (the SPDY executor, versions 1 to 4 of the protocol).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import msgspec

from bayplan.streaming.interface import CommandStreams, Reader, Sizes, StreamError, Wanted, Writer
from bayplan.streaming.spdy import Carrier, SpdyConnection, SpdyStream

PROTOCOLS: Final = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
"""What is offered, best first."""
_STATUS: Final = PROTOCOLS[0]
"""From this version on the end of a command is told as a Status."""
_WITHOUT_SIZES: Final = PROTOCOLS[2:]
_LONGEST_OUTCOME: Final = 1 << 20
_LONGEST_CODE: Final = 3


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: tuple[_Cause, ...] = ()


class _Outcome(msgspec.Struct):
    """What of a Status says how a command ended."""

    status: str = ""
    reason: str = ""
    message: str = ""
    details: _Details | None = None


async def run_over_spdy(carrier: Carrier, wanted: Wanted, protocol: str, streams: CommandStreams) -> int:
    """The exit code of a command at the other end of a connection, whose streams are carried until they end. protocol: the one agreed upon.

    Raises StreamError if it was not run or its end is not known, ConnectionError if the client has gone.
    """
    connection = SpdyConnection(carrier, opens=True)
    reading = asyncio.create_task(connection.run())
    tasks: list[asyncio.Task[Any]] = [reading]
    try:
        opened = await _open(connection, wanted, protocol)
        told = asyncio.create_task(_read_all(opened["error"]))
        tasks.append(told)
        if streams.stdin is not None and "stdin" in opened:
            tasks.append(asyncio.create_task(_carry(streams.stdin, opened["stdin"])))
        if streams.sizes is not None and "resize" in opened:
            tasks.append(asyncio.create_task(_carry_sizes(streams.sizes, opened["resize"])))
        pairs = (("stdout", streams.stdout), ("stderr", streams.stderr))
        output = [
            asyncio.create_task(_print(opened[name], writer))
            for name, writer in pairs
            if writer is not None and name in opened
        ]
        tasks += output
        await asyncio.gather(*output)
        outcome = await told
        if not outcome and protocol == _STATUS and not opened["error"].is_whole:
            raise StreamError(f"the connection broke before the command ended{_why(reading)}")
        return exit_code(outcome, protocol)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def exit_code(outcome: bytes, protocol: str) -> int:
    """What the error stream says. Raises StreamError, with the words of Kubernetes, for anything but a code."""
    if not outcome:
        return 0
    if protocol != _STATUS:
        raise StreamError(f"error executing remote command: {outcome.decode(errors='replace')}")
    try:
        status = msgspec.json.decode(outcome, type=_Outcome)
    except msgspec.DecodeError as error:
        text = outcome.decode(errors="replace")
        raise StreamError(f'error stream protocol error: {error} in "{text}"') from None
    if status.status == "Success":
        return 0
    if status.status != "Failure":
        raise StreamError("error stream protocol error: unknown error")
    if status.reason != "NonZeroExitCode":
        raise StreamError(status.message)
    if status.details is None:
        raise StreamError("error stream protocol error: details must be set")
    code = next((cause.message for cause in status.details.causes if cause.reason == "ExitCode"), None)
    if code is None:
        raise StreamError("error stream protocol error: no ExitCode cause given")
    if not (code.isascii() and code.isdecimal() and len(code) <= _LONGEST_CODE and int(code) < 1 << 8):
        raise StreamError(f'error stream protocol error: invalid exit code value "{code}"')
    return int(code)


async def _open(connection: SpdyConnection, wanted: Wanted, protocol: str) -> dict[str, SpdyStream]:
    """Raises StreamError if the other end closes at once."""
    names = ["error", *(name for name in ("stdin", "stdout", "stderr") if getattr(wanted, name))]
    if wanted.tty and protocol not in _WITHOUT_SIZES:
        names.append("resize")
    try:
        return {name: await connection.open({"streamType": name}) for name in names}
    except ConnectionError as error:
        raise StreamError(f"error creating streams: {error}") from error


async def _read_all(stream: SpdyStream) -> bytes:
    """Raises StreamError for what nobody says in so many words."""
    found = bytearray()
    while piece := await stream.read():
        found += piece
        if len(found) > _LONGEST_OUTCOME:
            raise StreamError("error stream protocol error: the end of the command is told in too many words")
    return bytes(found)


async def _carry(source: Reader, stream: SpdyStream) -> None:
    """Input, until it ends or the command takes no more."""
    with contextlib.suppress(ConnectionError):
        while piece := await source.read():
            await stream.write(piece)
        await stream.finish()


async def _carry_sizes(sizes: Sizes, stream: SpdyStream) -> None:
    with contextlib.suppress(ConnectionError):
        while (size := await sizes.next()) is not None:
            await stream.write(msgspec.json.encode({"Width": size.width, "Height": size.height}) + b"\n")


async def _print(stream: SpdyStream, writer: Writer) -> None:
    """Output, until it ends. Raises ConnectionError if the client has gone."""
    while piece := await stream.read():
        await writer.write(piece)


def _why(reading: asyncio.Task[None]) -> str:
    """What ended a connection, if that is known."""
    problem = reading.exception() if reading.done() and not reading.cancelled() else None
    return f": {problem}" if problem is not None else ""
