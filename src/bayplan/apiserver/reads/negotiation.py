"""What form an answer takes: the media type and, for Tables and metadata-only answers, the kind that the client asked for.

Source: `munnerz/goautoneg`, apiserver's `endpoints/handlers/negotiation`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bayplan.api.errors import ApiError, failure, not_acceptable
from bayplan.support.memory.memo import memoized

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
OFFERED = (JSON, YAML, PROTOBUF)
LOGS = ("text/plain", *OFFERED)
STREAMS = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
META_KINDS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
META_VERSIONS = ("v1", "v1beta1")
"""Versions of `meta.k8s.io` that these kinds have; they look alike."""


@dataclass(frozen=True, slots=True)
class Form:
    """The negotiated form of an answer."""

    media_type: str = JSON
    convert_to: str = ""
    """`Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`; "" for the object as it is."""
    version: str = "v1"
    """Of that kind."""


PLAIN = Form()


@memoized(512)
def negotiate(accept: str, *, is_list: bool = False) -> Form:
    """The first of the wanted forms that can be given. Raises ApiError (406) if none can.

    As in Kubernetes there are two looks. The router asks whether the client names a type that the route produces, which `application/*` does not; lists can be
    streamed, so their routes produce more. Then the serializer chooses.
    """
    check_produced(accept, (*OFFERED, *STREAMS) if is_list else OFFERED)
    return _negotiate(accept, OFFERED)


@memoized(512)
def negotiate_custom(accept: str) -> Form:
    """The same for custom resources, which have no routes of their own and no protobuf form."""
    return _negotiate(accept, (JSON, YAML))


@memoized(512)
def negotiate_log(accept: str) -> Form:
    """The same for logs: their route produces text as well, which the serializer does not know."""
    check_produced(accept, LOGS)
    return _negotiate(accept, OFFERED)


@memoized(512)
def negotiate_error(accept: str) -> Form | None:
    """The form of an error, which is never that of another kind: clauses that ask for one are passed over. None if no other clause can be followed."""
    try:
        return _negotiate(accept, OFFERED, is_plain=True)
    except ApiError:
        return None


@memoized(512)
def negotiate_document(accept: str) -> str:
    """The media type of a document that has one form only, such as those of discovery: clauses that ask for another are passed over. Raises ApiError (406)."""
    return _negotiate(accept, OFFERED, is_plain=True).media_type


def has_form(clause: str, name: str) -> bool:
    """Whether a clause of what a client takes asks for objects in another form, such as `Table`."""
    return any(one.parameters.get("as") == name for one in clauses_by_quality(clause))


def first_acceptable(clauses: Sequence[Clause], offered: Sequence[str]) -> str | None:
    """The offered media type that a client wants most, of equal ones the first that is offered; None if it takes none."""
    for clause in clauses:
        for one in offered:
            kind, _, rest = one.partition("/")
            if clause.kind in (kind, "*") and clause.subtype in (rest, "*"):
                return one
    return None


def check_produced(accept: str, produced: Sequence[str]) -> None:
    """Whether a client takes one of the types of a route. Raises ApiError (406)."""
    types = (clause.partition(";")[0].strip(" ") for clause in accept.removesuffix(",").split(","))
    if not accept or not {"*/*", *produced}.isdisjoint(types):
        return
    raise failure(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {', '.join(produced)}")


def _negotiate(accept: str, plain_types: Collection[str], *, is_plain: bool = False) -> Form:
    """plain_types: those in which objects can be shown as they are. is_plain: whether there is no other way to show them."""
    if not accept or accept in (JSON, "*/*"):
        return PLAIN
    for clause in clauses_by_quality(accept):
        for media_type in OFFERED:
            if clause.media_type not in (media_type, "application/*", "*/*"):
                continue
            found = _form(clause.parameters, media_type, plain_types, is_plain=is_plain)
            if found is not None:
                return found
    raise not_acceptable(OFFERED)


def _form(parameters: dict[str, str], media_type: str, plain_types: Collection[str], *, is_plain: bool) -> Form | None:
    """What a clause with these parameters means for a type; None if it does not go with it."""
    stream, server_version = parameters.get("stream"), parameters.get("sv")
    if (stream and (media_type == YAML or stream != "watch")) or (
        server_version and (is_plain or server_version != "v1")
    ):
        return None
    if _CONVERSION.isdisjoint(parameters):
        return Form(media_type) if media_type in plain_types else None
    wanted, group, version = (parameters.get(name, "") for name in ("as", "g", "v"))
    is_known = wanted in META_KINDS and group == "meta.k8s.io" and version in META_VERSIONS
    if is_plain or not is_known or (wanted, media_type) == ("Table", PROTOBUF):
        return None
    return Form(media_type, wanted, version)


_CONVERSION: Final = frozenset(("as", "g", "v"))
"""Parameters of which each asks for another kind of object."""
_INSERTED: Final = 12
"""Up to so many clauses Go's sort inserts one after the other; more are sorted in another way, also there."""
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


class Clause(NamedTuple):
    """A media type that a client takes, spelled as it spells it."""

    kind: str
    """What stands before the slash, or `*`."""
    subtype: str
    quality: float
    parameters: dict[str, str]

    @property
    def media_type(self) -> str:
        return f"{self.kind}/{self.subtype}"

    def goes_before(self, other: Clause) -> bool:
        """Whether a client wants this one more, as Go's library has it, for which that is no order."""
        return (
            self.quality > other.quality
            or (self.kind != "*" and other.kind == "*")
            or (self.subtype != "*" and other.subtype == "*")
        )


def clauses_by_quality(accept: str) -> list[Clause]:
    """What a client takes, the most wanted first; what is no media type is passed over."""
    clauses = [clause for part in accept.split(",") if (clause := _parse(part)) is not None]
    if len(clauses) > _INSERTED:
        return sorted(clauses, key=lambda one: (-one.quality, one.kind == "*", one.subtype == "*"))
    found: list[Clause] = []
    for clause in clauses:
        at = len(found)
        while at and clause.goes_before(found[at - 1]):
            at -= 1
        found.insert(at, clause)
    return found


def _parse(text: str) -> Clause | None:
    media_type, *parts = text.strip(" ").split(";")
    kind, _, subtype = media_type.partition("/")
    kind = kind.strip(" ")
    if not subtype and kind != "*":
        return None
    subtype, _, more = subtype.partition("/") if subtype else ("*", "", "")
    if more:
        return None
    quality, parameters = 1.0, {}
    for part in parts:
        name, _, value = part.partition("=")
        value, _, more = value.partition("=")
        if more or not value:
            continue
        if (name := name.strip(" ")) == "q":
            quality = float(value) if _NUMBER.fullmatch(value) else 0.0
        else:
            parameters[name] = value.strip(" ")
    return Clause(kind, subtype.strip(" "), quality, parameters)


def negotiate_stream(accept: str) -> Form:
    """The form of a watch; `stream=watch` may be said or left out. Raises ApiError (406) for types that cannot be streamed."""
    form = negotiate(accept, is_list=True)
    if form.media_type == YAML:
        raise not_acceptable(STREAMS)
    return form
