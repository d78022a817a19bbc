"""Which fields two states of an object differ in, and which fields a configuration names. Trees are JSON values; ABSENT stands for a field that is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from bayplan.api.managedfields.fieldset import LEAF, FieldSet, union
from bayplan.api.managedfields.typed import ANY, LIST, MAP, SCALAR, Type, TypedError


class _Absent:
    """The type of ABSENT."""


ABSENT: Final = _Absent()


class Comparison(NamedTuple):
    """The fields by what happened to them; no path is in two of the sets."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not (self.removed or self.modified or self.added)

    def filtered(self, keep: Callable[[FieldSet], FieldSet]) -> Comparison:
        """The comparison as seen through a filter."""
        return self if self.is_same else Comparison(*(keep(one) for one in self))


_SAME = Comparison({}, {}, {})


def compare(old: Any, new: Any, kind: Type) -> Comparison:
    """What changed from one tree to another. Raises TypedError if a list item has no key."""
    if old is not ABSENT and old == new and (kind.is_definition or same_types(old, new)):
        return _SAME
    found = _Differences(are_typed=kind.is_definition)
    node = found.walk(old, new, kind)
    return Comparison(*(one or {} for one in node))


def same_types(old: Any, new: Any) -> bool:
    """Whether values that Python holds equal are so in JSON, where True is not 1. Inside the trees of definitions the schema keeps the types apart."""
    if isinstance(old, (dict, list)):
        return _encoded(old) == _encoded(new)
    return type(old) is type(new)


_encoded = msgspec.json.Encoder(order="deterministic").encode
_Three = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
_NOTHING: _Three = (None, None, None)
_REMOVED: _Three = (LEAF, None, None)
_MODIFIED: _Three = (None, LEAF, None)
_ADDED: _Three = (None, None, LEAF)


class _Differences:
    """One walk over two trees, as far as both have something.

    Each step returns the nodes of the three sets for the value at hand, None where a set has nothing there.
    """

    def __init__(self, *, are_typed: bool) -> None:
        self._are_typed = are_typed

    def walk(self, old: Any, new: Any, kind: Type) -> _Three:
        if kind.kind == SCALAR or kind.atomic:
            return self._leaf(old, new)
        if old is ABSENT:
            return None, None, whole(new, kind)
        if new is ABSENT:
            return whole(old, kind), None, None
        value = old if new is None else new
        if kind.kind == ANY and None not in (old, new) and isinstance(old, dict) is not isinstance(new, dict):
            removed, _, added = self._map(old, new, kind)  # a map and something else: what was in it, and the place
            return removed, LEAF, added
        if kind.kind == LIST:
            return self._list(old, new, kind)
        if kind.kind == MAP or isinstance(value, dict):
            return self._map(old, new, kind)
        return self._leaf(old, new)

    @staticmethod
    def _leaf(old: Any, new: Any) -> _Three:
        if old is ABSENT:
            return _ADDED
        if new is ABSENT:
            return _REMOVED
        return _NOTHING if old == new and same_types(old, new) else _MODIFIED

    def _map(self, old: Any, new: Any, kind: Type) -> _Three:
        if not old and not new:
            return self._leaf(old, new)
        before = old if isinstance(old, dict) else {}
        after = new if isinstance(new, dict) else {}
        removed: FieldSet = {}
        modified: FieldSet = {}
        added: FieldSet = {}
        for name in _different(before, after, are_typed=self._are_typed):
            inner = kind.field(name)
            if inner is None:
                raise TypedError(f".{name}: field not declared in schema")
            node = self.walk(before.get(name, ABSENT), after.get(name, ABSENT), inner)
            _put(removed, modified, added, "f:" + name, node)
        return removed or None, modified or None, added or None

    def _list(self, old: Any, new: Any, kind: Type) -> _Three:
        if not old and not new:
            return self._leaf(old, new)
        if not kind.keys and _are_different_texts(old) and _are_different_texts(new):
            return self._set(frozenset(old or ()), frozenset(new or ()), kind)
        before, after = _by_key(old, kind), _by_key(new, kind)
        removed: FieldSet = {}
        modified: FieldSet = {}
        added: FieldSet = {}
        element = kind.element
        assert element is not None
        for key in sorted(before.keys() | after.keys()):
            _put(removed, modified, added, key, self._items(before.get(key, ()), after.get(key, ()), element))
        return removed or None, modified or None, added or None

    @staticmethod
    def _set(before: frozenset[str], after: frozenset[str], kind: Type) -> _Three:
        """The items of a set of texts can come and go, but not change."""
        removed: FieldSet = dict.fromkeys(sorted(map(kind.item_key, before - after)), LEAF)
        added: FieldSet = dict.fromkeys(sorted(map(kind.item_key, after - before)), LEAF)
        return removed or None, None, added or None

    def _items(self, before: list[Any] | tuple[()], after: list[Any] | tuple[()], element: Type) -> _Three:
        """Items under one key. Several under the same key, which old objects may have, count as one atomic value."""
        if len(before) <= 1 and len(after) <= 1:
            was, now = (before[0] if before else ABSENT), (after[0] if after else ABSENT)
            return _NOTHING if was is not ABSENT and was == now else self.walk(was, now, element)
        if len(before) > 1 and len(after) > 1:
            return _NOTHING if before == after else _MODIFIED
        if len(before) > 1:
            removed, modified, added = self.walk(ABSENT, after[0], element) if after else _NOTHING
            return LEAF if removed is None else union({".": LEAF}, removed), modified, added
        removed, modified, added = self.walk(before[0], ABSENT, element) if before else _NOTHING
        return removed, modified, LEAF if added is None else union({".": LEAF}, added)


