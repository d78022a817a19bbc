"""The bodies of requests: what they hold as JSON, as objects, and why some are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bayplan.api import protobuf
from bayplan.api.codec import (
    MAX_FIELD_ERRORS,
    DecodeError,
    decode_reporting,
    encode,
    field_problems,
    may_repeat_fields,
)
from bayplan.api.conversions.registered_versions import is_registered
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.strategy import type_errors
from bayplan.api.errors import ApiError, bad_request, invalid_object, quoted, unsupported_media_type
from bayplan.api.json.nesting import EXCEEDED, is_too_deep
from bayplan.api.json.syntax import has_valid_texts, repaired
from bayplan.api.kinds import Kind, KindTable
from bayplan.api.schema import definition_of, definitions
from bayplan.apiserver.reads.negotiation import OFFERED
from bayplan.apiserver.writes.body_errors import (
    Unrecognized,
    head_in_any_case,
    head_of,
    head_problem,
    is_meta_kind,
    is_without_resource,
    media_type_of,
    undecodable,
    version_problem,
)

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call

_OTHER_CASES: Final = frozenset(('unknown field "kind"', 'unknown field "apiversion"'))
"""Problems, in lower case, with members that Go takes for those that say what an object is."""
_SCHEMES: Final = {
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
}
"""Where the groups of servers of their own are registered, as messages name it."""


def body_object(call: Call, cls: type[Any], kind_name: str, api_version: str) -> Any:
    """The object in the request's body, with field validation. Raises ApiError (400, 415)."""
    data = body_json(call, kind_name)
    mode = call.request.query.get("fieldValidation") or "Warn"
    try:
        obj, problems = decode_reporting(cls, data, call.context.settings.feature_gates)
    except (DecodeError, UnicodeDecodeError) as error:
        data = _readable(call, data, kind_name)
        try:
            obj, problems = decode_reporting(cls, data, call.context.settings.feature_gates)
        except DecodeError as mended:
            _check_other_type(call, data, kind_name, api_version)
            if call.kind.is_custom and (head := head_of(data)) is not None and not head.kind:
                raise _without_kind(call, kind_name) from None
            why = mended if isinstance(error, UnicodeDecodeError) else error
            raise undecodable(kind_name, api_version, why) from None
    _check_type(call, _head_of(data, obj, problems), kind_name, api_version)
    if isinstance(obj, CustomObject) and obj.kind != kind_name:
        problems = []  # what is of another kind is refused, but not pruned
    if mode == "Strict":
        problems = [*_yaml_problems(call), *_field_problems(call, data, problems)]
    elif mode == "Warn" and data is not call.request.body and call.request.reads_warnings:
        repeated = [line.strip() for one in _yaml_problems(call) for line in one.splitlines()[1:]]
        problems = [*repeated, *problems]
    elif mode == "Warn" and call.request.reads_warnings and may_repeat_fields(data):
        problems = _field_problems(call, data, problems)
    if problems:
        call.check_quantities(obj)
    if problems and mode == "Strict":
        raise _strict_error(kind_name, api_version, problems)
    if mode == "Warn":
        call.warnings.extend(problems)
    return obj


def _field_problems(call: Call, data: bytes, unknown: list[str]) -> list[str]:
    """What is wrong with fields of the body: unknown ones of custom resources are only found when it has been read, so that those given twice come first."""
    if call.kind.is_custom:
        return [*field_problems(data), *unknown][:MAX_FIELD_ERRORS]
    return field_problems(data, unknown, definition_of(call.kind.type))


def _strict_error(kind_name: str, api_version: str, problems: Sequence[str]) -> ApiError:
    shown = f'{kind_name} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {kind_name}'
    return bad_request(f"{shown}: strict decoding error: {', '.join(problems)}")


def _readable(call: Call, data: bytes, kind_name: str) -> bytes:
    """A body that could not be read, with texts that are valid; that may help. Raises ApiError (400) if it is no object at all."""
    if problem := head_problem(data):
        raise Unrecognized(kind_name, problem, call.request.body)
    return data if has_valid_texts(data) else repaired(data)


def _yaml_problems(call: Call) -> list[str]:
    """What is wrong with a YAML body that its JSON form does not show."""
    if call.request.content_type.partition(";")[0].strip() != "application/yaml":
        return []
    from bayplan.apiserver.yaml.documents import repeated_keys  # slow to import, and seldom needed

    repeated = repeated_keys(call.request.body)
    return [repeated] if repeated else []


def _as_json(call: Call, kind_name: str) -> bytes:
    """The body as JSON, whatever that holds. Raises ApiError (400, 415)."""
    request = call.request
    media_type = media_type_of(request.content_type)
    if media_type == "application/json":
        return request.body
    if media_type == "application/yaml":
        return yaml_to_json(request.body, kind_name)
    if media_type == protobuf.MEDIA_TYPE:
        return protobuf_to_json(request.body, kind_name, call.context.kinds)
    raise unsupported_media_type(OFFERED)


