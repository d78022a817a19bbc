"""Requests are counted under Kubernetes' names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import meta_v1
from bayplan.client.errors import TransportError
from bayplan.client.metered import MeteredTransport
from bayplan.support.metrics.instruments import Registry
from bayplan.testing.clock import ManualClock
from tests.client.transports import StubTransport


class _Answers(StubTransport):
    """A transport that gives or raises what it was told."""

    def __init__(self, clock: ManualClock, *answers: Any) -> None:
        super().__init__(self._slowly)
        self._clock = clock
        self._answers = list(answers)

    def _slowly(self, method: str, path: str, query: Mapping[str, str]) -> bytes:
        self._clock.advance(0.2)
        found: bytes = self._next()
        return found

    async def watch(self, kind: Any, path: str, query: Mapping[str, str], decode: Any) -> Any:
        return self._next()

    def _next(self) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_requests_are_counted_by_code_method_and_host() -> None:
    clock, registry = ManualClock(), Registry()
    missing = ApiError(meta_v1.Status(code=404, reason="NotFound"))
    inner = _Answers(clock, b"{}", b"{}", missing, TransportError("no route"), "a watch")
    transport = MeteredTransport(inner, registry, clock, "host:6443")

    async def use() -> None:
        await transport.request("GET", "/a", {})
        await transport.request("POST", "/a", {}, b"body")
        with pytest.raises(ApiError):
            await transport.request("GET", "/b", {})
        with pytest.raises(TransportError):
            await transport.request("GET", "/b", {})
        assert await transport.watch(None, "/a", {}, None) == "a watch"  # type: ignore[arg-type, comparison-overlap]
        await transport.close()

    asyncio.run(use())
    text = registry.render().decode()
    assert 'rest_client_requests_total{code="200",host="host:6443",method="GET"} 2\n' in text
    assert 'rest_client_requests_total{code="201",host="host:6443",method="POST"} 1\n' in text
    assert 'rest_client_requests_total{code="404",host="host:6443",method="GET"} 1\n' in text
    assert 'rest_client_requests_total{code="<error>",host="host:6443",method="GET"} 1\n' in text
    assert 'rest_client_request_duration_seconds_bucket{host="host:6443",verb="GET",le="0.25"} 3\n' in text
    assert 'rest_client_request_duration_seconds_bucket{host="host:6443",verb="GET",le="0.1"} 0\n' in text
    assert 'rest_client_request_size_bytes_sum{host="host:6443",verb="POST"} 4\n' in text
