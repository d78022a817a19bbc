"""The client against a server made with another implementation of gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from bayplan.apiserver.certificates import make_authority, sign
from bayplan.csi.messages import RegistrationStatus
from bayplan.support.clock import SystemClock
from bayplan.support.grpc.errors import RpcError, UnsentError
from bayplan.support.grpc_client.channel import GrpcChannel
from bayplan.support.web.tls_files import TlsFiles
from tests.support.grpc_client.scripted import PATIENCE

LARGE = 9_000_000
"""Bytes; more than any window."""


class _Service(grpc.GenericRpcHandler):
    """Methods by the end of their name."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.metadata: dict[str, Any] = {}

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        codec: Any = {
            "request_deserializer": RegistrationStatus.FromString,
            "response_serializer": RegistrationStatus.SerializeToString,
        }
        self.metadata = dict(details.invocation_metadata)
        name = details.method.rpartition("/")[2]
        if name in ("Echo", "Fail", "Wait"):
            return grpc.unary_unary_rpc_method_handler(getattr(self, name.lower()), **codec)
        if name == "Count":
            return grpc.unary_stream_rpc_method_handler(self.count, **codec)
        return grpc.stream_stream_rpc_method_handler(self.chat, **codec) if name == "Chat" else None

    async def echo(self, request: RegistrationStatus, _: Any) -> RegistrationStatus:
        return request

    async def fail(self, request: RegistrationStatus, context: Any) -> None:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, request.error)

    async def wait(self, _: RegistrationStatus, context: Any) -> RegistrationStatus:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError("nobody sets the event")

    async def count(self, request: RegistrationStatus, _: Any) -> AsyncIterator[RegistrationStatus]:
        for number in range(int(request.error)):
            yield RegistrationStatus(True, f"{number} " + "x" * 1_000_000)

    async def chat(self, requests: AsyncIterator[RegistrationStatus], _: Any) -> AsyncIterator[RegistrationStatus]:
        async for request in requests:
            if request.error == "end":
                return
            yield request


