"""Traces by OpenTelemetry, sent to a collector by OTLP over gRPC. Imported only where a `--tracing-config-file` is given: it needs `bayplan[tracing]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.apiserver.requests import Request
from bayplan.apiserver.tracing import Answered, TracingSettings, is_trusted, read_tracing, span_name
from bayplan.cluster.errors import ClusterError
from bayplan.support.blocking import in_thread

try:
    from opentelemetry import trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.propagators.composite import CompositePropagator
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ClusterError(
        f"traces need packages that are not installed ({error}): pip install 'bayplan[tracing]'"
    ) from error

_SERVICE: Final = "apiserver"
_SERVER_ERRORS: Final = 500
_PROPAGATOR: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])


def open_tracing(path: Path, server_id: str) -> OpenTelemetryTracing:
    """Tracing as a file wants it. server_id: names the API server. Raises ClusterError."""
    try:
        settings = read_tracing(path.read_bytes())
    except (OSError, ConfigurationError) as error:
        raise ClusterError(f"the tracing configuration {path} cannot be used: {error}") from error
    provider = TracerProvider(sampler=_sampler(settings), resource=_resource(server_id))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(_target(settings.endpoint), insecure=True)))
    return OpenTelemetryTracing(provider)


def _sampler(settings: TracingSettings) -> ParentBased:
    """What the client decided counts; without a decision a part is traced."""
    return ParentBased(TraceIdRatioBased(settings.sampled) if settings.sampled else ALWAYS_OFF)


def _resource(server_id: str) -> Resource:
    return Resource.create({"service.name": _SERVICE, "service.instance.id": server_id})


def _target(endpoint: str) -> str:
    """As gRPC names it. The exporter takes what has a scheme for a URL of HTTP."""
    return endpoint.removeprefix("dns://").lstrip("/") if endpoint.startswith("dns:") else endpoint


class OpenTelemetryTracing:
    """See `apiserver.tracing.Tracing`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("bayplan")

    @contextmanager
    def request(self, request: Request) -> Iterator[Answered]:
        origin = request.origin
        sent = _PROPAGATOR.extract(dict(origin.trace)) if origin is not None and origin.trace else None
        links = []
        if sent is not None and not is_trusted(request):
            other = trace.get_current_span(sent).get_span_context()
            links, sent = [Link(other)] if other.is_valid else [], Context()
        attributes = {
            "http.request.method": request.method,
            "url.path": request.path,
            "http.target": origin.uri if origin is not None and origin.uri else request.path,
            "user_agent.original": request.user_agent,
        }
        name = span_name(request.method, request.info)
        with self._tracer.start_as_current_span(
            name, context=sent, kind=SpanKind.SERVER, attributes=attributes, links=links
        ) as span:

            def answered(code: int) -> None:
                span.set_attribute("http.response.status_code", code)
                if code >= _SERVER_ERRORS:
                    span.set_status(Status(StatusCode.ERROR))

            yield answered

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, str] | None = None) -> Iterator[None]:
        with self._tracer.start_as_current_span(name, attributes=attributes):
            yield

    def begin(self, name: str) -> Callable[[], None]:
        return self._tracer.start_span(name).end

    async def close(self) -> None:
        """Send what is left, for a few seconds at most."""
        await in_thread(self._provider.shutdown)
