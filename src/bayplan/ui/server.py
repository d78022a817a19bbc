"""Serves the page: static files, the snapshot, the stream of frames, and what is asked about single objects."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from bayplan import __version__
from bayplan.client.http_streams import HttpStreams
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.ui import objects
from bayplan.ui.access import HEADERS, Access
from bayplan.ui.cluster_source import ClusterSource
from bayplan.ui.errors import RequestError, UiError
from bayplan.ui.feed import Feed
from bayplan.ui.lessons import Lessons
from bayplan.ui.metrics_routes import MetricsRoutes
from bayplan.ui.pod_streams import PodStreams
from bayplan.ui.question_routes import QuestionRoutes, SchedulerState
from bayplan.ui.questions import Questions
from bayplan.ui.settings import UiSettings
from bayplan.ui.static_files import StaticFiles

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_QUIET_SECONDS: Final = 15.0
"""After which a stream says that it is alive."""
_MOST_BODY: Final = 4 << 20
_ADDRESS: Final = "127.0.0.1"


class UiServer:
    """The page of one cluster."""

    def __init__(
        self,
        cluster: ClusterSource,
        feed: Feed,
        settings: UiSettings,
        source: Sequence[str],
        scheduler: SchedulerState | None = None,
        streams: HttpStreams | None = None,
        *,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        """source: the options of the command line that say which cluster this is, for questions about it. scheduler: asks its
        scheduler for its state; None if that cannot be reached. streams: opens terminals and logs; closed at the end."""
        self.source = cluster
        self.feed = feed
        self.settings = settings
        self._clock = clock
        self._randomness = randomness
        self._files = StaticFiles()
        questions = Questions(source, settings.scheduler_config)
        self._question_routes = QuestionRoutes(cluster, questions, scheduler, allow_changes=settings.allow_changes)
        self._lessons = Lessons()
        self._streams = PodStreams(cluster, streams, allow_terminals=settings.allow_changes)
        self._metrics = MetricsRoutes(cluster, clock=clock)
        self._runner: web.AppRunner | None = None
        self.access: Access | None = None

    async def start(self) -> str:
        """Listen, and follow the cluster. Returns the URL that opens the page. Raises UiError."""
        app = web.Application(middlewares=[self._guard], client_max_size=_MOST_BODY)
        app.router.add_get("/", self._page)
        app.router.add_get("/static/{path:.+}", self._static)
        app.router.add_get("/api/snapshot", self._snapshot)
        app.router.add_get("/api/changes", self._changes)
        app.router.add_get("/api/object", self._object)
        app.router.add_get("/api/logs", self._logs)
        app.router.add_get("/api/select", self._select)
        self._question_routes.add_routes(app)
        self._lessons.add_routes(app)
        self._metrics.add_routes(app)
        self._streams.add_routes(app)
        # A question whose page is gone is asked no more.
        self._runner = runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
        await runner.setup()
        try:
            await web.TCPSite(runner, _ADDRESS, self.settings.port).start()
        except OSError as error:
            await self.stop()
            raise UiError(
                f"the page cannot listen on {_ADDRESS}:{self.settings.port}: {error.strerror or error}; choose another port with --ui-port"
            ) from error
        self.access = Access(self._randomness, runner.addresses[0][1])
        self.feed.set_status(
            scheduler=self._question_routes.knows_scheduler,
            title=self.settings.title,
            changes=self.settings.allow_changes,
            version=__version__,
            learn=self.settings.learn,
            streams=self._streams.are_there,
        )
        await self.source.start()
        self._metrics.start()
        return self.access.url

    async def stop(self) -> None:
        """End all streams and stop listening."""
        self.feed.close()
        await self._lessons.close()
        await self._metrics.stop()
        await self._streams.stop()
        await self.source.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in who may come, and give every answer its headers."""
        try:
            response = await self._admitted(request, handler)
        except RequestError as error:
            said = {"error": error.message, **({"fields": error.fields} if error.fields else {})}
            response = web.json_response(said, status=error.status)
        except web.HTTPException as error:
            response = web.json_response({"error": error.reason}, status=error.status)
        except ConnectionError:
            raise  # there is nobody to answer
        except Exception:
            logger.exception("%s %s could not be answered", request.method, request.path)
            response = web.json_response({"error": "bayplan could not answer; its log says why"}, status=500)
        if not response.prepared:
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def _admitted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        access = self.access
        if access is None:
            raise RequestError(503, "the page is starting")
        access.check_origin(request.method, request.headers)
        if request.path == "/" and access.takes_token(request.query.get("token", "")):
            return web.Response(status=303, headers={"Location": "/", "Set-Cookie": access.cookie})
        if not access.takes_cookie(request.cookies.get(access.cookie_name, "")):
            if request.path == "/":
                return self._files.response("locked.html", request, status=401)
            if request.path == "/static/style.css":
                return await handler(request)
            raise RequestError(401, "open the page by the URL that bayplan has printed")
        return await handler(request)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        return self._files.response("index.html", request)

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return self._files.response(request.match_info["path"], request)

    async def _snapshot(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=await self.feed.snapshot(), content_type="application/json")

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: `frame` with a frame, `resync` if the page has to take a snapshot again."""
        number = _whole(request.headers.get("Last-Event-ID") or request.query.get("after"), "after")
        if self.feed.followers >= self.settings.most_streams:
            raise RequestError(503, f"{self.feed.followers} pages are open already; close some")
        headers = {**HEADERS, "Content-Type": "text/event-stream"}
        response = web.StreamResponse(headers=headers)
        self.feed.followers += 1
        try:
            await response.prepare(request)
            await self._stream(response, number)
        except ConnectionError:
            pass  # the page is gone
        finally:
            self.feed.followers -= 1
        return response

    async def _stream(self, response: web.StreamResponse, number: int) -> None:
        feed = self.feed
        await response.write(b"retry: 1000\n\n")
        while not feed.is_closed:
            frames = feed.after(number)
            if frames is None:
                await response.write(b"event: resync\ndata: {}\n\n")
                return
            for number, frame in frames:
                await response.write(b"id: %d\nevent: frame\ndata: %s\n\n" % (number, frame))
            if not frames and not await feed.wait(_QUIET_SECONDS):
                await response.write(b": alive\n\n")

    async def _object(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        tree = await objects.object_tree(
            self.source, query.get("kind", ""), query.get("namespace", ""), query.get("name", "")
        )
        managed = query.get("managedFields") == "true"
        return web.Response(text=objects.yaml_of(tree, managed_fields=managed), content_type="text/plain")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        text = await objects.logs(
            self.source,
            self._streams.read,
            query.get("namespace", ""),
            query.get("name", ""),
            query.get("container", ""),
            _whole(query.get("lines", "500"), "lines"),
            query.get("previous") == "true",
        )
        return web.Response(text=text, content_type="text/plain")

    async def _select(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        return _json({"keys": objects.selected(self.source, query.get("table", ""), labels, fields)})


def _json(data: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), content_type="application/json")


def _whole(text: str | None, name: str) -> int:
    """A number of a query. Raises RequestError."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 15:
        raise RequestError(400, f"{name}: a whole number is expected")
    return int(text)
