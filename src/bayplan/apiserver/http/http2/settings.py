"""How connections that speak HTTP/2 behave, and what is measured of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bayplan.support.metrics.instruments import Counter, Registry

DEFAULT_STREAMS: Final = 100
"""As in kube-apiserver, which does not take Go's 250."""


@dataclass(frozen=True, slots=True)
class Http2Settings:
    """Of all connections of a server."""

    most_streams: int
    """Requests that a client may have open at once on a connection; more are refused."""
    goes_away: Callable[[], bool] | None = None
    """Asked with each response whether the connection should end, so that its client may find another server; None if never."""


class Http2Metrics:
    """Counts connections and streams."""

    def __init__(self, registry: Registry, connections: Callable[[], float]) -> None:
        """connections: how many there are."""
        registry.gauge("bayplan_http2_connections", "Open connections that speak HTTP/2.").labels().set_function(
            connections
        )
        self.streams: Counter = registry.counter(
            "bayplan_http2_streams_total", "Requests that came over HTTP/2."
        ).labels()
        text = "Connections that the server has ended since their client broke the rules of HTTP/2, by error code."
        self._ended = registry.counter("bayplan_http2_connections_ended_total", text, ("code",))

    def ended(self, code: str) -> None:
        """A connection is ended for a failure."""
        self._ended.labels(code).value += 1
