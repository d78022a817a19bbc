"""The objects in requests and answers, as JSON of their version, whatever form they were sent in."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.api import protobuf
from bayplan.api.codec import DecodeError, decode_reporting, encode, from_tree, to_tree
from bayplan.api.errors import ApiError
from bayplan.api.json.nesting import DepthError, check_depth
from bayplan.api.kinds import KindTable
from bayplan.api.protobuf.wire import fields
from bayplan.api.schema import definition_of
from bayplan.api.strategies import strategy_for
from bayplan.api.types import meta_v1
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.request_info import CONNECTIONS
from bayplan.apiserver.requests import JSON, YAML, Request, ResourcePath, Response
from bayplan.apiserver.writes.bodies import body_json, yaml_to_json

logger = logging.getLogger(__name__)

_APPLY = "application/apply-patch+yaml"
_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_META_GROUPS = ("", "meta.k8s.io")
_WRITES = ("create", "update")
_MANAGED = b'"managedFields"'
_OBJECT = (b'{"kind":', b'{\n  "kind":')
_STATUS = (b'{"kind":"Status"', b'{\n  "kind": "Status"')
_SAME_SHAPE = frozenset(("status", "finalize", "approval", "ephemeralcontainers", "resize"))
"""Subresources whose object is of the kind itself."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata | None = None


_decode_named = msgspec.json.Decoder(_Named).decode


class Sent(msgspec.Struct):
    """The object in a request: as JSON, and what its metadata say."""

    data: bytes
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


def sent_object(context: Context, request: Request, path: ResourcePath, *, whole: bool) -> Sent | None:
    """The object in a request, with defaults, as it is before anybody looks at it; None if there is none that can be read.

    whole: whether its JSON is wanted, not its metadata alone.
    """
    if not request.body or (path.subresource is not None and path.subresource.name in CONNECTIONS):
        return None
    if path.verb == "patch":
        return _patch(request) if whole else None
    call = Call.of(context, request, path)
    try:
        if path.verb in ("delete", "deletecollection"):
            return _options(call) if whole else None
        return _object(call, whole=whole) if path.verb in _WRITES else None
    except (ApiError, DecodeError, UnicodeDecodeError, msgspec.DecodeError):
        return None  # what cannot be read has been refused


def _patch(request: Request) -> Sent | None:
    """A patch as it was sent; an applied configuration as JSON."""
    body = request.body
    try:
        if request.content_type.partition(";")[0].strip() == _APPLY:
            body = yaml_to_json(body, "")
        check_depth(body)
        return Sent(_compact(body))
    except (ApiError, DepthError, msgspec.DecodeError):
        return None  # what cannot be read has been refused


def _options(call: Call) -> Sent:
    """The options of a deletion. Raises ApiError, msgspec.DecodeError."""
    tree = msgspec.json.decode(body_json(call, "DeleteOptions"))
    kind, version = tree.pop("kind", None) or "DeleteOptions", tree.pop("apiVersion", None) or "v1"
    return Sent(encode({"kind": kind, "apiVersion": version, **tree}))


def _object(call: Call, *, whole: bool) -> Sent:
    """An object. Raises ApiError, DecodeError, msgspec.DecodeError."""
    path = call.path
    subresource = path.subresource
    is_whole_kind = (subresource is None or subresource.name in _SAME_SHAPE) and call.kind.type is not None
    body = body_json(call, call.kind.kind)
    metadata = _decode_named(body).metadata or _Metadata()
    if whole and is_whole_kind:
        obj, _ = decode_reporting(call.kind.type, body)
        strategy = call.strategy if call.kind.is_custom else strategy_for(call.kind)
        strategy.default(obj)
        obj.kind = obj.api_version = ""
        body = call.kind.type_meta + encode(obj)[1:]
    elif whole:
        body = _compact(body)
    return Sent(body, metadata.name, metadata.namespace, metadata.uid, metadata.resource_version)


