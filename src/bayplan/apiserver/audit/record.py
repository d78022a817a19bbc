"""What is recorded of one request while it is answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, urlencode

import msgspec

from bayplan.apiserver.audit.events import Event, ObjectReference, Status, UserInfo, cut, printable
from bayplan.apiserver.audit.policy import REQUEST_RECEIVED, RESPONSE_COMPLETE, RESPONSE_STARTED, Decision, Level
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.requests import Request, Response, User
from bayplan.support.durations import go_duration
from bayplan.support.timestamps import rfc3339_micro

CLOSED_EARLY = Status(status="Success", message="Connection closed early", code=200)
"""The status of a request whose client has gone before there was an answer."""
AUTHORIZATION_DECISION, ALLOW = "authorization.k8s.io/decision", "allow"
_SLOW = 0.5
"""Seconds from which on it is told where the time went."""
_LATENCY = "apiserver.latency.k8s.io/"
_KEY = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_LONGEST_PREFIX, _LONGEST_NAME = 253, 63


class AuditRecord:
    """One request that is recorded."""

    __slots__ = ("_annotations", "_event", "_latencies", "_received", "decision", "panic", "status")

    def __init__(self, decision: Decision, request: Request, asked: Attributes, audit_id: str, received: float) -> None:
        """received: Unix seconds."""
        origin = request.origin
        self.decision = decision
        self.status: Status | None = None
        """What was answered; None as long as nothing was."""
        self.panic = ""
        """What went wrong in the server itself."""
        self._annotations: dict[str, str] = {}
        self._latencies: dict[str, float] = {}
        self._received = received
        self._event = Event(
            level=decision.level.word,
            audit_id=audit_id,
            stage="",
            request_uri=printable(origin.uri) if origin is not None and origin.uri else _uri(request),
            verb=asked.verb,
            user=UserInfo.of(asked.user),
            source_ips=origin.source_ips if origin is not None else _OWN_ADDRESS,
            user_agent=cut(printable(request.user_agent)),
            object_ref=ObjectReference.of(asked) if asked.is_resource else None,
            request_received_timestamp=rfc3339_micro(received),
        )

    @property
    def level(self) -> Level:
        """How much is recorded."""
        return self.decision.level

    @property
    def has_objects(self) -> bool:
        """Whether what was sent is recorded, too."""
        return self.decision.level >= Level.REQUEST

    @property
    def is_allowed(self) -> bool:
        """Whether the request has been permitted."""
        return self._annotations.get(AUTHORIZATION_DECISION) == ALLOW

    def authorized(self, *, allowed: bool, reason: str) -> None:
        """Note what the authorizers say."""
        self.annotate(AUTHORIZATION_DECISION, ALLOW if allowed else "forbid")
        self.annotate("authorization.k8s.io/reason", reason)

    def annotate(self, key: str, value: str) -> None:
        """Note something; what was noted before under the key stays."""
        self._annotations.setdefault(key, value)

    def annotate_admission(self, key: str, value: str) -> None:
        """Note what an admission plugin says; keys that are no qualified names are left out, as in kube-apiserver."""
        prefix, _, name = key.partition("/")
        if _KEY.fullmatch(key) and len(prefix) <= _LONGEST_PREFIX and len(name) <= _LONGEST_NAME:
            self.annotate(key, value)

    def took(self, what: str, seconds: float, combine: Callable[[float, float], float] = float.__add__) -> None:
        """Note how long a part of the work took. combine: of several of the kind."""
        before = self._latencies.get(what)
        self._latencies[what] = seconds if before is None else combine(before, seconds)

    def impersonated(self, user: User, mode: str) -> None:
        """The request is answered as one of somebody else. mode: of constrained impersonation; "" for the old way."""
        self._event.impersonated_user = UserInfo.of(user)
        if mode:
            self._event.authentication_metadata = {"impersonationConstraint": f"impersonate:{mode}"}

    def name_object(self, name: str, namespace: str, uid: str, resource_version: str) -> None:
        """What the object in the request says of itself, where the path does not say it."""
        reference = self._event.object_ref
        if reference is None:
            return
        self._event.object_ref = msgspec.structs.replace(
            reference,
            name=reference.name or name,
            namespace=reference.namespace or namespace,
            uid=reference.uid or uid,
            resource_version=reference.resource_version or resource_version,
        )

    def request_object(self, data: bytes) -> None:
        """The object in the request, as JSON."""
        self._event.request_object = msgspec.Raw(data)

    def response_object(self, data: bytes | None) -> None:
        """The object in the answer, as JSON, if there is one."""
        self._event.response_object = msgspec.Raw(data) if data is not None else None

    @property
    def uri(self) -> str:
        """Path and query as they were sent."""
        return self._event.request_uri

    def wants(self, stage: str) -> bool:
        """Whether there is to be an event of a stage."""
        return stage not in self.decision.omitted

    def event(self, stage: str, now: float) -> Event:
        """The event of a stage. now: Unix seconds."""
        if stage == REQUEST_RECEIVED:
            now = self._received
        elif stage == RESPONSE_COMPLETE and now - self._received > _SLOW:
            self._tell_latencies(now - self._received)
        return msgspec.structs.replace(
            self._event,
            stage=stage,
            stage_timestamp=rfc3339_micro(now),
            response_status=self.status,
            annotations={key: self._annotations[key] for key in sorted(self._annotations)},
        )

    def _tell_latencies(self, total: float) -> None:
        for what, seconds in {**self._latencies, "total": total}.items():
            self.annotate(_LATENCY + what, go_duration(seconds))


_OWN_ADDRESS = ("127.0.0.1",)
"""From where requests come that come from this process."""


class Trail:
    """Told of an answer that goes on after `ApiServer.handle` has returned: a watch, or what somebody else answers."""

    __slots__ = ("_emit", "_has_begun", "_has_ended", "_is_long_running", "_record")

    def __init__(
        self, record: AuditRecord, emit: Callable[[AuditRecord, str], object], *, is_long_running: bool
    ) -> None:
        self._record = record
        self._emit = emit
        self._is_long_running = is_long_running
        self._has_begun = self._has_ended = False

    def begun(self, code: int) -> None:
        """The answer has begun with this status."""
        if self._has_begun:
            return
        self._has_begun = True
        self._record.status = Status(code=code)
        if self._is_long_running:
            self._emit(self._record, RESPONSE_STARTED)

    def refused(self, response: Response) -> None:
        """There is none, but an error of the server's own."""
        self.ended(Status.of(response.code, msgspec.json.decode(response.body)))

    def ended(self, status: Status | None = None) -> None:
        """The answer has ended, or its client has gone. status: of an answer that is complete; by default the one that it began with."""
        if self._has_ended:
            return
        self._has_ended = True
        if not self._has_begun:
            self._record.status = status or CLOSED_EARLY
            if self._is_long_running:
                self._emit(self._record, RESPONSE_STARTED)
        self._emit(self._record, RESPONSE_COMPLETE)


def _uri(request: Request) -> str:
    """What a request would ask for over HTTP."""
    path = quote(request.path, safe="/:@!$&'()*+,;=~")
    return f"{path}?{urlencode(list(request.query.items()))}" if request.query else path