def body_json(call: Call, kind_name: str) -> bytes:
    """The body as JSON. Raises ApiError (400, 415)."""
    request, data = call.request, _as_json(call, kind_name)
    if data[:1] != b"{":
        data = data.strip()
        if data == b"null":
            return b"{}"
        if data[:1] != b"{":
            raise Unrecognized(kind_name, head_problem(data or request.body), request.body)
    if is_too_deep(data):
        raise Unrecognized(kind_name, head_problem(data) or EXCEEDED, request.body)
    return data


def _check_other_type(call: Call, data: bytes, kind_name: str, api_version: str) -> None:
    """Of a body that cannot be decoded it is first told that it says it is of another type. Raises ApiError (400)."""
    head = None if call.kind.is_custom else head_of(data)
    if head is not None and (head.kind or kind_name, head.api_version or api_version) != (kind_name, api_version):
        _check_type(call, head, kind_name, api_version)


def _check_as_given(call: Call, given_version: str, given_kind: str, kind_name: str) -> None:
    """A body of another type that is served is decoded as that before it is refused. Raises ApiError (400) if it is no such object."""
    kind = call.context.kinds.of_kind(given_version, given_kind)
    if kind is not None and kind.is_custom:
        return
    problem: str | None = None
    if kind is None:
        from bayplan.api.json.decode_problems import UNPUBLISHED, first_problem_of  # what is seldom needed

        definition = _definition_of_other(given_version, given_kind)
        is_described = definition in definitions() or definition in UNPUBLISHED
        if is_described and _is_without_path(call.context.kinds, given_version, given_kind):
            problem = first_problem_of(definition, body_json(call, kind_name))
    else:
        try:
            decode_reporting(kind.type, body_json(call, kind_name))
        except DecodeError as error:
            problem = str(error)
    if problem:
        version = given_version.rpartition("/")[2]
        raise bad_request(f"{given_kind} in version {quoted(version)} cannot be handled as a {kind_name}: {problem}")


def _is_without_path(kinds: KindTable, api_version: str, kind_name: str) -> bool:
    """Whether something is registered of which no objects have a path of their own: lists, of anything in `v1`, and what is posted or answered."""
    item = kind_name.removesuffix("List")
    if is_without_resource(api_version, kind_name):
        return True
    listed = kinds.of_kind(api_version, item) if item != kind_name else None
    return listed is not None and listed.is_stored


def _without_kind(call: Call, kind_name: str) -> ApiError:
    """400: the body does not say what it is, which only bodies of built-in kinds need not.

    If unknown fields are not looked for, it is read as JSON, whatever it was sent as; else as it is, by a decoder that does not know it.
    """
    request = call.request
    if request.query.get("fieldValidation") == "Ignore":
        shown = _as_json(call, kind_name).decode(errors="replace") if request.body else ""
        missing = f"Object 'Kind' is missing in '{shown}'"
        version = quoted(call.kind.version)
        return bad_request(f"{kind_name} in version {version} cannot be handled as a {kind_name}: {missing}")
    shown = request.body.decode(errors="replace")
    return Unrecognized(kind_name, f"Object 'Kind' is missing in '{shown}'", request.body)


def _check_type(call: Call, obj: Any, kind_name: str, api_version: str) -> None:
    given_version, given_kind = obj.api_version, obj.kind
    if given_version == "/":  # a group and a version without a name
        given_version = ""
    if isinstance(obj, CustomObject):
        if not given_kind:
            raise _without_kind(call, kind_name)
        if given_version != api_version:
            if not given_version and msgspec.json.decode(body_json(call, kind_name)).get("apiVersion", "") is None:
                problem = ".apiVersion accessor error: <nil> is of the type <nil>, expected string"
                raise bad_request(f'{given_kind} in version "" cannot be handled as a {kind_name}: {problem}')
            found = f"the API version in the data ({given_version})"
            raise bad_request(f"{found} does not match the expected API version ({api_version})")
        # its rules look at the kind that it says it is of, unless it comes to them in another version
        if call.kind is not call.stored and (errors := type_errors(call.kind, obj)):
            raise invalid_object(given_kind, call.kind.group, obj.metadata.name, errors)
        return
    if (given_kind and given_kind != kind_name) or (given_version and given_version != api_version):
        if unreadable := version_problem(given_version):
            raise Unrecognized(kind_name, unreadable, call.request.body)
        if given_version.endswith("/"):  # a group alone
            missing = f"Object 'apiVersion' is missing in '{_as_json(call, kind_name).decode(errors='replace')}'"
            raise bad_request(f'{given_kind or kind_name} in version "" cannot be handled as a {kind_name}: {missing}')
        _check_as_given(call, given_version or api_version, given_kind or kind_name, kind_name)
        if given_kind in ("", kind_name) and is_registered(kind_name, given_version):
            _note_unknown_fields(call, kind_name, given_version)
            found = f"the API version in the data ({given_version})"
            raise bad_request(f"{found} does not match the expected API version ({api_version})")
        version = (given_version or api_version).rpartition("/")[2]
        what = other_type(call, given_version, given_kind, kind_name, api_version)
        raise bad_request(
            f"{given_kind or kind_name} in version {quoted(version)} cannot be handled as a {kind_name}: {what}"
        )


