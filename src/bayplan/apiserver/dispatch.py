"""From a request that may execute to its response: who asks, what it names, which verb answers. All transports share this.

    permission and path (`PermittedPaths`) -> limits on size and time -> another server's API | what is no resource | `Call` -> verb or subresource -> form

Errors become `Status` responses here, so nothing above sees an exception of a request.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol

from bayplan.api.errors import (
    ApiError,
    bad_request,
    internal_error,
    method_not_allowed,
    request_too_large,
    resource_not_found,
    service_unavailable,
)
from bayplan.apiserver.aggregation.forwarding import not_available, relay_to
from bayplan.apiserver.aggregation.registry import is_available
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.custom_resources.routes import settled_path, verb_not_supported
from bayplan.apiserver.discovery.deprecation import deprecation_of
from bayplan.apiserver.flow_control.watch_counts import WatchCounts
from bayplan.apiserver.health import HEALTH_CHECKS
from bayplan.apiserver.nonresource import page_not_found
from bayplan.apiserver.permitted_paths import PermittedPaths
from bayplan.apiserver.reads.negotiation import JSON, PLAIN, Form
from bayplan.apiserver.reads.representation import in_form
from bayplan.apiserver.reads.watching import Watcher
from bayplan.apiserver.refusals import error_response, refusal
from bayplan.apiserver.request_info import CONNECTIONS, STREAMS
from bayplan.apiserver.request_metrics import RequestMetrics
from bayplan.apiserver.requests import Request, ResourcePath, Response, check_timeout
from bayplan.apiserver.subresources import SUBRESOURCES, check_routed
from bayplan.apiserver.tracing import VERBS
from bayplan.apiserver.verbs import create, delete, patch, read, update
from bayplan.apiserver.writes.options import check_write_options
from bayplan.apiserver.writes.submitting import SubmittedRequest, submit
from bayplan.store.errors import StoreClosed, StoreCorrupt, StoreUnavailable

logger = logging.getLogger(__name__)

_ABOUT_RESOURCES = ("/api", "/openapi")
"""Paths that are no resources and say which there are."""


class NonResourceHandler(Protocol):
    """Answers requests for what is no resource."""

    async def handle(self, request: Request) -> Response:
        """The response."""

    def check(self, request: Request) -> Response | None:
        """The response to one of the HEALTH_CHECKS; None if a request is for something else."""


class Dispatcher:
    """Answers requests that are let in."""

    def __init__(self, context: Context, nonresource: NonResourceHandler, measured: RequestMetrics) -> None:
        """measured: where responses are counted."""
        self._context = context
        self._nonresource = nonresource
        self._measured = measured
        self.paths = PermittedPaths(context)
        self.watch_counts: WatchCounts | None = None
        """Where open watches are counted for the estimates of writes; None if nobody estimates."""
        self.interceptor: Callable[[Call], Awaitable[None]] | None = None
        """See `ApiServer.interceptor`."""

    async def serve(self, request: Request) -> Response:
        """The response to a request. It raises nothing but cancellation."""
        clock = self._context.clock
        started = clock.now()
        path = None
        try:
            if request.query:
                check_timeout(request)
            if self._context.objects.is_shared:
                await self._be_current(request)
            asks = self._context.authorizer.asks_webhooks
            path = await self.paths.find_waiting(request) if asks else self.paths.find(request)
            self._check_size(request)
            if path is None:
                response = self._aggregated(request) or await self._nonresource.handle(request)
            elif request.path.startswith("//"):
                response = page_not_found()  # authorized like a resource, and routed to none
            else:
                response = await self._answer(Call.of(self._context, request, path))
        except Exception as error:
            response = _failure(request, error)
        self._measured.record(request, path, response, clock.now() - started)
        if response.watcher is not None and path is not None:
            self._measure_watch(request, path, response.watcher)
        return response

    async def _be_current(self, request: Request) -> None:
        """Take in what other servers have written before a request came: it counts for who may do what, for which resources there are, and for what is read.

        Raises ApiError (503).
        """
        context = self._context
        if request.info.is_resource:
            if request.query.get("resourceVersion") == "0":
                return
        elif not request.path.startswith(_ABOUT_RESOURCES):
            return
        if context.objects.may_be_behind:
            await context.objects.catch_up()
        if not context.definitions.are_served:
            await context.definitions.served()

    def _is_current(self) -> bool:
        """Whether it is known that `_be_current` has nothing to wait for."""
        return not self._context.objects.may_be_behind and self._context.definitions.are_served

    def gets_at_once(self, request: Request) -> bool:
        """Whether a request is a get that waits for nothing: `get` answers it."""
        context, info = self._context, request.info
        if (
            info.verb != "get"
            or not (info.is_resource or request.path in HEALTH_CHECKS)
            or info.subresource
            or self.interceptor is not None
            or (context.objects.is_shared and not self._is_current())
            or context.authorizer.asks_webhooks
        ):
            return False
        if not info.is_resource:
            return True
        kind = context.kinds.of_resource(info.group, info.version, info.resource)
        return kind is not None and kind.is_stored and not kind.asks_webhook

    def get(self, request: Request) -> Response:
        """`serve` for a request that `gets_at_once`."""
        clock = self._context.clock
        started = clock.now()
        path = None
        try:
            if request.query:
                check_timeout(request)
            path = self.paths.find(request)
            self._check_size(request)
            # None: what lies at this path is another server's, or a custom resource without its namespace
            is_routed = path is not None and not request.path.startswith("//")
            response = self._got(Call.of(self._context, request, path)) if path is not None and is_routed else None
            if response is None:
                response = self._nonresource.check(request) if path is None else None
            if response is None:
                response = self._aggregated(request) or page_not_found()
        except Exception as error:
            response = _failure(request, error)
        self._measured.record(request, path, response, clock.now() - started)
        return response

    def submit(self, request: Request) -> tuple[ResourcePath, SubmittedRequest] | None:
        """Submit a write that is certain to succeed unless the store fails; None if that cannot be known without waiting."""
        try:
            path = self.paths.find(request)
            submitted = submit(Call.of(self._context, request, path)) if path is not None else None
        except ApiError:
            return None  # the slow path answers it
        return None if path is None or submitted is None else (path, submitted)

    def _check_size(self, request: Request) -> None:
        """Raises ApiError (413)."""
        if len(request.body) > self._context.settings.max_request_bytes:
            raise request_too_large(self._context.settings.max_request_bytes)

    def _aggregated(self, request: Request) -> Response | None:
        """Who answers a request if another server does. Raises ApiError (503) if it is not available."""
        service = self._context.aggregated.find(request.path)
        if service is None:
            return None
        if not is_available(service):
            raise not_available(self._context.aggregated.skip_reason(service))
        return Response(200, relay=relay_to(self._context, service, request.path, request.user))

    async def _answer(self, call: Call) -> Response:
        """Answer a request on a resource; errors carry the warnings that were given before."""
        try:
            form = _form(call)
            if self.interceptor is not None:
                await self.interceptor(call)
            tracing = self._context.tracing
            if tracing is None:
                response = await self._resource(call)
            else:
                with tracing.span(VERBS.get(call.path.verb, call.path.verb)):
                    response = await self._resource(call)
            if form.media_type != JSON and response.content_type == JSON and response.relay is None:
                response.body = in_form(response.body, form.media_type)
                response.content_type = form.media_type
            return response
        except ApiError as error:
            return _refused(call, error)

    def _got(self, call: Call) -> Response:
        """`_answer` to a get that waits for nothing."""
        try:
            form = _form(call)
            response = self._prepared(call)
            if response is None:
                self._check_verb(call)
                response = read.get(call)
            if form.media_type != JSON and response.content_type == JSON:
                response.body = in_form(response.body, form.media_type)
                response.content_type = form.media_type
            return response
        except ApiError as error:
            return _refused(call, error)

    async def _resource(self, call: Call) -> Response:
        request = call.request
        refused = self._prepared(call)
        if refused is not None:
            return refused
        path, verb = call.path, call.path.verb
        if path.subresource is not None:
            if path.subresource.name not in CONNECTIONS:
                check_write_options(verb, request.query)
            if path.kind.is_custom:  # built-in resources have found their routes by now
                check_routed(call, path.subresource)
            return await SUBRESOURCES.handle(call)
        self._check_verb(call)
        if not call.kind.is_stored:
            return await SUBRESOURCES.handle_virtual(call)
        if verb == "watch":
            return read.watch(call)
        if verb == "get":
            return await read.get_converted(call) if call.kind.asks_webhook else read.get(call)
        return await _VERBS[verb](call)

    def _prepared(self, call: Call) -> Response | None:
        """What is to be done before a verb: the route of custom resources. Returns the response if there is no such page."""
        path, request = call.path, call.request
        if path.kind.is_custom:
            settled = settled_path(request, path)
            if settled is None:
                return page_not_found()
            call.path = settled
        return None

    @staticmethod
    def _check_verb(call: Call) -> None:
        """Raises ApiError (400, 405)."""
        verb = call.path.verb
        if verb not in call.kind.verbs:
            if verb == "watch" and "list" in call.kind.verbs:
                raise verb_not_supported("watch", call.kind)
            raise method_not_allowed()
        check_write_options(verb, call.request.query)

    def _measure_watch(self, request: Request, path: ResourcePath, watcher: Watcher) -> None:
        """Count a watch while it runs, and what it sends."""
        running = self._measured.watch_opened(request, path)
        running.inc()
        counts = self.watch_counts
        counted = counts.opened(request.info, request.query) if counts is not None else None
        watcher.sent = self._measured.watch_events(path.kind)
        forget = watcher.when_closed

        def ended(closed: Watcher) -> None:
            running.dec()
            if counts is not None and counted is not None:
                counts.closed(counted)
            if forget is not None:
                forget(closed)

        watcher.on_close(ended)


def _failure(request: Request, error: Exception) -> Response:
    """The response to a request that has failed."""
    if isinstance(error, ApiError):
        response = refusal(request, error)
        if error.code == HTTPStatus.FORBIDDEN:  # by an authorizer; refusals of admission are responses of resources
            response.headers["X-Content-Type-Options"] = "nosniff"
        return response
    if isinstance(error, RecursionError):  # only what clients send can be nested that deeply
        return refusal(request, bad_request("exceeded max depth"))
    if isinstance(error, UnicodeDecodeError):  # only what clients send may be no text
        return refusal(request, bad_request(f"error decoding: {error}"))
    if isinstance(error, (StoreUnavailable, StoreClosed)) and not isinstance(error, StoreCorrupt):
        return refusal(request, service_unavailable(f"the store cannot be used: {error}"))
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    if request.audit is not None:
        request.audit.panic = f"{type(error).__name__}: {error}"
    return error_response(internal_error(f"{type(error).__name__}: {error}"))


def _refused(call: Call, error: ApiError) -> Response:
    """The response to a request on a resource that is refused."""
    response = refusal(call.request, error)
    response.warnings = call.warnings
    return response


def _form(call: Call) -> Form:
    """The form that the client wants, once built-in resources have found their route and deprecated ones have said so. Raises ApiError (405, 406)."""
    subresource = call.path.subresource
    if call.kind.is_custom:
        _warn_if_deprecated(call)
        return PLAIN if subresource is not None and subresource.name in STREAMS else call.form
    if subresource is None:
        _check_routed(call.request.method, call.path)
    else:
        check_routed(call, subresource)
    if call.path.verb == "patch" and (subresource is None or subresource.name not in CONNECTIONS):
        patch.check_routed(call.request.content_type)
    try:
        form = PLAIN if subresource is not None and subresource.name in STREAMS else call.form
    except ApiError as error:
        if not error.status.message.startswith("406: "):  # the words of who finds routes, and only routes warn
            _warn_if_deprecated(call)
        raise
    _warn_if_deprecated(call)
    return form


def _warn_if_deprecated(call: Call) -> None:
    warning = deprecation_of(call.kind)
    verb = call.path.verb if call.path.subresource is None else ""
    if warning and (verb in call.kind.verbs or verb in ("", "watch")):
        call.warnings.append(warning)
        if call.request.audit is not None:
            call.request.audit.annotate("k8s.io/deprecated", "true")


def _check_routed(method: str, path: ResourcePath) -> None:
    """A built-in resource has a route for this method at this path. Raises ApiError (404, 405)."""
    verb, on_object = path.verb, bool(path.name)
    if verb == "proxy":  # a prefix of old releases
        raise resource_not_found()
    if verb not in path.kind.verbs and not (verb == "watch" and "list" in path.kind.verbs):
        raise method_not_allowed()
    if method not in _METHODS.get(verb, ()) or (verb in _ON_OBJECTS) > on_object or (verb == "create" and on_object):
        raise method_not_allowed()
    if path.kind.namespaced and not path.namespace and verb not in ("list", "watch"):
        raise method_not_allowed()


_METHODS = {
    "get": ("GET",),
    "list": ("GET",),
    "watch": ("GET",),
    "create": ("POST",),
    "update": ("PUT",),
    "patch": ("PATCH",),
    "delete": ("DELETE",),
    "deletecollection": ("DELETE",),
}
"""The methods of verbs. Others may be authorized as the verb (HEAD, all of `/watch/...`), but no route has them."""
_ON_OBJECTS = frozenset(("update", "patch"))
"""Verbs that never are about a collection."""
_VERBS: dict[str, Callable[[Call], Awaitable[Response]]] = {
    "list": read.list_objects,
    "create": create.create,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}
