"""Bytes to objects and back.

Decoding is strict first, because that is fast: structs refuse unknown fields. Only when that fails is the JSON walked against the schema, to take out what
Kubernetes ignores (nulls, unknown fields) and to say what it was. So known input costs one pass in C, whatever `fieldValidation` asks for.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import Any, TypeVar

import msgspec

from bayplan.api import schema
from bayplan.api.custom_resources.metadata import MetadataError
from bayplan.api.custom_resources.numbers import NumberError
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.errors import quoted
from bayplan.api.feature_gates import ALL_GATES, may_have_gated_fields
from bayplan.api.json.syntax import infinite_number, large_number, too_large
from bayplan.api.kinds import Kind
from bayplan.api.times import FormError, settle
from bayplan.api.types import meta_v1


class View(ABC):
    """Shows a part of an object and is none; `encode` writes what is seen of it."""

    __slots__ = ()

    @abstractmethod
    def seen(self) -> Any:
        """The part."""


def _plain(value: Any) -> Any:
    """What the encoder does not know: the objects of custom resources, and views."""
    if isinstance(value, CustomObject):
        return value.tree()
    if isinstance(value, View):
        return value.seen()
    raise NotImplementedError(f"{type(value).__name__} is no part of an API object")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
encode: Callable[[Any], bytes] = _encoder.encode


_PIECE = 10_000
"""Items of a list that are encoded at once to learn how long they are."""


def takes_more_than(obj: Any, size: int) -> bool:
    """Whether the JSON of an object is longer than a number of bytes. Of a list that alone is, no more is encoded than that takes."""
    for items in _long_lists(obj):
        left = size
        for start in range(0, len(items), _PIECE):
            left -= len(encode(items[start : start + _PIECE])) - len("[]")
            if left < 0:
                return True
    return len(encode(obj)) > size


def _long_lists(value: Any) -> Iterator[Sequence[Any]]:
    """Lists of more than a piece that are in no other list."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _long_lists(getattr(value, name))
    elif isinstance(value, tuple) and len(value) > _PIECE:
        yield value


_NULL_LISTS: dict[str, tuple[str, ...]] = {
    "CSINode": ("drivers", "topologyKeys"),
    "ClusterRole": ("rules",),
    "CronJob": ("rules", "sources"),
    "CustomResourceDefinition": ("conditions",),
    "DaemonSet": ("sources",),
    "Deployment": ("sources",),
    "EndpointSlice": ("endpoints", "ports"),
    "FlowSchema": ("namespaces",),
    "HorizontalPodAutoscaler": ("currentMetrics",),
    "Job": ("rules", "sources"),
    "LimitRange": ("limits",),
    "Node": ("names",),
    "Pod": ("sources",),
    "PodTemplate": ("sources",),
    "ReplicaSet": ("sources",),
    "ReplicationController": ("sources",),
    "ResourceClaim": ("requests", "conditions"),
    "ResourceClaimTemplate": ("requests",),
    "Role": ("rules",),
    "StatefulSet": ("sources",),
}
"""Lists of built-in kinds that are always written, and as null when they are empty. No other list of the kind that may be empty has the name."""
_AS_NULL = {
    kind: tuple((b'"%b":[]' % name.encode(), b'"%b":null' % name.encode()) for name in names)
    for kind, names in _NULL_LISTS.items()
}

MAX_FIELD_ERRORS = 100
"""Unknown and repeated fields of an object that are named, as in Kubernetes."""

KINDS_WITH_NULL_LISTS = frozenset(_NULL_LISTS)

T = TypeVar("T")


def with_null_lists(kind_name: str, data: bytes) -> bytes:
    """The JSON of an object as Kubernetes writes it, where that has null for an empty list.

    Looking for the bytes is safe: inside a string the first quotation mark would be escaped.
    """
    for empty, null in _AS_NULL.get(kind_name, ()):
        data = data.replace(empty, null)
    return data


class DecodeError(ValueError):
    """The bytes are no object of the wanted type; the message says why."""


