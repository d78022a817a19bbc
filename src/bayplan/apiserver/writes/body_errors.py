"""Bodies that are no objects at all: what is said of them before anybody looks at the fields of their kind.

Source: apimachinery's `runtime/serializer/json` (`Interpret`), apiserver's `endpoints/handlers/rest.go` (`transformDecodeError`).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from bayplan.api.codec import json_type
from bayplan.api.errors import ApiError, bad_request
from bayplan.api.json.syntax import syntax_problem

_HEAD: Final = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_UNREADABLE: Final = "couldn't get version/kind; json parse error: "
_HEAD_FIELDS: Final = {"apiversion": "apiVersion", "kind": "kind"}
_SHOWN: Final = 30
"""So many bytes of a body are told at most."""


_META_KINDS: Final = frozenset(
    ("WatchEvent", "ListOptions", "GetOptions", "DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions")
)
"""Kinds that every group has, of which no resource is."""
_WITHOUT_RESOURCE: Final = {
    "v1": frozenset((
        "List", "NodeProxyOptions", "PodAttachOptions", "PodExecOptions", "PodLogOptions", "PodPortForwardOptions", "PodProxyOptions", "PodStatusResult",
        "RangeAllocation", "SerializedReference", "ServiceProxyOptions",
    )),
    "autoscaling/v1": frozenset(("Scale",)),
    "policy/v1": frozenset(("Eviction",)),
    "authentication.k8s.io/v1": frozenset(("TokenRequest",)),
}  # fmt: skip
"""Kinds of a group of which no resource is, but a subresource or none at all."""
_UNVERSIONED_KINDS: Final = frozenset(("Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"))
"""Those that stand in `v1` for all groups."""
_PARAMETERS: Final = re.compile(
    r"""(?:\s*+;\s*+[^\s;=",]++\s*+=\s*+(?:[^\s;=",]++|"(?:[^"\\]|\\.)*+"))*+\s*+(?:;\s*+)?"""
)  # possessive: of a long text that does not match nothing is tried twice


class Head(msgspec.Struct, rename="camel"):
    """What an object says that it is."""

    api_version: str = ""
    kind: str = ""


def head_of(data: bytes) -> Head | None:
    """What an object in JSON says that it is; None if that cannot be read."""
    try:
        return msgspec.json.decode(data, type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def is_meta_kind(api_version: str, kind: str) -> bool:
    """Whether a kind is registered in all versions, or in `v1` for all groups, and no resource is of it."""
    return kind in _META_KINDS or (api_version == "v1" and kind in _UNVERSIONED_KINDS)


def is_without_resource(api_version: str, kind: str) -> bool:
    """Whether a kind is registered in a version though no resource is of it."""
    return is_meta_kind(api_version, kind) or kind in _WITHOUT_RESOURCE.get(api_version, ())


def media_type_of(content_type: str) -> str:
    """The media type of a body, JSON if none is given; "" if its parameters are none, as Go's `mime.ParseMediaType` has it."""
    media_type, semicolon, _ = content_type.partition(";")
    if semicolon and _PARAMETERS.fullmatch(content_type, len(media_type)) is None:
        return ""
    return media_type.strip().lower() or "application/json"


class _Members(list[tuple[str, Any]]):
    """A JSON object: its members in order, those that are given twice included."""


def head_problem(data: bytes) -> str:
    """Why kind and version of what should be an object in JSON cannot be told; "" if they can."""
    if problem := syntax_problem(data):
        return _UNREADABLE + problem
    tree = json.loads(data.decode(errors="replace"), parse_int=float, object_pairs_hook=_Members)
    if tree is None:
        return ""
    if not isinstance(tree, _Members):
        return f"{_UNREADABLE}json: cannot unmarshal {json_type(tree)} into Go value of type {_HEAD}"
    for key, value in tree:
        field = _HEAD_FIELDS.get(key.casefold())
        if field is not None and not isinstance(value, str | None):
            shown = "object" if isinstance(value, _Members) else json_type(value)
            found = f"json: cannot unmarshal {shown} into Go struct field .{field} of type string"
            return _UNREADABLE + found
    return version_problem(_head_in(tree).api_version)


def _head_in(members: list[tuple[str, Any]]) -> Head:
    """What members say that an object is; of several spellings the last one counts, as in Go."""
    said: dict[str, str] = {}
    for key, value in members:
        field = _HEAD_FIELDS.get(key.casefold())
        if field is not None and isinstance(value, str):
            said[field] = value
    return Head(said.get("apiVersion", ""), said.get("kind", ""))


def head_in_any_case(data: bytes) -> Head:
    """What an object in JSON says that it is, in whatever case the names of its members are."""
    tree = json.loads(data.decode(errors="replace"), object_pairs_hook=_Members)
    return _head_in(tree if isinstance(tree, _Members) else [])


def version_problem(api_version: str) -> str:
    """What is wrong with the form of a version; "" if nothing is."""
    return f"unexpected GroupVersion string: {api_version}" if api_version.count("/") > 1 else ""


class Unrecognized(ApiError):
    """400: what was sent as an object of a kind is none."""

    def __init__(self, kind_name: str, why: str, body: bytes) -> None:
        text = f"the object provided is unrecognized (must be of type {kind_name}): {why} ({_summary(body)})"
        super().__init__(bad_request(text).status)
        self.why = why
        """The reason alone."""


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    begin, more = body[:_SHOWN], " ..." if len(body) > _SHOWN else ""
    return (begin.decode(errors="replace") if body[:1] == b"{" else begin.hex()) + more


def undecodable(kind_name: str, api_version: str, why: object) -> ApiError:
    """400: the body is no object of its kind."""
    version = api_version.rpartition("/")[2]
    return bad_request(f'{kind_name} in version "{version}" cannot be handled as a {kind_name}: {why}')