@contextlib.asynccontextmanager
async def _serving(
    service: _Service, credentials: grpc.ServerCredentials | None = None, address: str = "127.0.0.1:0"
) -> AsyncIterator[str]:
    server = aio.server(options=(("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)))
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def _with_channel(steps: Callable[[GrpcChannel, _Service], Awaitable[None]]) -> None:
    async def run() -> None:
        service = _Service()
        async with _serving(service) as target:
            channel = GrpcChannel(target, clock=SystemClock())
            try:
                await steps(channel, service)
            finally:
                await channel.close()

    asyncio.run(run())


async def _call(channel: GrpcChannel, text: str, method: str = "Echo", seconds: float = PATIENCE) -> str:
    sent = RegistrationStatus(True, text)
    answer: RegistrationStatus = await channel.call(
        f"/test/{method}", sent, RegistrationStatus, seconds=seconds, metadata=(("token", "a"),)
    )
    return answer.error


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 70_000, LARGE])
def test_messages_of_any_size_go_both_ways(size: int) -> None:
    async def steps(channel: GrpcChannel, service: _Service) -> None:
        assert await _call(channel, "x" * size) == "x" * size
        assert service.metadata["token"] == "a"

    _with_channel(steps)


def test_many_calls_at_once_each_get_their_own_answer() -> None:
    async def steps(channel: GrpcChannel, _: _Service) -> None:
        texts = [str(number) * (number % 7 * 1000) for number in range(500)]
        assert await asyncio.gather(*(_call(channel, text) for text in texts)) == texts

    _with_channel(steps)


def test_errors_have_code_and_text_of_the_server() -> None:
    async def steps(channel: GrpcChannel, _: _Service) -> None:
        with pytest.raises(RpcError) as caught:
            await _call(channel, 'not "so" 100 % ä', "Fail")
        assert (caught.value.code, caught.value.message) == ("FAILED_PRECONDITION", 'not "so" 100 % ä')
        with pytest.raises(RpcError, match="Unimplemented"):
            await _call(channel, "", "Unknown")

    _with_channel(steps)


def test_a_call_that_takes_too_long_is_ended_at_the_server() -> None:
    async def steps(channel: GrpcChannel, service: _Service) -> None:
        with pytest.raises(RpcError, match="Deadline") as caught:
            await _call(channel, "", "Wait", seconds=0.1)
        assert type(caught.value) is RpcError, "the server has seen it"
        async with asyncio.timeout(PATIENCE):
            await service.cancelled.wait()

    _with_channel(steps)


def test_a_stream_of_responses_is_read_as_fast_as_they_are_taken() -> None:
    async def steps(channel: GrpcChannel, _: _Service) -> None:
        stream = channel.stream("/test/Count", RegistrationStatus(True, "12"), RegistrationStatus, metadata=())
        numbers = []
        while (message := await stream.receive()) is not None:
            numbers.append(int(message.error.partition(" ")[0]))
            assert await _call(channel, "others are answered meanwhile") == "others are answered meanwhile"
        assert numbers == list(range(12))

    _with_channel(steps)


def test_a_stream_in_both_directions_ends_when_either_side_wants() -> None:
    async def steps(channel: GrpcChannel, _: _Service) -> None:
        first, second = (
            channel.duplex("/test/Chat", RegistrationStatus, RegistrationStatus, metadata=()) for _ in range(2)
        )
        for text in ("a", "b" * LARGE, ""):
            await first.send(RegistrationStatus(True, text))
            received = await first.receive()
            assert received is not None
            assert received.error == text
        await first.send(RegistrationStatus(True, "end"))
        assert await first.receive() is None
        with pytest.raises(RpcError):
            await first.send(RegistrationStatus(True, "a"))
        second.cancel()
        second.cancel()
        with pytest.raises(RpcError):
            await second.receive()

    _with_channel(steps)


def test_what_cannot_be_read_is_an_error() -> None:
    class Unreadable:
        @classmethod
        def FromString(cls, data: bytes) -> None:
            raise ValueError("it ends early")

    async def steps(channel: GrpcChannel, _: _Service) -> None:
        with pytest.raises(RpcError, match=r"Internal.*unmarshal.*it ends early"):
            await channel.call("/test/Echo", RegistrationStatus(), Unreadable, seconds=PATIENCE, metadata=())

    _with_channel(steps)


def test_a_closed_channel_ends_what_runs_and_begins_nothing() -> None:
    async def steps(channel: GrpcChannel, _: _Service) -> None:
        waiting = asyncio.create_task(_call(channel, "", "Wait"))
        stream = channel.duplex("/test/Chat", RegistrationStatus, RegistrationStatus, metadata=())
        await stream.send(RegistrationStatus(True, "a"))
        await channel.close()
        with pytest.raises(RpcError, match="closed") as caught:
            await waiting
        assert caught.value.code == "UNAVAILABLE"
        with pytest.raises(RpcError, match="closed"):
            await stream.receive()
        with pytest.raises(UnsentError, match="closed"):
            await _call(channel, "a")

    _with_channel(steps)


def test_nobody_listens_until_somebody_does() -> None:
    async def run() -> None:
        service, clock = _Service(), SystemClock()
        async with _serving(service) as target:
            pass
        channel = GrpcChannel(target, clock=clock)
        try:
            with pytest.raises(UnsentError, match=f"no connection to {target}"):
                await _call(channel, "a")
            async with _serving(service, address=target):
                async with asyncio.timeout(PATIENCE):
                    while True:
                        with contextlib.suppress(UnsentError):
                            assert await _call(channel, "a") == "a"
                            break
                        await clock.sleep(0.02)
                assert await _call(channel, "b") == "b"
            with pytest.raises(RpcError):
                await _call(channel, "c")
        finally:
            await channel.close()

    asyncio.run(run())


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[TlsFiles, grpc.ServerCredentials]:
    """Of a client and a server."""
    authority = make_authority(time.time())
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    server = sign(authority, time.time(), "server", hosts=("127.0.0.1",))
    client = sign(authority, time.time(), "client")
    (tmp_path / "client.pem").write_bytes(client.certificate)
    (tmp_path / "client.key").write_bytes(client.key)
    files = TlsFiles(*(str(tmp_path / name) for name in ("ca.pem", "client.pem", "client.key")))
    credentials = grpc.ssl_server_credentials(
        [(server.key, server.certificate)], root_certificates=authority.certificate, require_client_auth=True
    )
    return files, credentials


def test_tls_with_certificates_of_both_sides(certificates: tuple[TlsFiles, grpc.ServerCredentials]) -> None:
    files, credentials = certificates

    async def run() -> None:
        async with _serving(_Service(), credentials) as target:
            for tls, text in (
                (files, ""),
                (TlsFiles(), "SSL.*certificate verify failed"),
                (TlsFiles(authority=files.authority), "no connection"),
            ):
                channel = GrpcChannel(target, tls, clock=SystemClock())
                try:
                    if text:
                        with pytest.raises(UnsentError, match=text):
                            await _call(channel, "a")
                    else:
                        assert await _call(channel, "x" * LARGE) == "x" * LARGE
                finally:
                    await channel.close()

    asyncio.run(run())


def test_a_tls_server_without_http_2_is_no_server_of_grpc(tmp_path: Path) -> None:
    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def run() -> None:
        authority = make_authority(time.time())
        pair = sign(authority, time.time(), "server", hosts=("127.0.0.1",))
        for name, content in (("ca", authority.certificate), ("server", pair.certificate + pair.key)):
            (tmp_path / f"{name}.pem").write_bytes(content)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
        server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=context)
        target = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        channel = GrpcChannel(target, TlsFiles(authority=str(tmp_path / "ca.pem")), clock=SystemClock())
        with pytest.raises(UnsentError, match="does not offer HTTP/2"):
            await _call(channel, "a")
        await channel.close()
        server.close()

    asyncio.run(run())


def test_files_that_cannot_be_read_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        GrpcChannel("127.0.0.1:1", TlsFiles(authority=str(tmp_path / "missing")), clock=SystemClock())
