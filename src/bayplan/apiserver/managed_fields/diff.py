"""Which fields of typed objects a write sets or changes, as sets of paths.

Structs are compared first, which is cheap, and only the innermost parts that differ are taken to JSON trees. The fields of a new object are read off its structs.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import msgspec

from bayplan.api.codec import encode
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.custom_resources.ownership import ownership_type
from bayplan.api.managedfields.compare import Comparison, compare, whole
from bayplan.api.managedfields.fieldset import LEAF, FieldSet, union
from bayplan.api.managedfields.typed import LIST, SCALAR, Type, TypedError, key_of, struct_of, type_of_definition
from bayplan.api.schema import definition_of
from bayplan.api.types import meta_v1
from bayplan.apiserver.managed_fields.object_parts import METADATA, Part, parts_of


def type_of(cls: Any) -> Type:
    """The ownership type of a class of objects."""
    return ownership_type(cls) if issubclass(cls, CustomObject) else _type_of_struct(cls)


@functools.cache
def _type_of_struct(cls: Any) -> Type:
    return type_of_definition(definition_of(cls))


def compare_objects(old: Any, new: Any) -> Comparison:
    """What changed between two objects of one class."""
    if isinstance(new, CustomObject):
        return compare(_tracked(old), _tracked(new), type_of(new.__class__))
    kind = type_of(new.__class__)
    removed, modified, added = _compare_parts(old, new, parts_of(new.__class__), kind)
    metadata_type = type_of(meta_v1.ObjectMeta)
    parts = parts_of(meta_v1.ObjectMeta, METADATA)
    inner = _compare_parts(old.metadata, new.metadata, parts, metadata_type)
    for fields, below in zip((removed, modified, added), inner, strict=True):
        if below:
            fields["f:metadata"] = below
    return Comparison(removed, modified, added)


def _tracked(obj: CustomObject) -> dict[str, Any]:
    """The tree of a custom object, without what nobody owns."""
    metadata = msgspec.json.decode(encode(obj.metadata))
    kept = {part.wire: metadata[part.wire] for part in parts_of(meta_v1.ObjectMeta, METADATA) if part.wire in metadata}
    return {"metadata": kept, **obj.content}


def _compare_parts(old: Any, new: Any, parts: tuple[Part, ...], kind: Type) -> tuple[FieldSet, FieldSet, FieldSet]:
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    for part in parts:
        now = getattr(new, part.attribute)
        was = getattr(old, part.attribute)
        if was is now or was == now:
            continue
        inner = kind.field(part.wire)
        assert inner is not None
        if inner.kind == SCALAR or inner.atomic:
            was_there, is_there = (part.is_written_empty or value != part.empty for value in (was, now))
            (added if not was_there else modified if is_there else removed)[part.key] = LEAF
            continue
        below = None
        if _is_granular(part, inner, was, now):
            below = _compare_parts(was, now, parts_of(now.__class__, every=True), inner)
        elif inner.kind == LIST and was and now:
            below = _compare_items(was, now, inner)
        if below is not None:
            for fields, node in zip((removed, modified, added), below, strict=True):
                if node:
                    fields[part.key] = node
            continue
        # wrapped in a map, so that a field that comes or goes as a whole is told from one that changes inside
        found = compare(_tree_of(part, was), _tree_of(part, now), _wrapper(part.wire, inner))
        for fields, one in zip((removed, modified, added), found, strict=True):
            if one:
                fields[part.key] = one[part.key]
    return removed, modified, added


def _is_granular(part: Part, kind: Type, was: Any, now: Any) -> bool:
    """Whether a part is a struct that both objects have and that is owned field by field."""
    if kind.atomic or not kind.is_struct or now.__class__ is not was.__class__ or not isinstance(now, msgspec.Struct):
        return False
    return part.is_written_empty or (was != part.empty and now != part.empty)


def _compare_items(was: Any, now: Any, kind: Type) -> tuple[FieldSet, FieldSet, FieldSet] | None:
    """What changed in a list of structs that one text each tells apart; None for any other list, which trees say more about."""
    element = kind.element
    if element is None or element.atomic or not element.is_struct:
        return None
    before, after = _by_key(was, kind), _by_key(now, kind)
    if before is None or after is None:
        return None
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old is None:
            added[key] = whole(msgspec.json.decode(encode(new)), element)
        elif new is None:
            removed[key] = whole(msgspec.json.decode(encode(old)), element)
        elif old != new:
            found = _compare_parts(old, new, parts_of(new.__class__, every=True), element)
            for fields, node in zip((removed, modified, added), found, strict=True):
                if node:
                    fields[key] = node
    return removed, modified, added


def _by_key(items: Any, kind: Type) -> dict[str, msgspec.Struct] | None:
    """The items by path element; None if they are no structs, or not each has a text of its own under one key."""
    first = items[0]
    attribute = _key_attribute(first.__class__, kind.keys)
    if not attribute:
        return None
    found = {}
    for item in items:
        value = getattr(item, attribute)
        if type(value) is not str or not value:
            return None
        found[key_of(kind.keys[0], value)] = item
    return found if len(found) == len(items) else None


@functools.cache
def _key_attribute(cls: Any, keys: tuple[str, ...]) -> str:
    """The attribute of a struct class that is the only key of such items; "" if there is no such thing."""
    if len(keys) != 1 or not issubclass(cls, msgspec.Struct):
        return ""
    return next((part.attribute for part in parts_of(cls, every=True) if part.wire == keys[0]), "")


@functools.lru_cache(maxsize=4096)
def _wrapper(name: str, inner: Type) -> Type:
    """A struct with one field."""
    return struct_of({name: inner})


def _tree_of(part: Part, value: Any) -> Any:
    """`{field: value}` as JSON would show it; the field is left out where JSON leaves it out."""
    if not part.is_written_empty and value == part.empty:
        return {}
    return {part.wire: msgspec.json.decode(encode(value))}


class NewFields(NamedTuple):
    """The fields of a part of a new object: the node below its key, and the same as it is stored."""

    node: FieldSet
    stored: bytes

    @classmethod
    def of(cls, key: str, node: FieldSet) -> NewFields:
        """The fields of the part with this key."""
        return cls(node, b'"%b":%b' % (key.encode(), encode(node)))


class _Member(NamedTuple):
    """A part of a struct, with its ownership type."""

    attribute: str
    wire: str
    key: str
    empty: Any
    is_written_empty: bool
    kind: Type
    is_leaf: bool
    """Whether it is owned as a whole."""


@functools.cache
def _members_of(cls: Any, kind: Type) -> tuple[_Member, ...]:
    found = []
    for part in parts_of(cls, every=True):
        inner = kind.field(part.wire)
        if inner is None:
            raise TypedError(f".{part.wire}: field not declared in schema")
        found.append(_Member(*part, inner, inner.kind == SCALAR or inner.atomic))
    return tuple(sorted(found, key=lambda one: one.wire))


def _added(value: Any, kind: Type) -> FieldSet:
    """`whole` of what JSON shows of a value that is not empty, without going through JSON. Raises TypedError if a list item lacks its keys."""
    if kind.kind == SCALAR or kind.atomic:
        return LEAF
    found: FieldSet = {".": LEAF}
    if isinstance(value, msgspec.Struct) and kind.is_struct:
        for one in _members_of(value.__class__, kind):
            inner = getattr(value, one.attribute)
            if one.is_written_empty or inner != one.empty:
                found[one.key] = LEAF if one.is_leaf else _added(inner, one.kind)
    elif isinstance(value, tuple) and kind.kind == LIST:
        found |= _added_items(value, kind)
    elif isinstance(value, dict) and not kind.is_struct and kind.element is not None:
        element = kind.element
        found |= {f"f:{name}": _added(value[name], element) for name in sorted(value)}
    else:
        return whole(msgspec.json.decode(encode(value)), kind)
    return found if len(found) > 1 else LEAF


def _added_items(items: tuple[Any, ...], kind: Type) -> FieldSet:
    element = kind.element
    assert element is not None
    found: FieldSet = {}
    for item in items:
        key = _item_key(item, kind)
        found[key] = LEAF if key in found else _added(item, element)
    return dict(sorted(found.items()))


def _item_key(item: Any, kind: Type) -> str:
    """`Type.item_key` of what JSON shows of an item."""
    if not isinstance(item, msgspec.Struct):
        return kind.item_key(item)
    attributes = _key_attributes(item.__class__, kind.keys)
    if len(attributes) == 1 and type(text := getattr(item, attributes[0].attribute)) is str and text:
        return key_of(kind.keys[0], text)
    keys = {}
    for part in attributes:
        value = getattr(item, part.attribute)
        if part.is_written_empty or value != part.empty:
            keys[part.wire] = msgspec.json.decode(encode(value))
    return kind.item_key(keys)


@functools.cache
def _key_attributes(cls: Any, keys: tuple[str, ...]) -> tuple[Part, ...]:
    """The parts of a struct class that are keys of list items, in the order of the keys."""
    parts = {part.wire: part for part in parts_of(cls, every=True)}
    return tuple(parts[key] for key in keys if key in parts)


def _filled(value: Any, kind: Type, empty: Any) -> FieldSet | None:
    """The same for a value of which JSON shows something even if it is empty: it was there before, so only what is in it counts. None if that is nothing.

    empty: what was there before; in a null there was nothing.
    """
    found: FieldSet = {}
    if isinstance(value, msgspec.Struct) and kind.is_struct:
        for one in _members_of(value.__class__, kind):
            inner = getattr(value, one.attribute)
            if inner == one.empty:
                continue
            if one.is_leaf:
                found[one.key] = LEAF
            elif empty is None or not one.is_written_empty:
                found[one.key] = _added(inner, one.kind)
            elif (node := _filled(inner, one.kind, one.empty)) is not None:
                found[one.key] = node
    elif isinstance(value, tuple) and kind.kind == LIST:
        found = _added_items(value, kind)
    else:
        raise TypeError(f"{value.__class__.__name__}: neither a struct nor a list, yet always written")
    return found or None


def _fields_of_new(part: Part, value: Any, kind: Type) -> NewFields | None:
    """The fields that a part of a new object sets; None if JSON shows no difference to an empty one.

    Raises TypedError if a list item lacks its keys.
    """
    inner = kind.field(part.wire)
    assert inner is not None
    if inner.kind == SCALAR or inner.atomic:
        return NewFields.of(part.key, LEAF)
    node = _filled(value, inner, part.empty) if part.is_written_empty else _added(value, inner)
    return None if node is None else NewFields.of(part.key, node)


def fields_of(new: Any) -> tuple[dict[str, NewFields], dict[str, NewFields]]:
    """The fields that a new object sets: of metadata, and the others, by path element. Raises TypedError if a list item lacks its keys."""
    if isinstance(new, CustomObject):
        return _fields_of_custom(new)
    cls = new.__class__
    metadata = new.metadata
    below = {}
    for part in parts_of(meta_v1.ObjectMeta, METADATA):
        value = getattr(metadata, part.attribute)
        if value:
            known = _fields_of_new(part, value, type_of(meta_v1.ObjectMeta))
            if known is not None:
                below[part.key] = known
    fields = {}
    for part in parts_of(cls):
        value = getattr(new, part.attribute)
        if value != part.empty:
            known = _fields_of_new(part, value, type_of(cls))
            if known is not None:
                fields[part.key] = known
    return below, fields


def _fields_of_custom(new: CustomObject) -> tuple[dict[str, NewFields], dict[str, NewFields]]:
    """`fields_of` for custom resources."""
    changes = compare({"metadata": {}}, _tracked(new), type_of(new.__class__))
    fields = union(changes.modified, changes.added)
    below = fields.pop("f:metadata", None) or {}
    return (
        {key: NewFields.of(key, node) for key, node in below.items()},
        {key: NewFields.of(key, node) for key, node in fields.items()},
    )
