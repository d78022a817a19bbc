"""Traces of requests: names and parents of spans, which clients decide about them, and what a collector gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler

from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.apiserver.requests import Request
from bayplan.apiserver.tracing import read_tracing, span_name
from bayplan.cluster.api_server.tracing import OpenTelemetryTracing, open_tracing
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import CLUSTER_API
from bayplan.cluster.storage.measured_store import MeasuredStore
from bayplan.store.memory import MemoryStore
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from tests.apiserver.serving import ADMIN, AS_RECORDED, Served, opened, served
from tests.cluster.test_encryption import settings

_MAPS = "/api/v1/namespaces/default/configmaps"
_TRACE, _SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_PARENT = f"00-{_TRACE}-{_SPAN}-01"


def recorder(sampler: Sampler | None = None) -> tuple[OpenTelemetryTracing, Callable[[], Sequence[ReadableSpan]]]:
    """What traces, and what reads the spans that have ended."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OpenTelemetryTracing(provider), exporter.get_finished_spans


def file(**fields: object) -> bytes:
    return json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "TracingConfiguration", **fields}).encode()


def test_a_request_has_a_span_with_its_verb_below_it() -> None:
    async def run() -> None:
        async with opened() as api:
            tracing, spans = recorder()
            api.context.tracing = tracing
            body = json.dumps({"metadata": {"name": "a"}}).encode()
            await api.handle(Request("POST", _MAPS, {}, ADMIN, body, user_agent="kubectl"))
            verb, request = spans()
            assert (verb.name, request.name) == ("Create", "POST /api/v1/namespaces/{:namespace}/configmaps")
            assert verb.parent is not None
            assert request.context is not None
            assert verb.parent.span_id == request.context.span_id
            assert dict(request.attributes or {}) == {
                "http.request.method": "POST",
                "url.path": _MAPS,
                "http.target": _MAPS,
                "user_agent.original": "kubectl",
                "http.response.status_code": 201,
            }

    asyncio.run(run())


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/version", "GET"),
        ("GET", "/apis/apps/v1/deployments", "GET /apis/apps/v1/deployments"),
        ("PATCH", "/api/v1/namespaces/a/pods/b/status", "PATCH /api/v1/namespaces/{:namespace}/pods/{:name}/status"),
        ("DELETE", "/api/v1/nodes/a", "DELETE /api/v1/nodes/{:name}"),
    ],
)
def test_spans_are_named_by_the_path_without_names_of_objects(method: str, path: str, name: str) -> None:
    assert span_name(method, Request(method, path, {}, ADMIN).info) == name


def test_a_failure_of_the_server_is_an_error_and_one_of_the_client_is_not() -> None:
    async def run() -> None:
        async with opened() as api:
            tracing, spans = recorder()
            api.context.tracing = tracing
            await api.handle(Request("GET", _MAPS + "/none", {}, ADMIN))
            await api.handle(Request("GET", _MAPS + "/none", {"resourceVersion": "x"}, ADMIN))
            missing, failed = (one for one in spans() if one.name.startswith("GET"))
            assert (missing.status.is_ok, failed.status.is_ok) == (True, False)

    asyncio.run(run())


async def _get(server: Served, user: str, path: str = _MAPS) -> int:
    headers = {**server.headers(user), "traceparent": _PARENT}
    async with server.session.get(server.url + path, headers=headers) as answer:
        await answer.read()
        return answer.status


def test_the_trace_of_an_administrator_is_continued_and_that_of_others_only_linked_to() -> None:
    async def run() -> None:
        async with served(AS_RECORDED) as server:
            tracing, spans = recorder()
            server.api.context.tracing = tracing
            for user, code in (("admin", 200), ("admin", 200), ("alice", 403)):
                assert await _get(server, user, f"{_MAPS}?limit=5") == code
            first, second, other = (one for one in spans() if one.name.startswith("GET"))
            for one in (first, second):
                assert one.context is not None
                assert one.parent is not None
                assert f"{one.context.trace_id:032x}" == _TRACE
                assert f"{one.parent.span_id:016x}" == _SPAN
                assert (one.attributes or {})["http.target"] == f"{_MAPS}?limit=5"
            assert other.parent is None
            assert [f"{link.context.trace_id:032x}" for link in other.links] == [_TRACE]

    asyncio.run(run())