def _note_unknown_fields(call: Call, kind_name: str, given_version: str) -> None:
    """A body of another version is decoded as that first: fields that it does not have are warned of, or refused (400)."""
    mode = call.request.query.get("fieldValidation") or "Warn"
    given = call.context.kinds.of_kind(given_version, kind_name)
    if mode == "Ignore" or given is None:
        return
    try:
        problems = decode_reporting(given.type, body_json(call, kind_name))[1]
    except DecodeError:  # whose fields are not of the types of that version: it is refused anyway
        return
    if problems and mode == "Strict":
        raise _strict_error(kind_name, given_version, problems)
    call.warnings.extend(problems)


def _scheme(api_version: str) -> str:
    """Where the kinds of a version are registered, in quotes."""
    return quoted(_SCHEMES.get(api_version.partition("/")[0], "pkg/api/legacyscheme/scheme.go:30"))


def internal_type(kind: Kind, given_kind: str) -> str:
    """Why something without a version, which Go takes for one of the group's internal types, is none."""
    group = quoted(kind.group)
    return f"no kind {quoted(given_kind)} is registered for the internal version of group {group} in scheme {_scheme(kind.api_version)}"


def other_type(call: Call, given_version: str, given_kind: str, kind_name: str, api_version: str) -> str:
    """Why something of a type that it says it has is not of the one that is wanted."""
    given_kind, given_version = given_kind or kind_name, given_version or api_version
    kinds = call.context.kinds
    is_known = kinds.of_kind(given_version, given_kind) is not None
    if not is_known and not _is_without_path(kinds, given_version, given_kind):
        return f"no kind {quoted(given_kind)} is registered for version {quoted(given_version)} in scheme {_scheme(api_version)}"
    group = api_version.rpartition("/")[0].partition(".")[0] or "core"
    if kind_name == "Event":  # one type for both groups
        group = "core"
    version = given_version.rpartition("/")[2]
    return f"converting ({version}.{given_kind}) to ({group}.{kind_name}): unknown conversion"


def _head_of(data: bytes, obj: Any, problems: list[str]) -> Any:
    """What says of which type an object is: the object, if no member of its body is called as those are that do, but in another case."""
    if problems and not isinstance(obj, CustomObject) and any(one.lower() in _OTHER_CASES for one in problems):
        return head_in_any_case(data)
    return obj


def yaml_to_json(data: bytes, kind_name: str) -> bytes:
    """A YAML document as JSON. Raises ApiError (400)."""
    import yaml  # slow to import, and seldom needed

    from bayplan.apiserver.yaml.documents import problem_text, to_json

    try:
        return to_json(data)
    except yaml.YAMLError as error:
        raise Unrecognized(kind_name, problem_text(error), data) from None


def protobuf_to_json(data: bytes, kind_name: str, kinds: KindTable) -> bytes:
    """A protobuf body as JSON. Raises ApiError (400)."""
    try:
        if data in (b"", protobuf.MAGIC):
            raise protobuf.ProtobufError("empty body" if data else "empty data")
        api_version, given_kind, message = protobuf.unwrap(data)
        if not (given_kind or message):
            return b"{}"
        kind = kinds.of_kind(api_version, given_kind)
        definition = definition_of(kind.type) if kind is not None else _definition_of_other(api_version, given_kind)
        tree = protobuf.to_tree(definition, message)
    except (protobuf.ProtobufError, KeyError) as error:
        raise Unrecognized(kind_name, str(error), data) from None
    return encode(
        {
            "kind": given_kind,
            "apiVersion": api_version,
            **{key: item for key, item in tree.items() if key not in ("kind", "apiVersion")},
        }
    )


def _definition_of_other(api_version: str, kind: str) -> str:
    """The definition of something that is no kind with a path of its own: Scale, Eviction, DeleteOptions."""
    group, _, version = api_version.rpartition("/")
    if is_meta_kind(api_version, kind):
        return f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"
    return f"io.k8s.api.{group.split('.')[0] or 'core'}.{version}.{kind}"
