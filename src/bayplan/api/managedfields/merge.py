"""Laying an applied configuration over a live object, and taking fields out of an object. Trees are JSON values and are not changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bayplan.api.custom_resources.go_values import go_syntax, shown, type_name
from bayplan.api.errors import MAX_ERROR_BYTES
from bayplan.api.managedfields.compare import ABSENT, named
from bayplan.api.managedfields.fieldset import LEAF, FieldSet, has, path_text
from bayplan.api.managedfields.typed import LIST, MAP, SCALAR, Type, TypedError


def validate(tree: Any, kind: Type, *, unique: bool = True) -> None:
    """Check that a tree fits the schema: known fields, right scalars, and (`unique`, which old objects need not be) no key twice.

    Raises TypedError with every problem.
    """
    problems = _Problems()
    _named_if_valid(tree, kind, None, problems, unique)
    problems.raise_any()


def validated_fields(tree: Any, kind: Type) -> FieldSet:
    """The fields that a configuration names, as `field_set` does, of one that is validated on the way. Raises TypedError as `validate` does."""
    problems = _Problems()
    node = _named_if_valid(tree, kind, None, problems, unique=True)
    problems.raise_any()
    return node or {}


class _Problems:
    """What is wrong: the first problems in words, as many as an error tells, and how many there are besides."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._letters = self._more = 0

    def add(self, path: _Path, rest: Callable[[], str]) -> None:
        """One more. rest: what follows the path; not asked for if nobody will read it."""
        if self._more:
            self._more += 1
            return
        text = _text(path) + rest()
        self._letters += len(text)
        if self._letters > MAX_ERROR_BYTES and self._texts:
            self._more = 1
        else:
            self._texts.append(text)

    def raise_any(self) -> None:
        """Raise TypedError if there are any."""
        told = [*self._texts, f"and {self._more} more"] if self._more else self._texts
        if told:
            raise TypedError(told[0] if len(told) == 1 else "\n  ".join(["errors:", *told]))


_FITS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "numeric": (int, float),
    "boolean": (bool,),
    "untyped": (str, int, float, bool),
}


_Path = tuple[Any, str] | None
"""Where a value is: the path of what it is in, and its own path element or, in an atomic list, `i:` and its index. None for the whole.

It becomes a text when there is a problem: `((None, "f:spec"), "f:replicas")` is `.spec.replicas`.
"""


def _text(path: _Path) -> str:
    elements = []
    while path is not None:
        path, element = path
        elements.append(element)
    return path_text(tuple(reversed(elements)))


def _named_if_valid(value: Any, kind: Type, path: _Path, problems: _Problems, unique: bool) -> FieldSet | None:
    """The node of a value in the set of fields that a tree names; None if it holds no path by itself, or has problems."""
    if kind.kind == SCALAR:
        if value is not None and not _is_right_scalar(value, kind):
            wanted = {"numeric": "numeric (int or float)", "untyped": "any scalar"}.get(kind.scalar, kind.scalar)
            problems.add(path, lambda: f": expected {wanted}, got {_shown(value, kind)}")
        return LEAF
    if value is None:
        return LEAF if kind.atomic else None
    if kind.kind == LIST:
        return _named_items_if_valid(value, kind, path, problems, unique)
    if kind.kind == MAP:
        return _named_members_if_valid(value, kind, path, problems, unique)
    return named(value, kind)


def _is_right_scalar(value: Any, kind: Type) -> bool:
    return isinstance(value, _FITS[kind.scalar]) and not (kind.scalar == "numeric" and isinstance(value, bool))


def _shown(value: Any, kind: Type) -> str:
    if kind.scalar == "numeric":
        return type_name(value)
    return (
        f"&value.valueUnstructured{{Value:{go_syntax(value)}}}" if kind.scalar == "string" else f"&{{{shown(value)}}}"
    )


