"""The API server itself: store, caches and verbs behind `handle`. Transports (HTTP, pipe, in-process) call `handle`, `submit` and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bayplan.api.errors import ApiError
from bayplan.api.kinds import DEFAULT_KINDS, KindTable
from bayplan.api.optional_kinds import with_optional
from bayplan.apiserver.admission.chain import build_chain
from bayplan.apiserver.admission.metrics import AdmissionMetrics
from bayplan.apiserver.aggregation.registry import AggregatedApis
from bayplan.apiserver.allocation import Allocators
from bayplan.apiserver.audit.metrics import measure_audit
from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.authentication.bootstrap_tokens import BootstrapTokens
from bayplan.apiserver.authorization.chain import build_authorizer
from bayplan.apiserver.authorization.waiting import decided
from bayplan.apiserver.bootstrap import Restorer, publish_beside_others
from bayplan.apiserver.bootstrap.identity import check_no_other_cluster
from bayplan.apiserver.bootstrap.kubernetes_service import publish_service, restore_service, withdraw_service
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.dispatch import Dispatcher
from bayplan.apiserver.flow_control.configuration import Classification
from bayplan.apiserver.flow_control.gate import Admission, Gate
from bayplan.apiserver.flow_control.loading import GateConfiguration, open_gate
from bayplan.apiserver.flow_control.parameters import ADJUSTMENT_SECONDS
from bayplan.apiserver.health import ALLOCATORS, BOOTSTRAP, CACHES, DEFINITIONS, SERVICE, START, TASKS
from bayplan.apiserver.metric_stability import described
from bayplan.apiserver.nonresource import NonResource
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.refusals import refusal
from bayplan.apiserver.request_metrics import RequestMetrics
from bayplan.apiserver.requests import (
    Request,
    ResourcePath,
    Response,
    resolve,
)
from bayplan.apiserver.routing.forwards import Forwards
from bayplan.apiserver.routing.service_routes import ServiceRoutes
from bayplan.apiserver.service_account_tokens.issuing import build_issuer
from bayplan.apiserver.service_account_tokens.keys import TokenKeys, make_signing_key
from bayplan.apiserver.service_account_tokens.verification import ServiceAccountTokens
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.simulated.addresses import SimulatedAddresses
from bayplan.apiserver.upkeep import Upkeep
from bayplan.apiserver.writes.submitting import SubmittedRequest, may_submit
from bayplan.store.errors import StoreUnavailable
from bayplan.store.interface import Store
from bayplan.support.clock import Clock
from bayplan.support.memory.memo_metrics import memo_metrics
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness

if TYPE_CHECKING:
    from bayplan.apiserver.audit.auditor import Auditor
    from bayplan.apiserver.tracing import Tracing

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
        elsewhere: Mapping[str, Store] | None = None,
    ) -> None:
        """elsewhere: stores of kinds whose objects are not in `store`, by storage prefix."""
        settings = settings or ApiServerSettings()
        if settings.runtime_config:
            kinds = with_optional(kinds, settings.runtime_config, settings.feature_gates)
        kinds = KindTable(kinds)  # one that may grow
        objects = ObjectStore(store, kinds, elsewhere)
        registry = metrics or Registry()
        issuer = build_issuer(settings, token_keys or TokenKeys(make_signing_key))
        accounts = ServiceAccountTokens(issuer, objects, kinds, clock.now, registry)
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
        registry.describe = described
        self.context.admission_metrics = AdmissionMetrics(registry)
        measure_audit(registry)
        self.measured = RequestMetrics(self.metrics, objects)
        self.ready = False
        """Whether the store is open and what every cluster has is published."""
        self.stopping = False
        """Whether the server has been told to stop: it is not ready any more, and goes on answering until `close`."""
        self.address = "kubernetes.default.svc"
        """Host and port under which clients find this server."""
        self.before_metrics: list[Callable[[], Awaitable[None]]] = []
        """What brings metrics up to date before they are shown."""
        self.further_metrics: Callable[[], Awaitable[bytes]] | None = None
        """What `/metrics` shows besides `metrics`, in the same form: families of other names."""
        self.what_if: Callable[[str, bytes, str, bool], Awaitable[tuple[int, bytes]]] | None = None
        """Answers questions to the scheduler by method, body, namespace and whether to explain: status and JSON; None if no scheduler belongs to the server."""
        self.gathered_metrics: Callable[[], Awaitable[bytes]] | None = None
        """What `/metrics` shows instead, if several processes serve the same address: the metrics of all."""
        self.unfinished = set(START)
        """Steps of the start that are still to be made (see `health`)."""
        self.auditor: Auditor | None = None
        """Records requests; None if there is no audit log. The server closes it."""
        self.gate: Gate | None = None
        """Decides which requests are worked on at once, by priority and fairness; None if that is off, or the server is not open."""
        self._dispatcher = Dispatcher(self.context, NonResource(self), self.measured)
        self._upkeep = Upkeep(self.context)
        self._published: tuple[str, int] | None = None
        """The address to which the `kubernetes` service leads."""

    async def open(self) -> None:
        """Read the store and publish bootstrap objects. Raises what the store raises."""
        objects = self.context.objects
        await objects.open()
        if objects.is_shared:
            try:
                check_no_other_cluster(self.context)
            except StoreUnavailable:
                await objects.close()
                raise
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
            self._dispatcher.watch_counts = self.gate.watch_counts
            self._upkeep.keep("FlowControl", GateConfiguration(self.context, self.gate))
            self._upkeep.repeat("concurrency limits", ADJUSTMENT_SECONDS, self.gate.keep_adjusted)
        self._upkeep.repeat("restore", _RESTORED_EVERY, Restorer(self.context).restore)
        if objects.is_shared:
            self._upkeep.repeat("allocations", _REPAIRED_EVERY, self.context.allocators.repair)
        self._upkeep.repeat("history", _FORGOTTEN_EVERY, objects.forget_history)
        self.unfinished.discard(TASKS)
        self.ready = True

    @property
    def interceptor(self) -> Callable[[Call], Awaitable[None]] | None:
        """Sees every request on a resource first; it may take its time, and refuse with ApiError. For faults in tests."""
        return self._dispatcher.interceptor

    @interceptor.setter
    def interceptor(self, interceptor: Callable[[Call], Awaitable[None]] | None) -> None:
        self._dispatcher.interceptor = interceptor

    def keep_running(self, name: str, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task as long as the server runs, again if it fails."""
        self._upkeep.keep_running(name, start)

    @property
    def task_failures(self) -> Mapping[str, str]:
        """Why tasks of the server do not run at the moment, by name."""
        return self._upkeep.failures

    def name_address(self, ip: str, port: int) -> None:
        """Say under which address clients find this server."""
        self.address = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"

    async def publish_address(self, ip: str, port: int) -> None:
        """Let the `kubernetes` service lead to this address, and see to it that it does as long as the server runs. To be called once."""
        self.name_address(ip, port)
        self.unfinished.add(SERVICE)
        await publish_service(self.context, ip, port)
        self.unfinished.discard(SERVICE)
        self._published = (ip, port)
        self._upkeep.repeat("service", _PUBLISHED_EVERY, partial(restore_service, self.context, ip, port))

    async def own_metrics(self) -> bytes:
        """The metrics of this server and its process in Prometheus' text format."""
        if self.gate is not None:
            self.gate.update_metrics()
        for update in self.before_metrics:
            await update()
        further = await self.further_metrics() if self.further_metrics is not None else b""
        return self.metrics.render() + memo_metrics() + further

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

    def handle(self, request: Request) -> Coroutine[Any, Any, Response]:
        """Answer one request; errors become `Status` answers."""
        if self.auditor is None and not request.warning and self.context.tracing is None:
            return self._handle(request)
        return (
            self._handle_noted(request) if self.context.tracing is None else self._traced(request, self.context.tracing)
        )

    async def _traced(self, request: Request, tracing: Tracing) -> Response:
        """The answer to a request that has a span."""
        with tracing.request(request) as answered:
            response = await self._handle_noted(request)
            answered(response.code)
        return response

    async def _handle_noted(self, request: Request) -> Response:
        """The answer to a request that is put into the audit log, or whose credentials are odd."""
        auditor = self.auditor
        response = await (self._handle(request) if auditor is None else auditor.answer(request, self._handle))
        if request.warning:
            response.warnings = (request.warning, *response.warnings)
        return response

    async def _handle(self, request: Request) -> Response:
        """The answer, once the gate lets the request in."""
        gate = self.gate
        if gate is None:
            return await self._dispatcher.serve(request)
        if request.impersonation is not None:
            with suppress(ApiError):  # it is refused again when it is served
                await decided(self._dispatcher.paths.impersonate, request)
        admission = gate.enter(request)
        if admission is None:
            return await self._dispatcher.serve(request)
        if not admission.is_executing and not await gate.wait(admission):
            await gate.pace_refusal(admission)
            response = gate.refusal(admission)
            self.measured.record_rejected(request, _path_of(self.context.kinds, request), response)
            return response
        try:
            response = await gate.paced(admission, self._dispatcher.serve(request))
        except BaseException:
            gate.leave(admission)
            raise
        self._let_out(gate, admission, response)
        return response

    @staticmethod
    def _let_out(gate: Gate, admission: Admission, response: Response) -> None:
        """A request that the gate let in has its response, which another server may still have to give."""
        response.flow = admission.flow.identity
        if response.relay is None or admission.details.info.is_long_running:
            gate.leave(admission)
        else:
            response.when_relayed = partial(gate.leave, admission)

    def handle_at_once(self, request: Request) -> Response | None:
        """`handle` for a get that waits for nothing; None if the request is another one, or has to wait: then nothing has happened."""
        gate = self.gate
        if (
            gate is None
            or self.auditor is not None
            or self.context.tracing is not None
            or request.impersonation is not None
            or not self._dispatcher.gets_at_once(request)
        ):
            return None
        classification = gate.classify(request)
        if classification.is_exempt:
            response = self._get_exempt(gate, classification, request)
        else:
            admission = gate.enter_at_once(request, classification)
            if admission is None:
                return None
            response = self._dispatcher.get(request)
            self._let_out(gate, admission, response)
        if request.warning:
            response.warnings = (request.warning, *response.warnings)
        return response

    def _get_exempt(self, gate: Gate, classification: Classification, request: Request) -> Response:
        """The answer to a get that always executes: it is not let in and out unless another server gives the answer."""
        started = self.context.clock.monotonic()
        response = self._dispatcher.get(request)
        if response.relay is None:
            gate.note_exempt_get(classification, started)
            response.flow = classification.identity
        elif (admission := gate.enter(request)) is not None:
            self._let_out(gate, admission, response)
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
            or self.context.tracing is not None
            or self.interceptor is not None
        ):
            return None
        started = self.context.clock.now()
        gate = self.gate
        admission = gate.enter_at_once(request, gate.classify(request)) if gate is not None else None
        if admission is None and gate is not None:
            return None
        submitted = None
        try:
            submitted = self._dispatcher.submit(request)
        finally:
            if submitted is None:
                self._leave(admission)
        if submitted is None:
            return None
        path, pending = submitted
        respond = partial(self._respond, request, path, pending, started, admission)
        return PendingResponse(pending.write.committed, respond)

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


_SUCCESSES = {code: Response(code) for code in (200, 201)}
"""Responses that clients do not read."""


class PendingResponse(NamedTuple):
    """The response to a request whose write is submitted."""

    committed: asyncio.Future[int]
    """Done when the response is there."""
    response: Callable[[], Response]
    """The response; to be called once."""


def _path_of(kinds: KindTable, request: Request) -> ResourcePath | None:
    """The resource of a request; None if there is none."""
    try:
        return resolve(kinds, request.info)
    except ApiError:
        return None
