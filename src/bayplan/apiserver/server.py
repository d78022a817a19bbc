"""The API server itself: store, caches and verbs behind one door, `handle`. Transports (HTTP, in-process) call that door and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from bayplan.api.errors import ApiError, failure, internal_error, method_not_allowed
from bayplan.api.kinds import DEFAULT_KINDS, Kind, KindTable
from bayplan.apiserver.admission.chain import build_chain
from bayplan.apiserver.allocation import Allocators
from bayplan.apiserver.bootstrap import publish, publish_service
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.deprecation import deprecation_of
from bayplan.apiserver.negotiation import PLAIN, YAML, Form, negotiate
from bayplan.apiserver.nonresource import NonResource
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.representation import to_yaml
from bayplan.apiserver.requests import Request, ResourcePath, Response, bool_parameter, parse_resource_path
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.subresources import SUBRESOURCES
from bayplan.apiserver.verbs import delete, patch, read, write
from bayplan.store.interface import Store
from bayplan.support.clock import Clock
from bayplan.support.metrics import Registry
from bayplan.support.randomness import Randomness

logger = logging.getLogger(__name__)


class ApiServer:
    """One API server over one store.

    `open` reads the store and publishes what every cluster has; `handle` answers requests; `close` ends all watches.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        randomness: Randomness,
        settings: ApiServerSettings | None = None,
        kinds: KindTable = DEFAULT_KINDS,
        metrics: Registry | None = None,
    ) -> None:
        settings = settings or ApiServerSettings()
        self.context = Context(
            settings=settings,
            kinds=kinds,
            objects=ObjectStore(store, kinds),
            admission=build_chain(settings.enable_admission_plugins, settings.disable_admission_plugins),
            allocators=Allocators(settings.service_cluster_ip_range, settings.service_node_port_range, randomness),
            clock=clock,
            randomness=randomness,
        )
        self.metrics = metrics or Registry()
        self.ready = False
        """Whether `/readyz` says so."""
        self._nonresource = NonResource(self)

    async def open(self) -> None:
        """Read the store and publish bootstrap objects. Raises what the store raises."""
        objects = self.context.objects
        await objects.open()
        kind = self.context.kinds.of_kind("v1", "Service")
        if kind is not None:
            cache = objects.cache(kind)
            self.context.allocators.load(cache.decode(entry) for entry in cache.all())
        await publish(self.context)
        self.ready = True

    async def publish_address(self, ip: str, port: int) -> None:
        """Let the `kubernetes` service lead to this address."""
        await publish_service(self.context, ip, port)

    async def close(self) -> None:
        """Stop answering: watches end, the store is flushed and closed."""
        self.ready = False
        await self.context.objects.close()

    async def handle(self, request: Request) -> Response:
        """Answer one request; errors become `Status` answers."""
        try:
            path = parse_resource_path(self.context.kinds, request.path)
            if path is None:
                return self._nonresource.handle(request)
            return await self._answer(Call.of(self.context, request, path))
        except ApiError as error:
            return error_response(error)
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            return error_response(internal_error(f"{type(error).__name__}: {error}"))

    async def _answer(self, call: Call) -> Response:
        """Answer a request on a resource; errors carry the warnings that were given before."""
        form = negotiate(call.request.accept)
        try:
            return await self._resource(call)
        except ApiError as error:
            response = error_response(error, form)
            response.warnings = call.warnings
            return response

    async def _resource(self, call: Call) -> Response:
        path, request = call.path, call.request
        verb = verb_of(request, path) if path.subresource is None else ""
        warning = deprecation_of(call.kind)
        if warning and (verb in call.kind.verbs or verb in ("", "watch")):
            call.warnings.append(warning)
        if path.subresource is not None:
            return await SUBRESOURCES.handle(call)
        if verb not in call.kind.verbs:
            if verb == "watch" and "list" in call.kind.verbs:
                raise verb_not_supported("watch", call.kind)
            raise method_not_allowed()
        if not call.kind.is_stored:
            return await SUBRESOURCES.handle_virtual(call)
        if verb == "watch":
            return read.watch(call)
        if verb == "get":
            return read.get(call)
        return await _VERBS[verb](call)


def verb_of(request: Request, path: ResourcePath) -> str:
    """The API verb of a request. Raises ApiError (405)."""
    method, on_object = request.method, bool(path.name)
    if method == "GET":
        if path.is_watch or bool_parameter(request.query, "watch"):
            return "watch"
        return "get" if on_object else "list"
    if method == "POST":
        if on_object or (path.kind.namespaced and not path.namespace):
            raise method_not_allowed()
        return "create"
    verb = (_OBJECT_METHODS if on_object else _COLLECTION_METHODS).get(method)
    if verb is None or (path.kind.namespaced and not path.namespace):
        raise method_not_allowed()
    return verb


def verb_not_supported(verb: str, kind: Kind) -> ApiError:
    """405: the resource exists, but does not do this."""
    message = f'{verb} is not supported on resources of kind "{kind.group_resource}"'
    return failure(405, "MethodNotAllowed", message, group=kind.group, kind=kind.plural)


_OBJECT_METHODS = {"PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_METHODS = {"DELETE": "deletecollection"}
_VERBS: dict[str, Callable[[Call], Awaitable[Response]]] = {
    "list": read.list_objects,
    "create": write.create,
    "update": write.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}


def error_response(error: ApiError, form: Form = PLAIN) -> Response:
    """An error as an answer, in the media type that the client asked for."""
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    body = msgspec.json.encode(error.status)
    if form.media_type == YAML:
        return Response(error.code, to_yaml(body), YAML, headers)
    return Response(error.code, body, headers=headers)
