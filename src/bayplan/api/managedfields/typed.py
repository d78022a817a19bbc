"""What the parts of an object are for ownership, taken from the published schema.

A field is owned on its own (granular) or together with all below it (atomic); a list is owned as a whole, item by item (a set of scalars), or item by item
under keys. Types are made from schema definitions on first use and kept.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from bayplan.api.schema import Schema, definitions
from bayplan.support.memory.memo import memoized

SCALAR, LIST, MAP, ANY = "scalar", "list", "map", "any"

_UNTYPED = frozenset((
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
))  # fmt: skip
"""Definitions that say of their values only that they are scalars."""
_ZEROS = {"string": "", "integer": 0}
"""What a key that is always written has where it is left out."""
_KEY_DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.LocalObjectReference", "name"): "",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}
"""Defaults of fields that are keys of lists: an item that leaves the field out is the one with the default."""


class TypedError(ValueError):
    """A value does not fit its type; the message begins with the path."""


class Member(NamedTuple):
    """A field of a struct, or a key of a map."""

    element: str
    """Its path element."""
    type: Type
    takes_texts: bool
    """Whether any text fits."""
    is_declared: bool


class Type:
    """The ownership type of one value."""

    __slots__ = (
        "_element",
        "_fields",
        "_reference",
        "_types",
        "atomic",
        "defaults",
        "is_struct",
        "keys",
        "kind",
        "members",
        "scalar",
    )

    def __init__(self, kind: str, *, atomic: bool = False, scalar: str = "", keys: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.atomic = atomic
        self.scalar = scalar
        """`string`, `numeric`, `boolean`, or `untyped` for any of them."""
        self.keys = keys
        """The fields that identify an item of a list; () for sets and atomic lists."""
        self.defaults: dict[str, Any] = {}
        self.is_struct = False
        """Whether fields are declared; maps have any key."""
        self._fields: dict[str, Schema] = {}
        self._types: dict[str, Type] = {}
        """Of the fields that were asked for."""
        self.members: dict[str, Member] = {}
        """Of declared fields, those that `member` was asked for."""
        self._element: Type | Schema | None = None
        self._reference = ""

    @property
    def is_definition(self) -> bool:
        """Whether this is a definition of the published schema, all of whose values have a type."""
        return bool(self._reference)

    def field(self, name: str) -> Type | None:
        """The type of a field or key; None if no such field is declared and others are not allowed."""
        if not self.is_struct:
            return self.element
        known = self._types.get(name)
        if known is not None:
            return known
        schema = self._fields.get(name)
        if schema is None:
            return self.element
        found = self._types[name] = _type_of(schema)
        return found

    def member(self, name: str) -> Member | None:
        """What is known of a field or key; None as for `field`."""
        found = self.field(name)
        if found is None:
            return None
        takes_texts = found.kind == SCALAR and found.scalar in ("string", "untyped")
        member = Member("f:" + name, found, takes_texts, self.declares(name))
        if member.is_declared:
            self.members[name] = member
        return member

    def declares(self, name: str) -> bool:
        """Whether a field of this name is declared; other names may still be allowed."""
        return self.is_struct and name in self._fields

    @property
    def element(self) -> Type | None:
        """The type of the items of a list, of the values of a map, or of fields that are not declared."""
        if isinstance(self._element, dict):
            self._element = _type_of(self._element)
        return self._element

    def item_key(self, item: Any) -> str:
        """The path element of a list item. Raises TypedError if the item has none."""
        if not self.keys:
            if item is None:
                raise TypedError("associative list without keys has an element that's an explicit null")
            if isinstance(item, dict):
                raise TypedError("associative list without keys has an element that's a map type")
            if isinstance(item, list):
                raise TypedError("not supported: associative list with lists as elements")
            return "v:" + msgspec.json.encode(item).decode()
        if item is None:
            raise TypedError("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise TypedError("associative list with keys may not have non-map elements")
        if len(self.keys) == 1:
            (key,) = self.keys
            value = item.get(key)
            if type(value) is str:
                return key_of(key, value)
        found = {key: item[key] for key in self.keys if key in item}  # null is a value as well
        found = {key: self.defaults[key] for key in self.keys if key in self.defaults} | found
        if not found:
            names = " ".join(f'"{key}"' for key in self.keys)
            raise TypedError(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return "k:" + msgspec.json.encode(found, order="sorted").decode()


@memoized(1024)
def key_of(key: str, value: str) -> str:
    """The path element of an item with one key. Names of conditions and containers come again and again."""
    return "k:" + msgspec.json.encode({key: value}).decode()


def struct_of(fields: Mapping[str, Type]) -> Type:
    """A struct with fields whose types are known."""
    found = Type(MAP)
    found.is_struct = True
    found._fields, found._types = {name: {} for name in fields}, dict(fields)
    return found


def _untyped() -> Type:
    """A value without a schema, owned as a whole."""
    return Type(ANY, atomic=True)


def _deduced() -> Type:
    """A value without a schema whose maps are granular: objects of a custom resource that has none."""
    found = Type(ANY)
    found._element = found
    return found


DEDUCED = _deduced()


def _any_map() -> Type:
    """A map of values without a schema."""
    found = Type(MAP)
    found._element = DEDUCED
    return found


@functools.cache
def type_of_definition(name: str) -> Type:
    """The type of a definition of the published schema."""
    if name in _UNTYPED:
        return Type(SCALAR, scalar="untyped")
    if name == "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
        return Type(ANY, atomic=True)  # of which only the object says that it is no list and no map
    found = _make(definitions()[name])
    found._reference = name
    return found


def _type_of(schema: Schema) -> Type:
    reference = schema.get("$ref")
    if reference is None:
        return _make(schema)
    named = type_of_definition(reference)
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None and (map_type == "atomic") != named.atomic:
        return _make({**definitions()[reference], "x-kubernetes-map-type": map_type})
    return named


def type_of_schema(schema: Schema) -> Type:
    """The type of a schema that is no definition: that of a custom resource."""
    return _type_of(schema)


_SCALARS = {"string": "string", "integer": "numeric", "number": "numeric", "boolean": "boolean"}


def _make(schema: Schema) -> Type:
    if schema.get("x-kubernetes-int-or-string") or "oneOf" in schema:
        return Type(SCALAR, scalar="untyped")
    kind = schema.get("type")
    if kind == "string" and schema.get("format") not in (None, "", "byte"):
        return Type(SCALAR, scalar="untyped")
    if kind in _SCALARS:
        return Type(SCALAR, scalar=_SCALARS[kind])
    if kind == "array":
        return _list(schema)
    if "properties" not in schema and not isinstance(schema.get("additionalProperties"), dict):
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            return _untyped()
        return _any_map() if kind == "object" else DEDUCED
    found = Type(MAP, atomic=schema.get("x-kubernetes-map-type") == "atomic")
    if "properties" in schema:
        found.is_struct = True
        found._fields = dict(schema["properties"])
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            found._element = DEDUCED
    else:
        found._element = schema["additionalProperties"]
    return found


def _list(schema: Schema) -> Type:
    list_type = schema.get("x-kubernetes-list-type")
    keys: tuple[str, ...] = ()
    granular = list_type in ("set", "map")
    if list_type == "map":
        keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    elif list_type is None and "merge" in schema.get("x-kubernetes-patch-strategy", "").split(","):
        granular = True
        merge_key = schema.get("x-kubernetes-patch-merge-key")
        keys = (merge_key,) if merge_key else ()
    found = Type(LIST, atomic=not granular, keys=keys)
    found._element = schema.get("items", {})
    reference = schema.get("items", {}).get("$ref", "")
    declared = schema.get("items", {}).get("properties", {})
    found.defaults = {key: declared[key]["default"] for key in keys if "default" in declared.get(key, ())}
    if reference in definitions():
        item = definitions()[reference]
        types = {key: item["properties"].get(key, {}).get("type") for key in keys if key in item.get("required", ())}
        found.defaults |= {key: _ZEROS[kind] for key, kind in types.items() if kind in _ZEROS}
    found.defaults |= {key: default for (name, key), default in _KEY_DEFAULTS.items() if name == reference}
    return found
