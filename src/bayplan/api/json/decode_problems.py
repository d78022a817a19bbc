"""What Go's JSON decoder says of JSON that does not fit a type: `json: cannot unmarshal string into Go struct field PodSpec.spec.replicas of type int32`.

Only input that was refused is walked, in the order of the document. A value of the wrong type is remembered, the first one counts, and reading goes on; types
that read themselves (quantities, times, numbers or strings) end it at once. `types/go_types.json.gz` has the names of types that the schema does not show.

Source: `encoding/json` as sigs.k8s.io/json uses it; the UnmarshalJSON methods of apimachinery.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from bayplan.api import quantity, schema
from bayplan.api.times import MICRO_LAYOUT, SECONDS_LAYOUT, TimeError, base64_problem, canonical

_INTEGERS: Final = {"int32": 2**31, "int64": 2**63}


_INTEGER_LETTERS: Final = 20
"""Of the longest integer: digits and a sign, for JSON has no zeros in front."""


_CORE: Final = "io.k8s.api.core.v1."
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_OBJECT: Final[schema.Schema] = {"$ref": f"{_META}ObjectMeta"}
UNPUBLISHED: Final[dict[str, dict[str, schema.Schema]]] = {
    f"{_CORE}List": {"metadata": {"$ref": f"{_META}ListMeta"}, "items": {"type": "array", "items": {"type": "object"}}},
    f"{_CORE}PodStatusResult": {"metadata": _OBJECT, "status": {"$ref": f"{_CORE}PodStatus"}},
    f"{_CORE}RangeAllocation": {
        "metadata": _OBJECT,
        "range": {"type": "string"},
        "data": {"type": "string", "format": "byte"},
    },
    f"{_CORE}SerializedReference": {"reference": {"$ref": f"{_CORE}ObjectReference"}},
}
"""Fields of types that no published schema has."""


class Number(str):
    """A number as it stands in the document."""


class Pairs(list[tuple[str, Any]]):
    """A JSON object: its members in order."""


class Place(NamedTuple):
    """Where the reader is: the struct whose field is being read, and the fields that lead there."""

    struct: str = ""
    fields: tuple[str, ...] = ()

    def mismatch(self, value: str, go_type: str) -> str:
        """The message for a value that does not fit."""
        if not self.struct:
            return f"json: cannot unmarshal {value} into Go value of type {go_type}"
        return f"json: cannot unmarshal {value} into Go struct field {self.struct}.{'.'.join(self.fields)} of type {go_type}"


class Refused(Exception):
    """A type that reads itself refuses a value."""


@functools.cache
def go_types() -> dict[str, dict[str, Any]]:
    loaded: dict[str, dict[str, Any]] = msgspec.json.decode(schema.unpacked("go_types"))
    return loaded


def first_problem(cls: type[Any], data: bytes) -> str | None:
    """The message for an object of a class in this valid JSON; None if nothing is wrong."""
    return first_problem_of(schema.definition_of(cls), data)


def first_problem_of(definition: str, data: bytes) -> str | None:
    """The message for something of a definition of the published schema; None if nothing is wrong."""
    tree = json.loads(data, object_pairs_hook=Pairs, parse_int=Number, parse_float=Number)
    problems: list[str] = []
    try:
        if definition in UNPUBLISHED:
            _read_struct(tree, definition, UNPUBLISHED[definition], Place(), problems)
        else:
            _read(tree, {"$ref": definition}, plain_type({"$ref": definition}), Place(), problems)
    except Refused as refusal:
        return str(refusal)
    return problems[0] if problems else None


def plain_type(of: schema.Schema) -> str:
    """The name of the Go type that a schema suggests."""
    if reference := of.get("$ref"):
        return ".".join(reference.split(".")[-2:])
    kind = of.get("type", "object")
    if kind == "array":
        return f"[]{plain_type(of['items'])}"
    if kind == "object":
        return f"map[string]{plain_type(of.get('additionalProperties') or {'type': 'string'})}"
    if kind == "string" and of.get("format") == "byte":
        return "[]uint8"
    return str({"integer": of.get("format", "int64"), "boolean": "bool", "number": "float64"}.get(kind, kind))


def element_type(go_type: str, of: schema.Schema) -> str:
    """The Go type of what a list or map of a Go type holds."""
    made_of: str = go_types()["named"].get(go_type, go_type)
    if made_of.startswith("[]"):
        return made_of[2:].removeprefix("*")
    if made_of.startswith("map["):
        return made_of.partition("]")[2].removeprefix("*")
    return plain_type(of)


def json_name(value: Any) -> str:
    """The name Go gives a kind of JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Pairs):
        return "object"
    if isinstance(value, list):
        return "array"
    return "number" if isinstance(value, Number) else "string"


