"""A transport that counts, under the names of Kubernetes' client metrics."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.client.errors import TransportError
from bayplan.client.transport import Decode, RawWatch, Transport
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)
_SUCCESS = {"POST": "201"}


class MeteredTransport(Transport):
    """Counts requests by code, method and host, and times them by verb and host."""

    def __init__(self, transport: Transport, registry: Registry, clock: Clock, host: str) -> None:
        self._transport = transport
        self._clock = clock
        self._host = host
        self._requests = registry.counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
        )
        self._durations = registry.histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            ("verb", "host"),
            _SECONDS,
        )
        self._sent = registry.histogram(
            "rest_client_request_size_bytes",
            "Request size in bytes. Broken down by verb and host.",
            ("verb", "host"),
            _BYTES,
        )
        self._received = registry.histogram(
            "rest_client_response_size_bytes",
            "Response size in bytes. Broken down by verb and host.",
            ("verb", "host"),
            _BYTES,
        )

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        """See Transport."""
        started = self._clock.monotonic()
        code = _SUCCESS.get(method, "200")
        try:
            data = await self._transport.request(method, path, query, body, content_type)
            self._received.labels(method, self._host).observe(len(data))
            return data
        except ApiError as error:
            code = str(error.code)
            raise
        except TransportError:
            code = "<error>"
            raise
        finally:
            self._requests.labels(code, method, self._host).inc()
            self._durations.labels(method, self._host).observe(self._clock.monotonic() - started)
            self._sent.labels(method, self._host).observe(len(body))

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str], decode: Decode) -> RawWatch:
        """See Transport."""
        code = "200"
        try:
            return await self._transport.watch(kind, path, query, decode)
        except ApiError as error:
            code = str(error.code)
            raise
        except TransportError:
            code = "<error>"
            raise
        finally:
            self._requests.labels(code, "GET", self._host).inc()

    async def close(self) -> None:
        """See Transport."""
        await self._transport.close()
