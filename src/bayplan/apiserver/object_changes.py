"""Which fields of typed objects a write sets or changes, as sets of paths.

Structs are compared first, which is cheap, and only the innermost parts that differ are taken to JSON trees. The fields of a new part (a pod's spec, say) depend on
nothing but its bytes, so they are kept for the next object like it.
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
from bayplan.api.managedfields.typed import LIST, MAP, SCALAR, Type, key_of, type_of_definition
from bayplan.api.schema import definition_of
from bayplan.api.types import meta_v1
from bayplan.apiserver.object_parts import METADATA, Part, parts_of

_KEPT_PARTS, _KEPT_BYTES = 2048, 4096


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


class _Wrapper(Type):
    """A struct with one field."""

    __slots__ = ()


@functools.lru_cache(maxsize=4096)
def _wrapper(name: str, inner: Type) -> Type:
    found = _Wrapper(MAP)
    found.is_struct = True
    found._fields = {name: inner}
    return found


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


@functools.lru_cache(maxsize=4096)
def _listed(key: str, keys: tuple[str, ...]) -> NewFields:
    """The fields of a part with so many scalars in it; of a scalar if there are none."""
    return NewFields.of(key, dict.fromkeys(keys, LEAF) if keys else LEAF)


@functools.cache
def _scalars_of(cls: type[Any], kind: Type) -> tuple[Part, ...]:
    """The parts of a class whose parts are all owned as a whole each; () for any other class."""
    if kind.atomic or not kind.is_struct or not issubclass(cls, msgspec.Struct):
        return ()
    parts = parts_of(cls, every=True)
    for part in parts:
        inner = kind.field(part.wire)
        if inner is None or not (inner.kind == SCALAR or inner.atomic):
            return ()
    return parts


_kept: dict[tuple[Any, str, bytes], NewFields | None] = {}


def _fields_of_new(cls: Any, part: Part, value: Any, kind: Type) -> NewFields | None:
    """The fields that a part of a new object sets; None if JSON shows no difference to an empty one.

    Raises TypedError if a list item lacks its keys.
    """
    inner = kind.field(part.wire)
    assert inner is not None
    if inner.kind == SCALAR or inner.atomic:
        return _listed(part.key, ())
    scalars = _scalars_of(value.__class__, inner)
    if scalars:
        was_there = part.is_written_empty
        keys = [
            one.key
            for one in scalars
            if getattr(value, one.attribute) != one.empty or (one.is_written_empty and not was_there)
        ]
        return _listed(part.key, (".", *keys) if keys and not was_there else tuple(keys))
    data = encode(value)
    key = (cls, part.wire, data)
    known = _kept.get(key)
    if known is None and key not in _kept:
        found = compare(_tree_of(part, part.empty), _tree_of(part, value), _wrapper(part.wire, inner))
        node = union(found.modified, found.added).get(part.key)
        known = None if node is None else NewFields.of(part.key, node)
        if len(data) <= _KEPT_BYTES:
            if len(_kept) >= _KEPT_PARTS:
                _kept.clear()
            _kept[key] = known
    return known


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
            known = _fields_of_new(meta_v1.ObjectMeta, part, value, type_of(meta_v1.ObjectMeta))
            if known is not None:
                below[part.key] = known
    fields = {}
    for part in parts_of(cls):
        value = getattr(new, part.attribute)
        if value != part.empty:
            known = _fields_of_new(cls, part, value, type_of(cls))
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
