"""What is recorded of a request at one stage, and how it is written. Pure.

Source: `audit.k8s.io/v1` `Event` and `EventList`; `k8s.io/apiserver/pkg/audit/format.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bayplan.api.errors import quoted
from bayplan.api.json.writing import escaped
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.requests import User

_EVENT = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1",'
_LIST = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['
_LONGEST_USER_AGENT = 1024
_CUT = "...TRUNCATED"


def printable(text: str) -> str:
    """A text without the bytes in a header that were none."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="replace")


def _printable(texts: Sequence[str]) -> Sequence[str]:
    return tuple(map(printable, texts))


class UserInfo(msgspec.Struct, omit_defaults=True, gc=False):
    """Who asks."""

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: dict[str, Sequence[str]] = {}

    @classmethod
    def of(cls, user: User) -> UserInfo:
        """What is known of a user."""
        extra = {printable(key): _printable(user.extra[key]) for key in sorted(user.extra)}
        return cls(printable(user.name), printable(user.uid), _printable(user.groups), extra)


class ObjectReference(msgspec.Struct, omit_defaults=True, rename="camel", gc=False):
    """What a request is about."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    api_version: str = ""
    resource_version: str = ""
    subresource: str = ""

    @classmethod
    def of(cls, asked: Attributes) -> ObjectReference:
        """What a request's path says."""
        return cls(
            resource=printable(asked.resource),
            namespace=printable(asked.namespace),
            name=printable(asked.name),
            api_group=printable(asked.group),
            api_version=printable(asked.version),
            subresource=printable(asked.subresource),
        )


def _empty() -> dict[str, str]:
    return {}


class Status(msgspec.Struct, omit_defaults=True, gc=False):
    """What was answered: a code, and what a Status in the answer says."""

    metadata: dict[str, str] = msgspec.field(default_factory=_empty)
    """Always empty, and always written."""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: dict[str, Any] | None = None
    code: int = 0

    @classmethod
    def of(cls, code: int, tree: Mapping[str, Any] | None) -> Status:
        """That of an answer with a code. tree: the Status in it, None if it is something else."""
        if tree is None:
            return cls(code=code)
        status, message, reason = (tree.get(name) or "" for name in ("status", "message", "reason"))
        return cls(status=status, message=message, reason=reason, details=tree.get("details"), code=code)


class Event(msgspec.Struct, omit_defaults=True, rename="camel", gc=False):
    """One stage of one request. Times are Unix seconds."""

    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    user: UserInfo
    impersonated_user: UserInfo | None = None
    authentication_metadata: dict[str, str] | None = None
    source_ips: Sequence[str] = msgspec.field(name="sourceIPs", default=())
    user_agent: str = ""
    object_ref: ObjectReference | None = None
    response_status: Status | None = None
    request_object: msgspec.Raw | None = None
    response_object: msgspec.Raw | None = None
    request_received_timestamp: str = ""
    stage_timestamp: str = ""
    annotations: dict[str, str] = {}

    @property
    def body(self) -> bytes:
        """As JSON, without saying what it is: as it stands in a list."""
        return escaped(_encode(self))


_encode = msgspec.json.Encoder().encode


def cut(user_agent: str) -> str:
    """A user agent of a length that is bearable."""
    return user_agent if len(user_agent) <= _LONGEST_USER_AGENT else user_agent[:_LONGEST_USER_AGENT] + _CUT


def line(event: Event) -> bytes:
    """An event as a line of JSON."""
    return b"%b%b\n" % (_EVENT, event.body[1:])


def event_list(bodies: Iterable[bytes]) -> bytes:
    """Events, as JSON, in one EventList."""
    return b"%b%b]}\n" % (_LIST, b",".join(bodies))


def legacy_line(event: Event) -> bytes:
    """The old form: some of it in one line of text."""
    user, acting = event.user, event.impersonated_user
    reference = event.object_ref
    shown = {
        "id": event.audit_id,
        "stage": event.stage,
        "ip": event.source_ips[0] if event.source_ips else "<unknown>",
        "method": event.verb,
        "user": user.username or "<none>",
        "groups": _listed(user.groups) if user.username and user.groups else "<none>",
        "as": acting.username if acting is not None else "<self>",
        "asgroups": _listed(acting.groups) if acting is not None and acting.groups else "<lookup>",
        "user-agent": event.user_agent,
        "namespace": (reference.namespace if reference is not None else "") or "<none>",
        "uri": event.request_uri,
    }
    parts = " ".join(f"{name}={quoted(value)}" for name, value in shown.items())
    code = event.response_status.code if event.response_status is not None else "<deferred>"
    return f'{_shortened(event.request_received_timestamp)} AUDIT: {parts} response="{code}"\n'.encode()


def _listed(texts: Sequence[str]) -> str:
    return ",".join(map(quoted, texts))


def _shortened(moment: str) -> str:
    """A moment without the zeros at the end of its fraction, as Go's RFC3339Nano has it."""
    return moment.removesuffix("Z").rstrip("0").rstrip(".") + "Z"
