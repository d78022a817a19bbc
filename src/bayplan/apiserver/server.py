"""The API server itself: store, caches and verbs behind `handle`. Transports (HTTP, pipe, in-process) call `handle`, `submit` and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from bayplan.api.errors import ApiError, bad_request, internal_error, method_not_allowed, request_too_large
from bayplan.api.kinds import DEFAULT_KINDS, KindTable, optional_kinds
from bayplan.apiserver.admission.chain import build_chain
from bayplan.apiserver.aggregation.forwarding import not_available, relay_to
from bayplan.apiserver.aggregation.registry import AggregatedApis, is_available
from bayplan.apiserver.allocation import Allocators
from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.authentication.bootstrap_tokens import BootstrapTokens
from bayplan.apiserver.authorization.chain import build_authorizer
from bayplan.apiserver.authorization.waiting import decided
from bayplan.apiserver.bootstrap import Restorer, publish_beside_others
from bayplan.apiserver.bootstrap.kubernetes_service import publish_service, restore_service, withdraw_service
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.custom_resources.routes import settled_path, verb_not_supported
from bayplan.apiserver.discovery.deprecation import deprecation_of
from bayplan.apiserver.flow_control.gate import Admission, Gate
from bayplan.apiserver.flow_control.loading import GateConfiguration, open_gate
from bayplan.apiserver.flow_control.parameters import ADJUSTMENT_SECONDS
from bayplan.apiserver.health import ALLOCATORS, BOOTSTRAP, CACHES, DEFINITIONS, SERVICE, START, TASKS
from bayplan.apiserver.nonresource import NonResource, page_not_found
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.permitted_paths import PermittedPaths
from bayplan.apiserver.reads.negotiation import JSON, PLAIN, Form, negotiate
from bayplan.apiserver.reads.representation import in_form
from bayplan.apiserver.reads.watching import Watcher
from bayplan.apiserver.request_info import CONNECTIONS, STREAMS
from bayplan.apiserver.request_metrics import RequestMetrics
from bayplan.apiserver.requests import (
    Request,
    ResourcePath,
    Response,
    check_timeout,
    resolve,
)
from bayplan.apiserver.routing.forwards import Forwards
from bayplan.apiserver.routing.service_routes import ServiceRoutes
from bayplan.apiserver.service_account_tokens.issuing import build_issuer
from bayplan.apiserver.service_account_tokens.keys import TokenKeys, make_signing_key
from bayplan.apiserver.service_account_tokens.verification import ServiceAccountTokens
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.simulated.addresses import SimulatedAddresses
from bayplan.apiserver.subresources import SUBRESOURCES
from bayplan.apiserver.upkeep import Upkeep
from bayplan.apiserver.verbs import create, delete, patch, read, update
from bayplan.apiserver.writes.options import check_write_options
from bayplan.apiserver.writes.submitting import SubmittedRequest, may_submit, submit
from bayplan.store.interface import Store
from bayplan.support.clock import Clock
from bayplan.support.metrics import Registry
from bayplan.support.randomness import Randomness

if TYPE_CHECKING:
    from bayplan.apiserver.audit.auditor import Auditor

logger = logging.getLogger(__name__)

_RESTORED_EVERY = _FORGOTTEN_EVERY = 60.0
_REPAIRED_EVERY = 180.0
_PUBLISHED_EVERY = 10.0
"""Seconds, as in Kubernetes."""


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
        token_keys: TokenKeys | None = None,
    ) -> None:
        settings = settings or ApiServerSettings()
        if settings.runtime_config:
            kinds = KindTable((*kinds, *optional_kinds(settings.runtime_config)))
        kinds = KindTable(kinds)  # one that may grow
        objects = ObjectStore(store, kinds)
        registry = metrics or Registry()
        issuer = build_issuer(settings, token_keys or TokenKeys(make_signing_key))
        accounts = ServiceAccountTokens(issuer, objects, kinds, clock.now)
        joining = BootstrapTokens(objects, kinds, clock.now, issuer.audiences)
        objects.max_object_bytes = settings.max_object_bytes
        simulated = SimulatedAddresses(objects, kinds)
        self.context = Context(
            settings=settings,
            kinds=kinds,
            objects=objects,
            admission=build_chain(
                settings.enable_admission_plugins, settings.disable_admission_plugins, settings.admission_configuration
            ),
            authenticator=Authenticator(audiences=accounts.issuer.audiences, sources=[accounts.user, joining.user]),
            service_accounts=accounts,
            authorizer=build_authorizer(
                ("AlwaysDeny",) if settings.authorization.config_file else settings.authorization_modes,
                objects,
                kinds,
                registry,
            ),
            allocators=Allocators(
                settings.service_cluster_ip_range.split(","),
                settings.service_node_port_range,
                objects=objects,
                kinds=kinds,
                clock=clock,
                randomness=randomness,
            ),
            clock=clock,
            randomness=randomness,
            simulated=simulated,
            services=ServiceRoutes(objects, kinds, simulated, Forwards(settings.forwards), randomness),
            aggregated=AggregatedApis(objects, kinds),
        )
        self.metrics = self.context.metrics = registry
        self.measured = RequestMetrics(self.metrics, objects)
        self.ready = False
        """Whether the store is open and what every cluster has is published."""
        self.stopping = False
        """Whether the server has been told to stop: it is not ready any more, and goes on answering until `close`."""
        self.address = "kubernetes.default.svc"
        """Host and port under which clients find this server."""
        self.interceptor: Callable[[Call], Awaitable[None]] | None = None
        """Sees every request on a resource first; it may take its time, and refuse with ApiError. For faults in tests."""
        self.further_metrics: Callable[[], Awaitable[bytes]] | None = None
        """What `/metrics` shows besides `metrics`, in the same form: families of other names."""
        self.unfinished = set(START)
        """Steps of the start that are still to be made (see `health`)."""
        self.auditor: Auditor | None = None
        """Records requests; None if there is no audit log. The server closes it."""
        self.gate: Gate | None = None
        """Decides which requests are worked on at once, by priority and fairness; None if that is off, or the server is not open."""
        self._paths = PermittedPaths(self.context)
        self._nonresource = NonResource(self)
        self._upkeep = Upkeep(self.context)
        self._published: tuple[str, int] | None = None
        """The address to which the `kubernetes` service leads."""

    async def open(self) -> None:
        """Read the store and publish bootstrap objects. Raises what the store raises."""
        objects = self.context.objects
        await objects.open()
        self.unfinished.discard(CACHES)
        await self._upkeep.open()
        self.unfinished.discard(DEFINITIONS)
        objects.report_unknown()
        await self.context.allocators.open()
        self.unfinished.discard(ALLOCATORS)
        await publish_beside_others(self.context)
        self.unfinished.discard(BOOTSTRAP)
        self.gate = open_gate(self.context)
        self._upkeep.start()
        if self.gate is not None:
            self._upkeep.keep("FlowControl", GateConfiguration(self.context, self.gate))
            self._upkeep.repeat("concurrency limits", ADJUSTMENT_SECONDS, self.gate.keep_adjusted)
        self._upkeep.repeat("restore", _RESTORED_EVERY, Restorer(self.context).restore)
        if objects.is_shared:
            self._upkeep.repeat("allocations", _REPAIRED_EVERY, self.context.allocators.repair)
        self._upkeep.repeat("history", _FORGOTTEN_EVERY, objects.forget_history)
        self.unfinished.discard(TASKS)
        self.ready = True

    def keep_running(self, name: str, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task as long as the server runs, again if it fails."""
        self._upkeep.keep_running(name, start)

    @property
    def task_failures(self) -> Mapping[str, str]:
        """Why tasks of the server do not run at the moment, by name."""
        return self._upkeep.failures

    async def publish_address(self, ip: str, port: int) -> None:
        """Let the `kubernetes` service lead to this address, and see to it that it does as long as the server runs. To be called once."""
        self.address = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
        self.unfinished.add(SERVICE)
        await publish_service(self.context, ip, port)
        self.unfinished.discard(SERVICE)
        self._published = (ip, port)
        self._upkeep.repeat("service", _PUBLISHED_EVERY, partial(restore_service, self.context, ip, port))

    async def close(self) -> None:
        """Stop answering: watches end, the store is flushed and closed."""
        self.ready, self.stopping = False, True
        await self._upkeep.close()
        if self._published is not None:
            with suppress(ApiError):
                await withdraw_service(self.context, *self._published)
        if self.context.webhook_sender is not None:
            await self.context.webhook_sender.close()
        await self.context.objects.close()
        if self.auditor is not None:
            await self.auditor.close()

    async def handle(self, request: Request) -> Response:
        """Answer one request; errors become `Status` answers."""
        auditor = self.auditor
        response = await (self._handle(request) if auditor is None else auditor.answer(request, self._handle))
        if request.warning:
            response.warnings = (request.warning, *response.warnings)
        return response

    async def _handle(self, request: Request) -> Response:
        """The answer, once the gate lets the request in."""
        gate = self.gate
        if gate is None:
            return await self._serve(request)
        if request.impersonation is not None:
            with suppress(ApiError):  # it is refused again when it is served
                await decided(self._paths.impersonate, request)
        admission = gate.enter(request)
        if admission is None:
            return await self._serve(request)
        if not admission.is_executing and not await gate.wait(admission):
            response = gate.refusal(admission)
            self.measured.record_rejected(request, _path_of(self.context.kinds, request), response)
            return response
        served = None
        try:
            served = await self._serve(request)
        finally:
            if served is None or served.relay is None or request.info.is_long_running:
                gate.leave(admission)
            else:
                served.when_relayed = partial(gate.leave, admission)
        served.flow = admission.flow.identity
        return served

    async def _serve(self, request: Request) -> Response:
        clock = self.context.clock
        started = clock.now()
        path = None
        try:
            asks = self.context.authorizer.asks_webhooks
            path = await self._paths.find_waiting(request) if asks else self._paths.find(request)
            if len(request.body) > self.context.settings.max_request_bytes:
                raise request_too_large(self.context.settings.max_request_bytes)
            if request.query:
                check_timeout(request)
            if path is None:
                response = self._aggregated(request) or await self._nonresource.handle(request)
            else:
                response = await self._answer(Call.of(self.context, request, path))
        except ApiError as error:
            response = refusal(request, error)
        except RecursionError:  # only what clients send can be nested that deeply
            response = refusal(request, bad_request("exceeded max depth"))
        except UnicodeDecodeError as error:  # only what clients send may be no text
            response = refusal(request, bad_request(f"error decoding: {error}"))
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            response = error_response(internal_error(f"{type(error).__name__}: {error}"))
            if request.audit is not None:
                request.audit.panic = f"{type(error).__name__}: {error}"
        self.measured.record(request, path, response, clock.now() - started)
        if response.watcher is not None and path is not None:
            self._measure_watch(request, path, response.watcher)
        return response

    def submit(self, request: Request) -> PendingResponse | None:
        """`handle` for clients that send several requests at once and do not read the answers: the write is submitted when this returns.

        It is certain to succeed unless the store fails. None if that cannot be known without waiting.
        """
        if (
            self.context.objects.is_shared
            or self.context.authorizer.asks_webhooks
            or not may_submit(request)
            or self.auditor is not None
            or self.interceptor is not None
        ):
            return None
        started = self.context.clock.now()
        admission = self.gate.enter_at_once(request) if self.gate is not None else None
        if admission is None and self.gate is not None:
            return None
        submitted = None
        try:
            path = self._paths.find(request)
            if path is not None:
                submitted = submit(Call.of(self.context, request, path))
        except ApiError:
            pass  # the slow path answers it
        finally:
            if submitted is None:
                self._leave(admission)
        if submitted is None or path is None:
            return None
        respond = partial(self._respond, request, path, submitted, started, admission)
        return PendingResponse(submitted.write.committed, respond)

    def _respond(
        self,
        request: Request,
        path: ResourcePath,
        submitted: SubmittedRequest,
        started: float,
        admission: Admission | None,
    ) -> Response:
        """The response to a request whose write is committed, or has failed. started: when it came."""
        self._leave(admission)
        problem = submitted.write.problem
        response = _SUCCESSES[submitted.code] if problem is None else refusal(request, problem)
        self.measured.record(request, path, response, self.context.clock.now() - started)
        return response

    def _leave(self, admission: Admission | None) -> None:
        """A request that the gate let in is answered."""
        if self.gate is not None and admission is not None:
            self.gate.leave(admission)

    def _measure_watch(self, request: Request, path: ResourcePath, watcher: Watcher) -> None:
        """Count a watch while it runs, and what it sends."""
        running = self.measured.watch_opened(request, path)
        running.inc()
        counts = self.gate.watch_counts if self.gate is not None else None
        counted = counts.opened(request.info, request.query) if counts is not None else None
        watcher.sent = self.measured.watch_events(path.kind)
        forget = watcher.when_closed

        def ended(closed: Watcher) -> None:
            running.dec()
            if counts is not None and counted is not None:
                counts.closed(counted)
            if forget is not None:
                forget(closed)

        watcher.on_close(ended)

    def _aggregated(self, request: Request) -> Response | None:
        """Who answers a request if another server does. Raises ApiError (503) if it is not available."""
        service = self.context.aggregated.find(request.path)
        if service is None:
            return None
        if not is_available(service):
            raise not_available(self.context.aggregated.skip_reason(service))
        return Response(200, relay=relay_to(self.context, service, request.path, request.user))

    async def _answer(self, call: Call) -> Response:
        """Answer a request on a resource; errors carry the warnings that were given before."""
        subresource = call.path.subresource
        form = PLAIN if subresource is not None and subresource.name in STREAMS else call.form
        try:
            if self.interceptor is not None:
                await self.interceptor(call)
            response = await self._resource(call)
            if form.media_type != JSON and response.content_type == JSON and response.relay is None:
                response.body = in_form(response.body, form.media_type)
                response.content_type = form.media_type
            return response
        except ApiError as error:
            response = refusal(call.request, error)
            response.warnings = call.warnings
            return response

    async def _resource(self, call: Call) -> Response:
        path, request = call.path, call.request
        if self.context.objects.is_shared and call.kind.is_stored and request.query.get("resourceVersion") != "0":
            await self.context.objects.catch_up()  # what another server has written before this request came
        if path.kind.is_custom:
            settled = settled_path(request, path)
            if settled is None:
                return page_not_found()
            call.path = path = settled
        elif path.subresource is None:
            _check_routed(request.method, path)
        verb = path.verb if path.subresource is None else ""
        warning = deprecation_of(call.kind)
        if warning and (verb in call.kind.verbs or verb in ("", "watch")):
            call.warnings.append(warning)
            if request.audit is not None:
                request.audit.annotate("k8s.io/deprecated", "true")
        if path.subresource is not None:
            if path.subresource.name not in CONNECTIONS:
                check_write_options(path.verb, request.query)
            return await SUBRESOURCES.handle(call)
        if verb not in call.kind.verbs:
            if verb == "watch" and "list" in call.kind.verbs:
                raise verb_not_supported("watch", call.kind)
            raise method_not_allowed()
        check_write_options(path.verb, request.query)
        if not call.kind.is_stored:
            return await SUBRESOURCES.handle_virtual(call)
        if verb == "watch":
            return read.watch(call)
        if verb == "get":
            return await read.get_converted(call) if call.kind.asks_webhook else read.get(call)
        return await _VERBS[verb](call)