def _named_items_if_valid(value: Any, kind: Type, path: _Path, problems: _Problems, unique: bool) -> FieldSet | None:
    if not isinstance(value, list):
        problems.add(path, lambda: f": expected list, got &{{{shown(value)}}}")
        return None
    element = kind.element
    assert element is not None
    is_scalar = element.kind == SCALAR
    if kind.atomic:
        is_map = element.kind == MAP
        for index, item in enumerate(value):
            if not (is_map and item == {}) and not (is_scalar and _is_right_scalar(item, element)):
                _named_if_valid(item, element, (path, f"i:{index}"), problems, unique)
        return LEAF
    found: FieldSet = {}
    for index, item in enumerate(value):
        try:
            key = kind.item_key(item)
        except TypedError as error:
            problems.add(path, partial(_without_key, index, str(error)))
            return None
        node, is_known = None, key in found
        if is_known and unique:
            problems.add(path, partial(_duplicate, key))
        if not (is_scalar and _is_right_scalar(item, element)):
            node = _named_if_valid(item, element, (path, key), problems, unique)
        if is_known:
            node = None
        found[key] = {".": LEAF, **node} if node else LEAF
    return _sorted(found)


def _sorted(found: FieldSet) -> FieldSet | None:
    """A set with its elements in order; None if it is empty."""
    if len(found) > 1:
        keys = list(found)
        if keys != sorted(keys):
            return dict(sorted(found.items()))
    return found or None


def _without_key(index: int, problem: str) -> str:
    return f": element {index}: {problem}"


def _duplicate(key: str) -> str:
    return f": duplicate entries for key {path_text((key,))}"


def _named_members_if_valid(value: Any, kind: Type, path: _Path, problems: _Problems, unique: bool) -> FieldSet | None:
    if not isinstance(value, dict):
        problems.add(path, lambda: f": expected map, got &{{{shown(value)}}}")
        return None
    found: FieldSet = {}
    known = kind.members
    for name, item in value.items():
        member = known.get(name) or kind.member(name)
        if member is None:
            problems.add(path, partial(_undeclared, name))
            break  # as Kubernetes does, which begins anywhere
        key, inner, takes_texts, is_declared = member
        node: FieldSet | None = LEAF
        if not (takes_texts and type(item) is str):
            node = _named_if_valid(item, inner, (path, key), problems, unique)
            if item is None or item == {} or not is_declared:
                node = {".": LEAF, **node} if node else LEAF
        if node is not None:
            found[key] = node
    return LEAF if kind.atomic else _sorted(found)


def _undeclared(name: str) -> str:
    return f".{name}: field not declared in schema"


def merge(live: Any, applied: Any, kind: Type, *, live_fits: bool = False) -> Any:
    """The live tree with the applied one laid over it. Both sides may be ABSENT, but not both at once. Returns ABSENT where nothing is left.

    applied: fits the schema (`validated_fields`). live_fits: whether the live tree is known to do so. What only one side has, and fits, is not looked at.
    """
    if live is ABSENT:
        return applied
    if applied is ABSENT and live_fits:
        return live
    if kind.kind == SCALAR or kind.atomic:
        return live if applied is ABSENT else applied
    value = live if applied is ABSENT or applied is None else applied
    if not live and (applied is ABSENT or not applied):  # whether nothing is null, empty or absent is kept
        return live if applied is ABSENT else applied
    if kind.kind == LIST:
        return _merge_lists(live, applied, kind, live_fits)
    if kind.kind == MAP or isinstance(value, dict):
        return _merge_maps(live, applied, kind, live_fits)
    return live if applied is ABSENT else applied


def _merge_maps(live: Any, applied: Any, kind: Type, live_fits: bool) -> Any:
    before = live if isinstance(live, dict) else {}
    after = applied if isinstance(applied, dict) else {}
    result = dict(before) if live_fits else {}
    for name in after if live_fits else (*before, *(name for name in after if name not in before)):
        now = after.get(name, ABSENT)
        if type(now) is str or (live_fits and now == before.get(name, ABSENT)):
            result[name] = now
            continue
        inner = kind.field(name)
        if inner is None:
            raise TypedError(f".{name}: field not declared in schema")
        merged = merge(before.get(name, ABSENT), now, inner, live_fits=live_fits)
        if merged is not ABSENT:
            result[name] = merged
        else:
            result.pop(name, None)
    return result or ABSENT


