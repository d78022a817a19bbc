"""Whether HTTP/2 is spoken: for that the library h2 has to be there, which is an extra of the package."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from bayplan.apiserver.settings import ApiServerSettings
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness

if TYPE_CHECKING:
    from bayplan.apiserver.http.http2.settings import Http2Metrics, Http2Settings


def http2_settings(settings: ApiServerSettings, randomness: Randomness) -> Http2Settings | None:
    """How connections speak HTTP/2; None if they do not."""
    if not settings.http2:
        return None
    from bayplan.apiserver.http.http2.settings import DEFAULT_STREAMS, Http2Settings

    chance = settings.goaway_chance
    goes_away = (lambda: randomness.random() < chance) if chance > 0 else None
    return Http2Settings(settings.http2_max_streams or DEFAULT_STREAMS, goes_away)


def http2_metrics(registry: Registry, connections: Callable[[], float]) -> Http2Metrics:
    """Where HTTP/2 is measured. connections: how many there are."""
    from bayplan.apiserver.http.http2.settings import Http2Metrics

    return Http2Metrics(registry, connections)


def protocols_of(settings: ApiServerSettings) -> tuple[str, ...]:
    """What clients may choose from when they make a connection (ALPN); nothing if there is no choice."""
    return ("h2", "http/1.1") if settings.http2 else ()


def has_http2() -> bool:
    """Whether the library is there."""
    return importlib.util.find_spec("h2") is not None