_decoders: dict[Any, Callable[[bytes | str], Any]] = {}


def decoder(cls: Any) -> Callable[[bytes | str], Any]:
    """The decode function of a class of objects, made once."""
    if issubclass(cls, CustomObject):
        read: Callable[[bytes | str], Any] = cls.read
        return read
    found = _decoders.get(cls)
    if found is None:
        found = _decoders[cls] = msgspec.json.Decoder(cls).decode
    return found


def decode(cls: type[Any], data: bytes) -> Any:
    """An object from JSON; unknown fields and nulls are dropped. Raises DecodeError."""
    try:
        return decoder(cls)(data)
    except msgspec.DecodeError:
        return decode_reporting(cls, data)[0]


def decode_reporting(
    cls: type[Any], data: bytes, gates: Collection[str] = ALL_GATES, *, quotes: bool = True, worded: bool = True
) -> tuple[Any, list[str]]:
    """An object from JSON, and what was dropped, worded as Kubernetes does: `unknown field "spec.foo"`. gates: Bayplan's own that are on.

    quotes: whether characters in paths are escaped, which apimachinery's converter does not do. worded: whether anybody reads what the error says, which takes
    a second look at everything. Raises DecodeError.
    """
    problem = _problem if worded else _unworded
    if number := large_number(data):
        _check_syntax(data)
        raise problem(cls, data, NumberError(too_large(number)))
    if issubclass(cls, CustomObject):
        return _decode_custom(cls, data)
    try:
        if not may_have_gated_fields(data, gates):
            return settle(decoder(cls)(data)), []
    except FormError as error:
        raise problem(cls, data, error) from None
    except msgspec.DecodeError:
        pass
    tree = _tree(cls, data)
    dropped: list[str] = []
    cleaned = schema.prune(tree, schema.definition_of(cls), dropped, gates)
    if may_repeat_fields(data) and (first := _first_problem(cls, data)):  # a value that another one replaced
        raise DecodeError(first)
    try:
        paths = dropped[:MAX_FIELD_ERRORS]
        problems = [f"unknown field {quoted(path)}" if quotes else f'unknown field "{path}"' for path in paths]
        return settle(decoder(cls)(encode(cleaned))), problems
    except (msgspec.DecodeError, FormError) as error:
        raise problem(cls, data, error) from None


