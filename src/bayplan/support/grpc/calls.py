"""gRPC over unix sockets, with messages made at run time: calls, streams, and servers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bayplan.support.grpc.errors import INVALID_TEXT, DialError, RefusedError, RpcError

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # nothing forks to use it
try:
    import grpc
    from grpc import aio
except ImportError as error:
    raise ImportError(
        f"gRPC needs packages that are not installed ({error}): pip install 'bayplan[kubelet]', or 'bayplan[csi]' for storage alone"
    ) from error

Handler = Callable[[Any], Awaitable[Any]]
Method = tuple[type[Any], Handler]
"""(class of the request, what answers it)."""
_OPTIONS = (("grpc.enable_http_proxy", 0), ("grpc.default_authority", "localhost"))


_SOON_AGAIN: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)
"""A socket costs nothing to try: a server that comes back is found within two seconds. One that is there, but busy, may take gRPC's 20 seconds to answer."""
LONGEST_SOCKET: Final = 107
"""Bytes of a socket's path that the kernel takes (sun_path)."""


class _Address:
    """A socket as gRPC is told of it. One with a long path is named by its directory, which is kept open: the kernel takes short paths only."""

    def __init__(self, socket: Path) -> None:
        self._directory: int | None = None
        self.text = f"unix:{socket}"
        if len(os.fsencode(socket)) > LONGEST_SOCKET and socket.parent.is_dir():
            self._directory = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.text = f"unix:/proc/self/fd/{self._directory}/{socket.name}"

    def close(self) -> None:
        """Forget it."""
        if self._directory is not None:
            os.close(self._directory)
            self._directory = None


class Connection:
    """A connection to a socket. It is made at the first call."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._address = _Address(socket)
        self._channel = aio.insecure_channel(self._address.text, options=_OPTIONS)

    async def ready(self, seconds: float) -> None:
        """Return once the other side listens. Raises RpcError, also after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._channel.channel_ready()
        except TimeoutError:
            raise DialError(f"{self.socket}: context deadline exceeded") from None

    async def call(self, method: str, request: Any, answer: type[Any], seconds: float) -> Any:
        """One call. Raises RpcError, also after so many seconds."""
        data = _to_bytes(request)
        invoke: aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        try:
            return _from_bytes(answer, await invoke(data, timeout=seconds))
        except aio.AioRpcError as error:
            raise RpcError(error.code().name, error.details() or "") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise DialError(f"the connection to {self.socket} was closed") from None  # by `close`

    async def stream(self, method: str, request: Any, answer: type[Any]) -> AsyncIterator[Any]:
        """All messages of a stream, until the other side ends it. Raises RpcError."""
        invoke: aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(method)
        call = invoke(_to_bytes(request))
        try:
            async for data in call:
                yield _from_bytes(answer, data)
        except aio.AioRpcError as error:
            raise RpcError(error.code().name, error.details() or "") from error
        finally:
            call.cancel()

    async def close(self) -> None:
        """End it; calls that wait fail."""
        await self._channel.close()
        self._address.close()


class BlockingConnection:
    """A connection whose calls block the thread, for short calls where nothing can be awaited. It is made at the first call."""

    def __init__(self, target: str) -> None:
        """target: as gRPC names it, such as `unix:/run/some.sock`."""
        self._channel = grpc.insecure_channel(target, options=(*_OPTIONS, *_SOON_AGAIN))

    def call(self, method: str, request: Any, answer: type[Any], seconds: float) -> Any:
        """One call. Raises RpcError, also after so many seconds."""
        data = _to_bytes(request)
        invoke: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        try:
            return _from_bytes(answer, invoke(data, timeout=seconds))
        except grpc.RpcError as error:
            ended: Any = error  # a call, too, which its types do not say
            raise RpcError(ended.code().name, ended.details() or "") from error
        except ValueError as error:  # of a channel that was closed before
            raise RpcError("CANCELLED", str(error)) from error

    def close(self) -> None:
        """End it."""
        self._channel.close()


# Messages are made and read here: gRPC itself would send, or return, an empty one in place of one that cannot be written or read.


def _to_bytes(message: Any) -> bytes:
    """Raises RpcError."""
    try:
        data: bytes = message.SerializeToString()
    except UnicodeEncodeError as error:
        raise RpcError("INTERNAL", INVALID_TEXT) from error
    except ValueError as error:
        raise RpcError("INTERNAL", f"grpc: error while marshaling: {error}") from error
    return data


def _from_bytes(kind: type[Any], data: bytes) -> Any:
    """Raises RpcError."""
    try:
        return kind.FromString(data)
    except Exception as error:  # protobuf's own, whose class differs between its implementations
        raise RpcError("INTERNAL", f"grpc: failed to unmarshal the received message: {error}") from error


class SocketServer:
    """A server at a socket. methods: full name of each method -> what it does."""

    def __init__(self, socket: Path, methods: Mapping[str, Method]) -> None:
        self._socket = socket
        self._methods = methods
        self._server: aio.Server | None = None
        self._address: _Address | None = None

    async def start(self) -> None:
        """Listen. A socket that is there already is replaced. Raises OSError."""
        self._socket.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        self._server = aio.server()
        self._server.add_generic_rpc_handlers(_handlers(self._methods))
        try:
            self._address = _Address(self._socket)
            self._server.add_insecure_port(self._address.text)
        except RuntimeError as error:
            raise OSError(f"{self._socket}: {error}") from error
        await self._server.start()
        self._socket.chmod(0o600)

    async def stop(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
        if self._address is not None:
            self._address.close()
            self._address = None
        self._socket.unlink(missing_ok=True)


def _handlers(methods: Mapping[str, Method]) -> tuple[grpc.GenericRpcHandler, ...]:
    services: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {}
    for path, (request, handler) in methods.items():
        _, service, method = path.split("/")
        services.setdefault(service, {})[method] = grpc.unary_unary_rpc_method_handler(_answering(request, handler))
    return tuple(grpc.method_handlers_generic_handler(name, found) for name, found in services.items())


def _answering(kind: type[Any], handler: Handler) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def answer(data: bytes, context: Any) -> bytes:
        try:
            return _to_bytes(await handler(_from_bytes(kind, data)))
        except RefusedError as error:
            code, text = error.code, str(error)
        except RpcError as error:
            code, text = error.code, error.message
        found: bytes = await context.abort(grpc.StatusCode[code], text)  # raises
        return found

    return answer
