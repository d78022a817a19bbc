"""What form an answer takes: the media type and, for Tables and metadata-only answers, the kind that the client asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.api.errors import ApiError, failure, not_acceptable
from bayplan.support.memory.memo import memoized

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
OFFERED = (JSON, YAML, PROTOBUF)
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
    check_produced(accept, ("text/plain", *OFFERED))
    return _negotiate(accept, OFFERED)


@memoized(512)
def negotiate_error(accept: str) -> Form | None:
    """The form of an error, which is never that of another kind: clauses that ask for one are passed over. None if no other clause can be followed."""
    plain = ",".join(clause for clause in accept.split(",") if not _parse(clause)[1].get("as"))
    if accept and not plain:
        return None
    try:
        return _negotiate(plain, OFFERED)
    except ApiError:
        return None


@memoized(512)
def negotiate_document(accept: str) -> str:
    """The media type of a document that has one form only, such as those of discovery: clauses that ask for another are passed over. Raises ApiError (406)."""
    plain = ",".join(clause for clause in accept.split(",") if "as" not in _parse(clause)[1])
    if accept and not plain:
        raise not_acceptable(OFFERED)
    return _negotiate(plain, OFFERED).media_type


def has_form(clause: str, name: str) -> bool:
    """Whether a clause of what a client takes asks for objects in another form, such as `Table`."""
    return _parse(clause)[1].get("as") == name


def first_acceptable(accept: str, offered: Sequence[str]) -> str | None:
    """The offered media type that a client wants most, of equal ones the first that is offered; None if it takes none."""
    if not accept:
        return offered[0]
    for clause in _by_quality(accept):
        wanted = _parse(clause)[0]
        kind, _, rest = wanted.partition("/")
        for one in offered:
            if wanted in ("*/*", one.lower()) or (rest == "*" and one.startswith(f"{kind}/")):
                return one
    return None


def check_produced(accept: str, produced: Sequence[str]) -> None:
    """Whether a client takes one of the types of a route. Raises ApiError (406)."""
    if not accept or any(_parse(clause)[0] in ("*/*", *produced) for clause in accept.split(",")):
        return
    raise failure(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {', '.join(produced)}")


def _negotiate(accept: str, plain_types: Sequence[str]) -> Form:
    if not accept or accept in (JSON, "*/*"):
        return PLAIN
    for clause in _by_quality(accept):
        media_type, parameters = _parse(clause)
        if media_type in ("*/*", "application/*"):
            media_type = JSON
        if media_type not in OFFERED:
            continue
        wanted = parameters.get("as", "")
        if not wanted:
            if media_type in plain_types:
                return Form(media_type)
            continue
        version = parameters.get("v")
        is_known = wanted in META_KINDS and parameters.get("g") == "meta.k8s.io" and version in META_VERSIONS
        if version is not None and is_known and (wanted, media_type) != ("Table", PROTOBUF):
            return Form(media_type, wanted, version)
    raise not_acceptable(OFFERED)


def clauses_by_quality(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Media types that a client takes, each with its parameters, the most wanted first."""
    return [_parse(clause) for clause in _by_quality(accept)]


def _by_quality(accept: str) -> list[str]:
    clauses = [clause.strip() for clause in accept.split(",") if clause.strip()]
    return sorted(clauses, key=lambda clause: -_quality(_parse(clause)[1].get("q", "")))


def _quality(text: str) -> float:
    """The weight of a clause; one that is no number counts as none given."""
    try:
        return float(text)
    except ValueError:
        return 1.0


def _parse(clause: str) -> tuple[str, dict[str, str]]:
    media_type, *parts = (part.strip() for part in clause.split(";"))
    parameters = dict(part.split("=", 1) for part in parts if "=" in part)
    return media_type.lower(), parameters


def negotiate_stream(accept: str) -> Form:
    """The form of a watch; `stream=watch` may be said or left out. Raises ApiError (406) for types that cannot be streamed."""
    form = negotiate(accept, is_list=True)
    if form.media_type == YAML:
        raise not_acceptable(STREAMS)
    return form