def _are_different_texts(items: Any) -> bool:
    """Whether a value is a list of texts none of which stands there twice, or null."""
    if items is None:
        return True
    return isinstance(items, list | tuple) and all(type(one) is str for one in items) and len(set(items)) == len(items)


def _different(before: dict[str, Any], after: dict[str, Any], *, are_typed: bool) -> list[str]:
    """The names, in order, under which two maps do not hold the same."""
    names = []
    for name, was in before.items():
        now = after.get(name, ABSENT)
        if was != now or type(was) is not type(now) or not (are_typed or same_types(was, now)):
            names.append(name)
    names += [name for name in after if name not in before]
    names.sort()
    return names


def _by_key(value: Any, kind: Type) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in value if isinstance(value, (list, tuple)) else ():
        found.setdefault(kind.item_key(item), []).append(item)
    return found


def _put(removed: FieldSet, modified: FieldSet, added: FieldSet, key: str, three: _Three) -> None:
    if three[0] is not None:
        removed[key] = three[0]
    if three[1] is not None:
        modified[key] = three[1]
    if three[2] is not None:
        added[key] = three[2]


def whole(value: Any, kind: Type) -> FieldSet:
    """The node of a value that comes or goes as a whole: the value itself and all that is in it."""
    if kind.kind == SCALAR or kind.atomic or not value:
        return LEAF
    found: FieldSet = {".": LEAF}
    if kind.kind == LIST:
        element = kind.element
        assert element is not None
        for key, items in sorted(_by_key(value, kind).items()):
            found[key] = whole(items[0], element) if len(items) == 1 else LEAF
    elif isinstance(value, dict):
        for name in sorted(value):
            inner = kind.field(name)
            if inner is None:
                raise TypedError(f".{name}: field not declared in schema")
            found["f:" + name] = whole(value[name], inner)
    elif kind.kind != MAP:
        return LEAF
    return found


def field_set(tree: Any, kind: Type) -> FieldSet:
    """The fields that a configuration names. Raises TypedError if a list item has no key."""
    return named(tree, kind) or {}


def named(value: Any, kind: Type) -> FieldSet | None:
    """The node of a value; None if the value holds no path by itself (an empty granular map or list, null)."""
    if kind.kind == SCALAR or kind.atomic:
        return LEAF
    if kind.kind == LIST:
        return _named_items(value, kind)
    if not isinstance(value, dict):
        return None if kind.kind == MAP or value is None else LEAF
    found: FieldSet = {}
    for name in sorted(value):
        item = value[name]
        inner = kind.field(name)
        if inner is None:
            raise TypedError(f".{name}: field not declared in schema")
        node = named(item, inner)
        itself = item is None or item == {} or not kind.declares(name)
        if itself:
            node = LEAF if not node else {".": LEAF, **node}
        if node is not None:
            found["f:" + name] = node
    return found or None


def _named_items(value: Any, kind: Type) -> FieldSet | None:
    element = kind.element
    assert element is not None
    found: FieldSet = {}
    for key, items in sorted(_by_key(value, kind).items()):
        node = named(items[0], element) if len(items) == 1 else None
        found[key] = {".": LEAF, **node} if node else LEAF
    return found or None
