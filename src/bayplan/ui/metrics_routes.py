"""Charts: samples of a live cluster's figures and readings of its metrics API are taken from time to time, and served as columns."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from aiohttp import web

from bayplan.api.types import core_v1
from bayplan.support.clock import Clock
from bayplan.support.tasks import Supervisor
from bayplan.ui.cluster_source import ClusterSource
from bayplan.ui.errors import RequestError
from bayplan.ui.questions import named
from bayplan.ui.usage import MOST_PODS, UsageHistory

FIGURES_SECONDS = 5.0
USAGE_SECONDS = 15.0
_NO_METRICS: Final = "there are no metrics of a copy"


class MetricsRoutes:
    """Takes the samples of one cluster, and answers what pages ask about them."""

    def __init__(self, cluster: ClusterSource, *, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._tasks = Supervisor("ui-metrics", clock=clock)
        self._usage = UsageHistory(cluster.client, clock) if cluster.client is not None else None

    def add_routes(self, app: web.Application) -> None:
        """Serve them."""
        app.router.add_get("/api/figures", self._figures)
        app.router.add_get("/api/usage", self._usage_of)

    def start(self) -> None:
        """Take samples, if the cluster is a live one."""
        if self._usage is not None:
            self._tasks.spawn("figures", self._take_figures())
            self._tasks.spawn("usage", self._read_usage(self._usage))

    async def stop(self) -> None:
        """Take no more."""
        await self._tasks.close()

    async def _take_figures(self) -> None:
        while True:
            self._cluster.figures.sample()
            await self._clock.sleep(FIGURES_SECONDS)

    async def _read_usage(self, usage: UsageHistory) -> None:
        while True:
            await usage.read(pods=not self._has_many_pods)
            await self._clock.sleep(USAGE_SECONDS)

    @property
    def _has_many_pods(self) -> bool:
        return len(self._cluster.caches[core_v1.Pod]) > MOST_PODS

    async def _figures(self, _: web.Request) -> web.Response:
        if self._usage is None:
            raise RequestError(404, _NO_METRICS)
        return _json({"seconds": FIGURES_SECONDS, "columns": self._cluster.figures.to_dict()})

    async def _usage_of(self, request: web.Request) -> web.Response:
        usage, query = self._usage, request.query
        if usage is None:
            raise RequestError(404, _NO_METRICS)
        if query.get("kind") == "Node":
            return _json({"seconds": USAGE_SECONDS, **usage.to_dict("nodes", "", named(query.get("name")))})
        namespace, name = named(query.get("namespace")), named(query.get("name"))
        if self._has_many_pods:
            await usage.read_pod(namespace, name)
        return _json({"seconds": USAGE_SECONDS, **usage.to_dict("pods", namespace, name)})


def _json(data: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), content_type="application/json")
