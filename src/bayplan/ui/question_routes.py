"""The routes of the page that ask: why, fixes, what if, a pod's steps; and the one that changes something."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from bayplan.ui.changes import patch_template
from bayplan.ui.cluster_source import ClusterSource
from bayplan.ui.errors import RequestError
from bayplan.ui.pod_chain import read_chain
from bayplan.ui.pod_steps import pod_steps
from bayplan.ui.questions import Questions, named

_REPORT_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


SchedulerState = Callable[[], Awaitable[dict[str, Any] | None]]
"""The state of a scheduler (`scheduler.attempts`); None if it does not answer."""


class QuestionRoutes:
    """Answers what pages ask about one cluster."""

    def __init__(
        self, cluster: ClusterSource, questions: Questions, scheduler: SchedulerState | None, *, allow_changes: bool
    ) -> None:
        self._scheduler = scheduler
        self._source = cluster
        self._questions = questions
        self._allow_changes = allow_changes

    @property
    def knows_scheduler(self) -> bool:
        """Whether the scheduler of the cluster can be asked for its state."""
        return self._scheduler is not None

    def add_routes(self, app: web.Application) -> None:
        """Serve them."""
        app.router.add_get("/api/why", self._why)
        app.router.add_get("/api/fixes", self._fixes)
        app.router.add_get("/api/scheduler", self._scheduler_state)
        app.router.add_get("/api/steps", self._steps)
        app.router.add_post("/api/what-if", self._what_if)
        app.router.add_get("/api/report/{number}", self._report)
        app.router.add_post("/api/patch", self._patch)

    async def _why(self, request: web.Request) -> web.Response:
        return _json(await self._questions.why(*_pod(request)))

    async def _fixes(self, request: web.Request) -> web.Response:
        return _json(await self._questions.fixes(*_pod(request)))

    async def _steps(self, request: web.Request) -> web.Response:
        namespace, name = _pod(request)
        chain = await read_chain(self._source, namespace, name)
        state = await self._scheduler() if self._scheduler is not None else None
        if state is not None:
            key = f"{namespace}/{name}"
            attempts = [one for one in state["attempts"] if one["pod"] == key]
            queued = next((one for one in state["queue"] if one["pod"] == key), None)
            chain = dataclasses.replace(chain, attempts=attempts, queued=queued)
        return _json({"steps": pod_steps(chain)})

    async def _scheduler_state(self, _: web.Request) -> web.Response:
        if self._scheduler is None:
            raise RequestError(404, "the scheduler of this cluster cannot be asked for its state")
        state = await self._scheduler()
        if state is None:
            raise RequestError(503, "the scheduler does not answer")
        return _json(state)

    async def _what_if(self, request: web.Request) -> web.Response:
        return _json(await self._questions.what_if(await _object(request)))

    async def _report(self, request: web.Request) -> web.Response:
        report = self._questions.report(request.match_info["number"])
        headers = {
            "Content-Disposition": 'attachment; filename="what-if.html"',
            "Content-Security-Policy": _REPORT_POLICY,
        }
        return web.Response(body=report, content_type="text/html", charset="utf-8", headers=headers)

    async def _patch(self, request: web.Request) -> web.Response:
        return _json({"done": await patch_template(self._source, await _object(request), allowed=self._allow_changes)})


def _pod(request: web.Request) -> tuple[str, str]:
    return named(request.query.get("namespace")), named(request.query.get("name"))


async def _object(request: web.Request) -> dict[str, Any]:
    """The body of a request. Raises RequestError."""
    try:
        body = msgspec.json.decode(await request.read())
    except msgspec.DecodeError as error:
        raise RequestError(400, f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestError(400, "the body must be an object")
    return body


def _json(data: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), content_type="application/json")