def _merge_lists(live: Any, applied: Any, kind: Type, live_fits: bool) -> Any:
    """Items of both: applied ones in their order, those only live where they stood between the ones that both have."""
    before = live if isinstance(live, list) else []
    after = applied if isinstance(applied, list) else []
    element = kind.element
    assert element is not None
    old_keys = [kind.item_key(item) for item in before]
    new_keys = [kind.item_key(item) for item in after]
    if old_keys == new_keys and len({*new_keys}) == len(new_keys):  # most changes leave the order as it is
        same = [merge(was, now, element, live_fits=live_fits) for was, now in zip(before, after, strict=True)]
        return [one for one in same if one is not ABSENT] or ABSENT
    known: dict[str, Any] = {}
    for key, item in zip(old_keys, before, strict=True):
        known[key] = ABSENT if key in known else item  # items under the same key are not merged with a new one
    wanted = dict(zip(new_keys, after, strict=True))
    shared = iter([key for key in new_keys if key in known])
    next_shared = next(shared, None)
    result: list[Any] = []
    merged: set[str] = set()

    def take(key: str) -> None:
        merged.add(key)
        one = merge(known.get(key, ABSENT), wanted[key], element, live_fits=live_fits)
        if one is not ABSENT:
            result.append(one)

    at_old = at_new = 0
    while at_old < len(old_keys) or at_new < len(new_keys):
        if at_old < len(old_keys) and at_new < len(new_keys):
            key = old_keys[at_old]
            if key == new_keys[at_new]:
                take(key)
                at_old += 1
                at_new += 1
                next_shared = next(shared, None)
                continue
            if key in wanted and next_shared is not None and next_shared != key:
                at_old += 1
                continue
        if at_old < len(old_keys):
            key = old_keys[at_old]
            if key not in wanted:
                result.append(before[at_old])
                at_old += 1
                continue
            if key in merged:
                at_old += 1
        if at_new < len(new_keys):
            key = new_keys[at_new]
            take(key)
            at_new += 1
            if next_shared == key:
                next_shared = next(shared, None)
    return result or ABSENT


def remove(tree: Any, fields: FieldSet, kind: Type) -> Any:
    """The tree without these fields; items of lists that are named go as a whole. Returns None where nothing is left."""
    if kind.kind == SCALAR:
        return tree
    if kind.kind == LIST:
        return _remove_items(tree, fields, kind)
    if not isinstance(tree, dict) or not tree or kind.atomic:
        return None
    result = {}
    for name, item in tree.items():
        key = "f:" + name
        node = fields.get(key)
        if node is not None:
            if has(fields, (key,)):
                continue
            inner = kind.field(name)
            item = remove(item, node, inner) if inner is not None else item
        result[name] = item
    return result or None


def _remove_items(tree: Any, fields: FieldSet, kind: Type) -> Any:
    if not isinstance(tree, list) or not tree or kind.atomic:
        return None
    element = kind.element
    assert element is not None
    result = []
    for item in tree:
        key = kind.item_key(item)
        node = fields.get(key)
        if node is not None:
            if has(fields, (key,)):
                continue
            item = remove(item, node, element)
        result.append(item)
    return result or None


def with_named_fields(fields: FieldSet, kind: Type | None) -> FieldSet:
    """The set in which every declared field on the way to a path is in the set as well."""
    result = {}
    for key, node in fields.items():
        if not node or key == ".":
            result[key] = node
            continue
        inner: Type | None = None
        declared = False
        if kind is not None and key.startswith("f:") and kind.kind != LIST:
            inner = kind.field(key[2:])
            declared = kind.is_struct and inner is not None
        elif kind is not None and key.startswith("k:"):
            inner = kind.element
        below = with_named_fields(node, inner)
        result[key] = {".": LEAF, **below} if declared else below
    return result