def _check_syntax(data: bytes) -> None:
    """Raises DecodeError for what is no JSON."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)  # which does not mind numbers that are too large
    except msgspec.DecodeError as error:
        raise DecodeError(str(error)) from None


def _problem(cls: type[Any], data: bytes, error: Exception) -> DecodeError:
    """The first thing that is wrong with JSON for a class, in the order of the document."""
    return DecodeError((None if issubclass(cls, CustomObject) else _first_problem(cls, data)) or str(error))


def _unworded(_cls: type[Any], _data: bytes, error: Exception) -> DecodeError:
    return DecodeError(str(error))


def _first_problem(cls: type[Any], data: bytes) -> str | None:
    from bayplan.api.json.decode_problems import first_problem  # what is seldom needed

    return first_problem(cls, data)


def _tree(cls: type[Any], data: bytes) -> dict[str, Any]:
    """A JSON object. Raises DecodeError."""
    try:
        tree = msgspec.json.decode(data)
    except msgspec.ValidationError as error:  # valid JSON can only hold a number that is too large
        _check_syntax(data)
        if number := infinite_number(data):
            raise _problem(cls, data, NumberError(too_large(number))) from None
        raise DecodeError(str(error)) from None
    except msgspec.DecodeError as error:
        raise DecodeError(str(error)) from None
    if not isinstance(tree, dict):
        raise DecodeError(f"json: cannot unmarshal {json_type(tree)} into Go value of type {cls.__name__}")
    return tree


def _decode_custom(cls: type[CustomObject], data: bytes) -> tuple[CustomObject, list[str]]:
    """`decode_reporting` for custom resources."""
    tree = _tree(cls, data)
    for name in ("kind", "apiVersion"):
        if not isinstance(tree.get(name), str | None):
            raise DecodeError(f"Object '{name[0].upper()}{name[1:]}' is not a string")
    try:
        obj, dropped = cls.read_reporting(tree)
    except (MetadataError, NumberError) as error:
        raise DecodeError(str(error)) from None
    return obj, [f'unknown field "{path}"' for path in dropped[:MAX_FIELD_ERRORS]]


def decode_kind(kind: Kind, data: bytes) -> Any:
    """An object of a kind. Raises DecodeError."""
    return decode(kind.type, data)


def with_metadata(obj: Any, metadata: meta_v1.ObjectMeta) -> Any:
    """The same object with other metadata; the rest is shared."""
    if isinstance(obj, CustomObject):
        return obj.with_metadata(metadata)
    return msgspec.structs.replace(obj, metadata=metadata)


def to_tree(obj: Any) -> Any:
    """Plain dicts and lists of an object, as JSON would show it."""
    return msgspec.json.decode(encode(obj))


def from_tree(cls: type[T], tree: Any) -> T:
    """An object from plain dicts and lists. Raises DecodeError."""
    found: T = decode(cls, encode(tree))
    return found


def json_type(value: Any) -> str:
    """The name Go gives a JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return {str: "string", int: "number", float: "number", list: "array", dict: "object"}[type(value)]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written: every key in order, also those that stand there twice."""


_BLANKS = b" \n\r\t"
_decode_tree = msgspec.json.Decoder().decode


def may_repeat_fields(data: bytes) -> bool:
    """Whether an object in this JSON may have the same key twice. Costs microseconds; whoever must know for sure asks `field_problems`."""
    try:
        once = encode(_decode_tree(data))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True  # a number is too large for a float, where any JSON may stand, or a text is no text
    return len(once) != len(data) and len(once.translate(None, _BLANKS)) != len(data.translate(None, _BLANKS))


def field_problems(data: bytes, unknown: Sequence[str] = (), definition: str = "") -> list[str]:
    """What is wrong with the fields of JSON, in the order of the document: `duplicate field "spec.x"`, and those that are unknown, worded as
    `decode_reporting` words them. Of unknown fields neither what stands in them nor how often they are there is looked at.

    definition: of what the JSON is, if that is known; nobody looks into values that read themselves.
    """
    found: dict[str, None] = {}
    tree = json.loads(data.decode(errors="replace"), object_pairs_hook=_Pairs, parse_int=str)  # numbers of any length
    _find_problems(tree, "", set(unknown), found, {"$ref": definition} if definition else None)
    return [*found, *(problem for problem in unknown if problem not in found)][:MAX_FIELD_ERRORS]


def _find_problems(value: Any, path: str, unknown: Set[str], found: dict[str, None], of: schema.Schema | None) -> None:
    """Note in `found`, in order, what is wrong with the fields of a value. unknown: problems that are known already. of: its schema, if that is known."""
    if of is not None and _reads_itself(of):
        return
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            where = f"{path}{key}"
            if problems := unknown & {f"unknown field {quoted(where)}", f'unknown field "{where}"'}:
                found[next(iter(problems))] = None
                continue
            if key in seen:
                found[f"duplicate field {quoted(where)}"] = None
            seen.add(key)
            _find_problems(item, f"{where}.", unknown, found, None if of is None else _below(of, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            inner = None if of is None else schema.resolve(of).get("items")
            _find_problems(item, f"{path.rstrip('.')}[{index}].", unknown, found, inner)


def _reads_itself(of: schema.Schema) -> bool:
    """Whether a type reads its JSON by itself."""
    from bayplan.api.json.decode_problems import READERS  # what is seldom needed

    return of.get("$ref", "").rpartition(".")[2] in READERS


def _below(of: schema.Schema, name: str) -> schema.Schema | None:
    """The schema of a field; None if there is none."""
    resolved = schema.resolve(of)
    inner = resolved.get("properties", {}).get(name) or resolved.get("additionalProperties")
    return inner if isinstance(inner, dict) else None