def _read(value: Any, of: schema.Schema, go_type: str, place: Place, problems: list[str]) -> None:
    """Read a value as Go would. Raises Refused."""
    reference = of.get("$ref", "")
    reader = READERS.get(reference.rpartition(".")[2]) if reference else None
    if reader is not None:
        if value is not None:
            reader(value, place)
        return
    if value is None:
        return
    resolved = schema.resolve(of)
    properties = resolved.get("properties")
    if properties is not None and isinstance(value, Pairs):
        _read_struct(value, reference, properties, place, problems)
    elif properties is not None:
        problems.append(place.mismatch(json_name(value), go_type))
    else:
        _read_plain(value, resolved, go_type, place, problems)


def _read_struct(
    members: Pairs, definition: str, properties: dict[str, schema.Schema], place: Place, problems: list[str]
) -> None:
    known = go_types().get(definition, {})
    for key, value in members:
        of = properties.get(key)
        if of is None:
            continue
        go_type, inlined = known.get(key) or (plain_type(of), "")
        fields = (*place.fields, *inlined.split(".")[:-1], key)
        _read(value, of, go_type, Place(definition.rpartition(".")[2], fields), problems)


def _read_plain(value: Any, of: schema.Schema, go_type: str, place: Place, problems: list[str]) -> None:
    """Lists, maps, strings, numbers and truth values."""
    kind = of.get("type", "object")
    name = json_name(value)
    if kind == "array" and name == "array":
        for item in value:
            _read(item, of["items"], element_type(go_type, of["items"]), place, problems)
    elif kind == "object" and name == "object":
        inner: schema.Schema = of.get("additionalProperties") or {}
        for _, item in value if inner else ():
            _read(item, inner, element_type(go_type, inner), place, problems)
    elif kind == "string" and name == "string":
        if of.get("format") == "byte" and (message := base64_problem(value)):
            problems.append(message)
    elif of.get("format") == "byte" and name == "array":
        problems.extend(place.mismatch(_shown(item), "uint8") for item in value if not _is_byte(item))
    elif kind in ("integer", "number") and name == "number":
        if not _fits(value, kind, of.get("format", "")):
            problems.append(place.mismatch(f"number {value}", go_type))
    elif not (kind == "boolean" and name == "bool"):
        problems.append(place.mismatch(name, go_type))


def _is_byte(item: Any) -> bool:
    """Whether Go reads an item of a list as a byte, which bytes may be given as."""
    if item is None:
        return True
    return isinstance(item, Number) and item.isdigit() and len(item) <= len("255") and int(item) <= 0xFF


def _shown(value: Any) -> str:
    """A JSON value as Go says what it cannot read."""
    return f"number {value}" if isinstance(value, Number) else json_name(value)


def _fits(number: str, kind: str, width: str) -> bool:
    if kind == "number":
        return math.isfinite(float(number))
    limit = _INTEGERS.get(width, 2**63)
    return len(number) <= _INTEGER_LETTERS and number.lstrip("-").isdigit() and -limit <= int(number) < limit


def _read_quantity(value: Any, place: Place) -> None:
    text = str(value) if isinstance(value, str) else "true" if value is True else "{}"
    try:
        quantity.parse(text.strip())
    except ValueError as error:
        raise Refused(str(error)) from None


def _read_int_or_string(value: Any, place: Place) -> None:
    name = json_name(value)
    if name == "string" or (name == "number" and _fits(value, "integer", "int32")):
        return
    raise Refused(place.mismatch(f"number {value}" if name == "number" else name, "int32"))


def _read_time(layout: str) -> Callable[[Any, Place], None]:
    def read(value: Any, place: Place) -> None:
        name = json_name(value)
        if name != "string":
            raise Refused(place.mismatch(name, "string"))
        try:
            canonical(value, layout)
        except TimeError as error:
            raise Refused(str(error)) from None

    return read


def _read_anything(value: Any, place: Place) -> None:
    """JSON that is kept as it is."""


READERS: Final[dict[str, Callable[[Any, Place], None]]] = {
    "FieldsV1": _read_anything,
    "IntOrString": _read_int_or_string,
    "JSON": _read_anything,
    "JSONSchemaPropsOrArray": _read_anything,
    "JSONSchemaPropsOrBool": _read_anything,
    "JSONSchemaPropsOrStringArray": _read_anything,
    "MicroTime": _read_time(MICRO_LAYOUT),
    "Patch": _read_anything,
    "Quantity": _read_quantity,
    "RawExtension": _read_anything,
    "Time": _read_time(SECONDS_LAYOUT),
}
"""Types that read themselves, by the last word of their definition."""
