"""The door to the audit log: decides how much of a request is recorded, and hands an event of each stage to the backends.

Source: `k8s.io/apiserver/pkg/endpoints/filters/audit.go` and `authn_audit.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bayplan.api.errors import ApiError, quoted
from bayplan.apiserver.audit.backend import Backend
from bayplan.apiserver.audit.events import Event, Status, printable
from bayplan.apiserver.audit.metrics import measure_audit
from bayplan.apiserver.audit.objects import answered_object, answered_status, sent_object, without_managed_fields
from bayplan.apiserver.audit.policy import (
    PANIC,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    Level,
    Policy,
)
from bayplan.apiserver.audit.record import AuditRecord, Trail
from bayplan.apiserver.authorization.attributes import Attributes, attributes_of
from bayplan.apiserver.context import Context
from bayplan.apiserver.reads.watching import Watcher
from bayplan.apiserver.requests import Request, Response, User, resolve
from bayplan.support.metrics.instruments import Registry

Serve = Callable[[Request], Awaitable[Response]]
_NOBODY = User("")
_TEXT = "text/plain; charset=utf-8"
_BAD_REQUEST = 400


class Auditor:
    """Records what requests do."""

    def __init__(self, policy: Policy, backends: Sequence[Backend], context: Context, metrics: Registry) -> None:
        self._policy = policy
        self._backends = tuple(backends)
        self._context = context
        self._is_closed = False
        self._events, self._rejected = measure_audit(metrics)
        levels = metrics.counter(
            "apiserver_audit_level_total", "Counter of policy levels for audit events (1 per request).", ("level",)
        )
        self._levels = [levels.labels(level.word) for level in Level]

    async def answer(self, request: Request, serve: Serve) -> Response:
        """The answer that `serve` gives, recorded as far as the policy wants it."""
        audit_id = self._id_of(request)
        asked = attributes_of(request)
        record = self._record_of(request, asked, audit_id)
        if record is None:
            response = await serve(request)
        else:
            request.audit = record
            response = await self._answer(request, record, serve, is_long_running=request.info.is_long_running)
        response.audit_id = audit_id
        return response

    async def refused(self, request: Request, response: Response) -> Response:
        """Record a request that is refused before the server sees it."""

        async def serve(_request: Request) -> Response:
            return response

        return await self.answer(request, serve)

    async def unauthenticated(self, request: Request, response: Response) -> Response:
        """Record a request of which nobody knows who sent it: in one event, without a user."""
        response.audit_id = self._id_of(request)
        request.user = _NOBODY
        record = self._record_of(request, attributes_of(request), response.audit_id)
        if record is not None:
            self._note_answer(record, response)
            await self._process(record, RESPONSE_STARTED)
        return response

    async def close(self) -> None:
        """Let the backends finish; what happens later is not recorded."""
        self._is_closed = True
        await asyncio.gather(*(backend.close() for backend in self._backends))

    def _id_of(self, request: Request) -> str:
        origin = request.origin
        return printable(origin.audit_id if origin is not None else "") or self._context.randomness.uuid4()

    def _record_of(self, request: Request, asked: Attributes, audit_id: str) -> AuditRecord | None:
        decision = self._policy.decide(asked)
        self._levels[decision.level].value += 1
        if decision.level is Level.NONE:
            return None
        return AuditRecord(decision, request, asked, audit_id, self._context.clock.now())

    async def _answer(self, request: Request, record: AuditRecord, serve: Serve, *, is_long_running: bool) -> Response:
        if not await self._process(record, REQUEST_RECEIVED):
            self._rejected.inc()
            return _not_stored(record)
        trail = Trail(record, self._emit, is_long_running=is_long_running)
        try:
            response = await serve(request)
        except BaseException:  # the client has gone
            trail.ended()
            raise
        if record.panic:
            message = f"APIServer panic'd: {record.panic}"
            record.status = Status(status="Failure", message=message, reason="InternalError", code=500)
            await self._process(record, PANIC)
        elif response.watcher is not None:
            trail.begun(response.code)
            _when_closed(response.watcher, trail.ended)
        else:
            self._note_objects(record, request, response)
            if response.relay is not None:
                response.trail = trail
                return response
            self._note_answer(record, response)
            if is_long_running:
                await self._process(record, RESPONSE_STARTED)
            await self._process(record, RESPONSE_COMPLETE)
        return response

    def _note_answer(self, record: AuditRecord, response: Response) -> None:
        """Status and object of an answer."""
        kinds = self._context.kinds
        record.status = Status.of(response.code, answered_status(response, kinds))
        if record.level is Level.REQUEST_RESPONSE:
            data = answered_object(response, kinds)
            if data is not None and record.decision.omits_managed_fields:
                data = without_managed_fields(data)
            record.response_object(data)

    def _note_objects(self, record: AuditRecord, request: Request, response: Response) -> None:
        """What a request that was permitted has sent."""
        is_strict = request.query.get("fieldValidation") == "Strict"
        if not (request.body and record.is_allowed) or (response.code == _BAD_REQUEST and is_strict):
            return
        try:
            path = resolve(self._context.kinds, request.info)
        except ApiError:
            return  # there is no such resource
        if path is None:
            return
        whole = record.has_objects
        sent = sent_object(self._context, request, path, whole=whole)
        if sent is None:
            return
        record.name_object(sent.name, sent.namespace, sent.uid, sent.resource_version)
        if whole:
            strips = record.decision.omits_managed_fields and path.verb != "patch"
            record.request_object(without_managed_fields(sent.data) if strips else sent.data)

    async def _process(self, record: AuditRecord, stage: str) -> bool:
        """Hand over the event of a stage. Returns whether everybody took it who must."""
        event = self._event(record, stage)
        if event is None:
            return True
        taken = [one for backend in self._backends if (one := backend.process(event)) is not None]
        return all(await asyncio.gather(*taken)) if taken else True

    def _emit(self, record: AuditRecord, stage: str) -> None:
        """Hand over the event of a stage for which nobody waits."""
        event = self._event(record, stage)
        if event is not None:
            for backend in self._backends:
                backend.process(event)

    def _event(self, record: AuditRecord, stage: str) -> Event | None:
        if self._is_closed or not record.wants(stage):
            return None
        self._events.value += 1
        return record.event(stage, self._context.clock.now())


def _when_closed(watcher: Watcher, ended: Callable[[], None]) -> None:
    """Call back when a watch ends, besides who is called already."""
    before = watcher.when_closed

    def closed(one: Watcher) -> None:
        if before is not None:
            before(one)
        ended()

    watcher.on_close(closed)


def _not_stored(record: AuditRecord) -> Response:
    text = f"Internal Server Error: {quoted(record.uri)}: failed to store audit event\n"
    return Response(500, text.encode(), _TEXT, {"X-Content-Type-Options": "nosniff"}, is_final=True)
