"""A connection to a member of a simulated cluster, in place of gRPC's."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from bayplan.store.etcd.connection import Dial
from bayplan.store.etcd.messages import WATCH
from bayplan.support.grpc.errors import RpcError
from bayplan.support.grpc.types import Metadata, Stream
from bayplan.testing.etcd.cluster import SimulatedEtcd
from bayplan.testing.etcd.watching import SimulatedStream


def dial(cluster: SimulatedEtcd, client: str) -> Dial:
    """What a client of this name dials."""
    return lambda endpoint, _: SimulatedChannel(cluster, client, endpoint)


def copied(message: Any) -> Any:
    """A message as it comes out of the wire."""
    return type(message).FromString(message.SerializeToString())


class SimulatedChannel:
    """See `bayplan.support.grpc.types.Channel`."""

    def __init__(self, cluster: SimulatedEtcd, client: str, endpoint: str) -> None:
        self._cluster = cluster
        self._client = client
        self._endpoint = endpoint
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._streams: list[SimulatedStream] = []

    async def call(self, method: str, request: Any, response: type[Any], *, seconds: float, metadata: Metadata) -> Any:
        """One call; what the server does goes on when the client has given up."""
        running = self._cluster.spawn(self._cluster.exchange(self._client, self._endpoint, method, copied(request)))
        await asyncio.wait((running, self._closed), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._closed.done():
            raise RpcError("UNAVAILABLE", f"the connection to {self._endpoint} was closed")
        if not running.done():
            raise RpcError("DEADLINE_EXCEEDED", "Deadline Exceeded")
        answer = copied(running.result())
        assert isinstance(answer, response)
        return answer

    def duplex(self, method: str, request: type[Any], response: type[Any], *, metadata: Metadata) -> Stream:
        """A stream of watches. Raises RpcError for others."""
        if method != WATCH:
            raise RpcError("UNIMPLEMENTED", f"unknown method {method}")
        stream = SimulatedStream(self._cluster, self._client, self._cluster.members[self._endpoint])
        self._streams = [one for one in self._streams if not one.ended] + [stream]
        return stream

    def stream(self, method: str, request: Any, response: type[Any], *, metadata: Metadata) -> NoReturn:
        """None of these is simulated. Raises RpcError."""
        raise RpcError("UNIMPLEMENTED", f"unknown method {method}")

    async def close(self) -> None:
        """End it."""
        if not self._closed.done():
            self._closed.set_result(None)
        for stream in self._streams:
            stream.cancel()