def test_without_a_sampling_rate_only_what_administrators_trace_is_traced() -> None:
    async def run() -> None:
        async with served(AS_RECORDED) as server:
            tracing, spans = recorder(ParentBased(ALWAYS_OFF))
            server.api.context.tracing = tracing
            await _get(server, "alice", "/version")
            async with server.session.get(server.url + _MAPS, headers=server.headers()) as answer:
                assert answer.status == 200
            assert len(spans()) == 0
            await _get(server, "admin", "/version")
            assert [one.name for one in spans()] == ["GET"]

    asyncio.run(run())


def test_requests_to_the_store_are_spans_of_the_request() -> None:
    async def run() -> None:
        tracing, spans = recorder()
        clock = SystemClock()
        async with opened(MeasuredStore(MemoryStore(clock=clock), clock, Registry(), tracing)) as api:
            api.context.tracing = tracing
            before = len(spans())
            body = json.dumps({"metadata": {"name": "a"}}).encode()
            await api.handle(Request("POST", _MAPS, {}, ADMIN, body))
            await asyncio.sleep(0)
            names = {one.name for one in spans()[before:]}
            assert {"Create", "Create etcd3"} <= names
            found = next(one for one in spans()[before:] if one.name == "Create etcd3")
            assert found.parent is not None

    asyncio.run(run())


class Collector:
    """Takes traces as a collector does."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.service = ""
        self._server = grpc.server(ThreadPoolExecutor(max_workers=1))
        handler = grpc.unary_unary_rpc_method_handler(
            self._export,
            request_deserializer=ExportTraceServiceRequest.FromString,
            response_serializer=ExportTraceServiceResponse.SerializeToString,
        )
        service = "opentelemetry.proto.collector.trace.v1.TraceService"
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _export(self, request: Any, _: Any) -> Any:
        for resource in request.resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.service = names["service.name"]
            self.names += [span.name for scope in resource.scope_spans for span in scope.spans]
        return ExportTraceServiceResponse()

    def close(self) -> None:
        """Listen no longer."""
        self._server.stop(None).wait()


def test_a_collector_gets_the_spans_of_a_server_with_a_configuration_file(tmp_path: Path) -> None:
    collector = Collector()
    path = tmp_path / "tracing.json"
    path.write_bytes(file(endpoint=f"127.0.0.1:{collector.port}", samplingRatePerMillion=1_000_000))

    async def run() -> None:
        given = settings(tmp_path, None)
        cluster = Cluster(replace(given, api=replace(CLUSTER_API, tracing_config_file=str(path))))
        await cluster.start()
        await cluster.api.handle(Request("GET", _MAPS, {}, ADMIN))
        await cluster.stop()

    asyncio.run(run())
    assert collector.service == "apiserver"
    assert {"GET /api/v1/namespaces/{:namespace}/configmaps", "List"} <= set(collector.names)
    collector.close()


def test_a_file_says_where_traces_go_and_how_many_there_are() -> None:
    assert read_tracing(file()) == ("localhost:4317", 0.0)
    assert read_tracing(file(endpoint="unix:///run/otlp.sock", samplingRatePerMillion=250_000)) == (
        "unix:///run/otlp.sock",
        0.25,
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (file(samplingRatePerMillion=-1), "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive"),
        (file(samplingRatePerMillion=1_000_001), "must be less than or equal to one million"),
        (file(endpoint="http://collector:4317"), "unsupported scheme: http"),
        (file(endpoint="a b"), 'parse "dns://a b": invalid character " " in host name'),
        (file(endpoint="collector:otlp"), 'parse "dns://collector:otlp": invalid port ":otlp" after host'),
        (file(nosuch=1), 'unknown field "nosuch"'),
        (b"kind: Pod\napiVersion: v1\n", "no kind"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_tracing(data)
    assert problem in str(caught.value)
    path = tmp_path / "tracing.yaml"
    path.write_bytes(data)
    with pytest.raises(ClusterError, match="the tracing configuration"):
        open_tracing(path, "server")