def answered_object(response: Response, kinds: KindTable) -> bytes | None:
    """The object in an answer; None if it is none of the API."""
    if response.watcher is not None or response.relay is not None:
        return None
    body, media_type = response.whole_body(), response.content_type.partition(";")[0]
    try:
        if media_type == protobuf.MEDIA_TYPE:
            return _from_protobuf(body, kinds)
        if media_type == YAML:
            return yaml_to_json(body, "")
        if media_type == JSON and body.startswith(_OBJECT):
            return _compact(body) if response.is_final else body
    except (protobuf.ProtobufError, KeyError, ValueError, ApiError) as error:
        logger.warning("the object of an answer cannot be put into the audit log: %s", error)
    return None


def answered_status(response: Response, kinds: KindTable) -> dict[str, Any] | None:
    """The Status in an answer, None if that is something else."""
    body = response.body
    if response.content_type.startswith(JSON):
        return msgspec.json.decode(body) if body.startswith(_STATUS) else None
    if response.content_type == YAML and b"\nkind: Status\n" not in body:
        return None
    if response.content_type == protobuf.MEDIA_TYPE and b"Status" not in body[:32]:
        return None
    data = answered_object(response, kinds)
    tree = msgspec.json.decode(data) if data else {}
    return tree if tree.get("kind") == "Status" else None


def without_managed_fields(data: bytes) -> bytes:
    """The JSON of an object, a list or a Table without what says who owns which field."""
    if _MANAGED not in data:
        return data
    tree = msgspec.json.decode(data)
    if not isinstance(tree, dict):
        return data
    _forget_managers(tree)
    for item in tree.get("items") or ():
        _forget_managers(item)
    if tree.get("kind") == "Table":
        for row in tree.get("rows") or ():
            _forget_managers(row.get("object"))
    return encode(tree)


def _forget_managers(tree: Any) -> None:
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)


def _compact(body: bytes) -> bytes:
    """The same JSON without blanks. Raises msgspec.DecodeError."""
    return msgspec.json.format(body, indent=-1)


def _from_protobuf(body: bytes, kinds: KindTable) -> bytes:
    """Raises ProtobufError, KeyError."""
    version, kind, message = protobuf.unwrap(body)
    read = _PARTIAL.get(kind)
    if read is not None:
        tree: Any = read(message)
    elif (cls := _class(version, kind, kinds)) is not None:
        tree = _as_json(cls, protobuf.to_tree(definition_of(cls), message))
    else:
        group, _, own_version = version.rpartition("/")
        tree = protobuf.to_tree(f"io.k8s.api.{group.partition('.')[0] or 'core'}.{own_version}.{kind}", message)
        item = _class(version, kind.removesuffix("List"), kinds)
        if item is not None:
            tree = {
                "metadata": _as_json(meta_v1.ListMeta, tree.get("metadata") or {}),
                "items": [_as_json(item, one) for one in tree.get("items") or ()],
            }
    return encode({"kind": kind, "apiVersion": version, **tree})


def _class(version: str, kind: str, kinds: KindTable) -> type[Any] | None:
    """The class of objects of a kind, None for lists and others that have none."""
    row = kinds.of_kind(version, kind)
    if row is not None:
        found: type[Any] | None = row.type
        return found
    return getattr(meta_v1, kind, None) if version.rpartition("/")[0] in _META_GROUPS else None


def _as_json(cls: type[Any], tree: dict[str, Any]) -> Any:
    """A tree without what protobuf writes and JSON does not. Raises DecodeError."""
    obj = from_tree(cls, {name: value for name, value in tree.items() if name not in ("kind", "apiVersion")})
    return to_tree(obj)


def _metadata_only(message: bytes) -> dict[str, Any]:
    found = next((value for number, value in fields(message) if number == 1 and isinstance(value, bytes)), b"")
    return {"metadata": protobuf.to_tree(_METADATA, found)}


def _metadata_only_list(message: bytes) -> dict[str, Any]:
    items = [_metadata_only(value) for number, value in fields(message) if number == 2 and isinstance(value, bytes)]
    meta = next((value for number, value in fields(message) if number == 1 and isinstance(value, bytes)), b"")
    return {"metadata": protobuf.to_tree(_METADATA.replace("ObjectMeta", "ListMeta"), meta), "items": items}


_PARTIAL: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "PartialObjectMetadata": _metadata_only,
    "PartialObjectMetadataList": _metadata_only_list,
}
"""What OpenAPI has no definition of."""
