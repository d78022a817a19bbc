"""gRPC over TCP, with or without TLS: unary calls and streams in both directions, with messages made at run time."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

from bayplan.support.rpc_errors import RpcError
from bayplan.support.rpc_types import Metadata
from bayplan.support.tls_files import TlsFiles

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # nothing forks to use it
import grpc
from grpc import aio

_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
"""A peer that does not answer for 40 seconds is taken for dead; a new connection is tried every two seconds at most, and may take two seconds to be made: that is
what `min_reconnect_backoff_ms` limits, not the time between two tries."""


class RpcChannel:
    """A connection to `host:port`, made at the first call and again whenever it breaks."""

    def __init__(self, target: str, tls: TlsFiles | None = None) -> None:
        """tls: None for plain text. Raises OSError if one of its files cannot be read."""
        self.target = target
        if tls is None:
            self._channel = aio.insecure_channel(target, options=_OPTIONS)
        else:
            self._channel = aio.secure_channel(target, grpc.ssl_channel_credentials(*tls.read()), options=_OPTIONS)
        self._methods: dict[str, aio.UnaryUnaryMultiCallable[Any, Any]] = {}

    async def call(self, method: str, request: Any, response: type[Any], *, seconds: float, metadata: Metadata) -> Any:
        """One unary call. Raises RpcError, also after so many seconds."""
        invoke = self._methods.get(method)
        if invoke is None:
            invoke = self._methods[method] = self._channel.unary_unary(
                method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=response.FromString,
            )
        try:
            return await invoke(request, timeout=seconds, metadata=tuple(metadata))
        except aio.AioRpcError as error:
            _raise_if_cancelled()
            raise _converted(error) from error
        except asyncio.CancelledError:
            _raise_if_cancelled()
            raise RpcError("UNAVAILABLE", f"the connection to {self.target} was closed") from None  # by `close`
        except aio.UsageError as error:
            raise RpcError("UNAVAILABLE", f"the connection to {self.target} was closed") from error

    def duplex(self, method: str, request: type[Any], response: type[Any], *, metadata: Metadata) -> RpcStream:
        """A stream in both directions."""
        invoke = self._channel.stream_stream(
            method, request_serializer=request.SerializeToString, response_deserializer=response.FromString
        )
        return RpcStream(invoke(metadata=tuple(metadata)))

    def stream(self, method: str, request: Any, response: type[Any], *, metadata: Metadata) -> RpcStream:
        """A stream of responses to one request."""
        invoke = self._channel.unary_stream(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return RpcStream(invoke(request, metadata=tuple(metadata)))

    async def close(self) -> None:
        """End it; calls that wait fail with UNAVAILABLE."""
        await self._channel.close()


class RpcStream:
    """A running stream."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def send(self, message: Any) -> None:
        """Send one message. Raises RpcError."""
        try:
            await self._call.write(message)
        except aio.AioRpcError as error:
            _raise_if_cancelled()
            raise _converted(error) from error
        except (asyncio.CancelledError, asyncio.InvalidStateError, aio.UsageError) as error:
            _raise_if_cancelled()
            raise RpcError("UNAVAILABLE", "the stream has ended") from error

    async def receive(self) -> Any | None:
        """The next message; None at the end. Raises RpcError."""
        try:
            message = await self._call.read()
        except aio.AioRpcError as error:
            _raise_if_cancelled()
            raise _converted(error) from error
        except (asyncio.CancelledError, asyncio.InvalidStateError, aio.UsageError) as error:
            _raise_if_cancelled()
            raise RpcError("UNAVAILABLE", "the stream has ended") from error
        return None if message is aio.EOF else message

    def cancel(self) -> None:
        """End it. Calling it again does nothing."""
        self._call.cancel()


def _raise_if_cancelled() -> None:
    """gRPC raises CancelledError when a channel is closed as well, and an error of the call when a task is cancelled; only the task's own cancellation is one."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _converted(error: aio.AioRpcError) -> RpcError:
    return RpcError(error.code().name, error.details() or "")
