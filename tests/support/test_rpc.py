"""gRPC at sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from bayplan.csi.messages import Empty, RegistrationStatus
from bayplan.support.grpc.calls import BlockingConnection, Connection, SocketServer
from bayplan.support.grpc.errors import RpcError
from tests.support.late_socket import late_socket

METHOD = "/test.Service/Method"
T = TypeVar("T")


async def _echo(request: T) -> T:
    return request


class Unreadable:
    """An answer that is not what it should be."""

    @classmethod
    def FromString(cls, data: bytes) -> None:
        raise ValueError("it ends early")


@pytest.mark.parametrize("name", ["a", "a" * 200])
def test_sockets_may_have_paths_that_are_longer_than_the_kernel_takes(tmp_path: Path, name: str) -> None:
    socket = tmp_path / name / "s.sock"

    async def steps() -> None:
        server = SocketServer(socket, {METHOD: (RegistrationStatus, _echo)})
        await server.start()
        connection = Connection(socket)
        try:
            sent = RegistrationStatus(True, "text")
            assert await connection.call(METHOD, sent, RegistrationStatus, 5.0) == sent
        finally:
            await connection.close()
            await server.stop()
        assert not socket.exists()

    asyncio.run(steps())


def test_nobody_listens_at_a_long_path_that_is_not_there(tmp_path: Path) -> None:
    async def steps() -> None:
        connection = Connection(tmp_path / ("a" * 200) / "s.sock")
        try:
            with pytest.raises(RpcError):
                await connection.call(METHOD, Empty(), Empty, 2.0)
        finally:
            await connection.close()

    asyncio.run(steps())


def test_what_cannot_be_written_or_read_is_an_error_and_never_an_empty_message(tmp_path: Path) -> None:
    socket = tmp_path / "s.sock"
    received: list[RegistrationStatus] = []

    async def note(request: RegistrationStatus) -> RegistrationStatus:
        received.append(request)
        return RegistrationStatus(True, "\udcff") if request.error == "answer" else request

    async def steps() -> None:
        server = SocketServer(socket, {METHOD: (RegistrationStatus, note)})
        await server.start()
        connection = Connection(socket)
        try:
            for sent, answer, text in (
                (RegistrationStatus(True, "\udcff"), RegistrationStatus, "marshaling: string field contains invalid"),
                (RegistrationStatus(True, "answer"), RegistrationStatus, "marshaling: string field contains invalid"),
                (
                    RegistrationStatus(True, "text"),
                    Unreadable,
                    "failed to unmarshal the received message: it ends early",
                ),
            ):
                with pytest.raises(RpcError, match=f"code = Internal desc = grpc: .*{text}"):
                    await connection.call(METHOD, sent, answer, 5.0)
        finally:
            await connection.close()
            await server.stop()
        assert [each.error for each in received] == ["answer", "text"]

    asyncio.run(steps())


async def _over_connection(socket: Path) -> None:
    connection = Connection(socket)
    try:
        await connection.call(METHOD, Empty(), Empty, 5.0)
    finally:
        await connection.close()


async def _over_blocking_connection(socket: Path) -> None:
    connection = BlockingConnection(f"unix:{socket}")
    try:
        await asyncio.to_thread(connection.call, METHOD, Empty(), Empty, 5.0)
    finally:
        connection.close()


@pytest.mark.parametrize("call", [_over_connection, _over_blocking_connection])
def test_a_server_that_is_slow_to_take_a_connection_is_waited_for(
    tmp_path: Path, call: Callable[[Path], Awaitable[None]]
) -> None:
    async def steps() -> None:
        server = SocketServer(tmp_path / "server.sock", {METHOD: (Empty, _echo)})
        await server.start()
        try:
            async with late_socket(tmp_path / "late.sock", tmp_path / "server.sock"):
                await call(tmp_path / "late.sock")
        finally:
            await server.stop()

    asyncio.run(steps())
