"""A server of the Container Runtime Interface in this process that misbehaves on request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from cri_api.v1 import api_pb2 as wire
from grpc import aio


class FakeCri:
    """Answers calls by name from `answers`; keeps requests in `requests`. What is in `hangs` never answers, what is in `errors` fails."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.errors: dict[str, tuple[grpc.StatusCode, str]] = {}
        self.hangs: set[str] = set()
        self.events: list[wire.ContainerEventResponse] = []
        self.stream_error: tuple[grpc.StatusCode, str] | None = None
        self.requests: list[tuple[str, Any]] = []
        self.deadlines: dict[str, float | None] = {}
        self._server: aio.Server | None = None

    async def start(self, socket: str) -> None:
        """Listen at a path."""
        self._server = aio.server()
        self._server.add_generic_rpc_handlers(
            (
                self._handlers(wire.DESCRIPTOR.services_by_name["RuntimeService"]),
                self._handlers(wire.DESCRIPTOR.services_by_name["ImageService"]),
            )
        )
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Die: calls that wait break."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def _handlers(self, service: Any) -> grpc.GenericRpcHandler:
        table = {}
        for method in service.methods:
            request, answer = getattr(wire, method.input_type.name), getattr(wire, method.output_type.name)
            if method.name == "GetContainerEvents":
                table[method.name] = grpc.unary_stream_rpc_method_handler(
                    self._stream, request.FromString, answer.SerializeToString
                )
            else:
                table[method.name] = grpc.unary_unary_rpc_method_handler(
                    self._method(method.name, answer), request.FromString, answer.SerializeToString
                )
        return grpc.method_handlers_generic_handler(service.full_name, table)

    def _method(self, name: str, answer: Callable[[], Any]) -> Any:
        async def call(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            self.requests.append((name, request))
            self.deadlines[name] = context.time_remaining()
            if name in self.hangs:
                await asyncio.Event().wait()
            if name in self.errors:
                await context.abort(*self.errors[name])
            return self.answers.get(name) or answer()

        return call

    async def _stream(self, request: Any, context: aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        for event in self.events:
            yield event
        if self.stream_error is not None:
            await context.abort(*self.stream_error)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def fake_cri(socket: str) -> AsyncIterator[FakeCri]:
    """A fake server that listens at a path."""
    server = FakeCri()
    await server.start(socket)
    try:
        yield server
    finally:
        await server.stop()