_SUCCESSES = {code: Response(code) for code in (200, 201)}
"""Responses that clients do not read."""


class PendingResponse(NamedTuple):
    """The response to a request whose write is submitted."""

    committed: asyncio.Future[int]
    """Done when the response is there."""
    response: Callable[[], Response]
    """The response; to be called once."""


def _check_routed(method: str, path: ResourcePath) -> None:
    """A built-in resource has a route for this method at this path. Raises ApiError (405)."""
    verb, on_object = path.verb, bool(path.name)
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


def _path_of(kinds: KindTable, request: Request) -> ResourcePath | None:
    """The resource of a request; None if there is none."""
    try:
        return resolve(kinds, request.info)
    except ApiError:
        return None


def refusal(request: Request, error: ApiError) -> Response:
    """An error as an answer in the form that the client takes; indented JSON if it has none of the forms that the client takes, such as a Table."""
    try:
        form = negotiate(request.accept)
    except ApiError:
        form = None
    if form is not None and not form.convert_to:
        return error_response(error, form)
    response = error_response(error)
    response.body = msgspec.json.format(response.body, indent=2)
    response.is_final = True
    return response


def error_response(error: ApiError, form: Form = PLAIN) -> Response:
    """An error as an answer, in the media type that the client asked for."""
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    body = msgspec.json.encode(error.status)
    if form.media_type == JSON:
        return Response(error.code, body, headers=headers)
    return Response(error.code, in_form(body, form.media_type), form.media_type, headers)
