"""Laying an applied configuration over a live object, and taking fields out of an object. Trees are JSON values and are not changed."""

from __future__ import annotations

from typing import Any

from bayplan.api.custom_resources.go_values import go_syntax, shown, type_name
from bayplan.api.errors import MAX_ERROR_BYTES
from bayplan.api.managedfields.compare import ABSENT
from bayplan.api.managedfields.fieldset import LEAF, FieldSet, has, path_text
from bayplan.api.managedfields.typed import LIST, MAP, SCALAR, Type, TypedError


def validate(tree: Any, kind: Type, *, unique: bool = True) -> None:
    """Check that a tree fits the schema: known fields, right scalars, and (`unique`, which old objects need not be) no key twice.

    Raises TypedError with every problem.
    """
    problems: list[str] = []
    _validate(tree, kind, None, problems, unique)
    if len(problems) == 1:
        raise TypedError(problems[0])
    if problems:
        raise TypedError("\n  ".join(["errors:", *_told(problems)]))


def _told(problems: list[str]) -> list[str]:
    """The problems; of very many, the first ones and how many there are besides."""
    letters = 0
    for index, problem in enumerate(problems):
        letters += len(problem)
        if letters > MAX_ERROR_BYTES and index:
            return [*problems[:index], f"and {len(problems) - index} more"]
    return problems


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


def _validate(value: Any, kind: Type, path: _Path, problems: list[str], unique: bool) -> None:
    if value is None:
        return
    if kind.kind == SCALAR:
        is_other_bool = isinstance(value, bool) and kind.scalar == "numeric"
        if not isinstance(value, _FITS[kind.scalar]) or is_other_bool:
            wanted = {"numeric": "numeric (int or float)", "untyped": "any scalar"}.get(kind.scalar, kind.scalar)
            problems.append(f"{_text(path)}: expected {wanted}, got {_shown(value, kind)}")
    elif kind.kind == LIST:
        _validate_list(value, kind, path, problems, unique)
    elif kind.kind == MAP:
        _validate_map(value, kind, path, problems, unique)


def _shown(value: Any, kind: Type) -> str:
    if kind.scalar == "numeric":
        return type_name(value)
    return (
        f"&value.valueUnstructured{{Value:{go_syntax(value)}}}" if kind.scalar == "string" else f"&{{{shown(value)}}}"
    )


def _validate_list(value: Any, kind: Type, path: _Path, problems: list[str], unique: bool) -> None:
    if not isinstance(value, list):
        problems.append(f"{_text(path)}: expected list, got &{{{shown(value)}}}")
        return
    element = kind.element
    assert element is not None
    if kind.atomic:
        is_map = element.kind == MAP
        for index, item in enumerate(value):
            if not (is_map and item == {}):
                _validate(item, element, (path, f"i:{index}"), problems, unique)
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        try:
            key = kind.item_key(item)
        except TypedError as error:
            problems.append(f"{_text(path)}: element {index}: {error}")
            return
        if unique and key in seen:
            problems.append(f"{_text(path)}: duplicate entries for key {path_text((key,))}")
        seen.add(key)
        _validate(item, element, (path, key), problems, unique)


def _validate_map(value: Any, kind: Type, path: _Path, problems: list[str], unique: bool) -> None:
    if not isinstance(value, dict):
        problems.append(f"{_text(path)}: expected map, got &{{{shown(value)}}}")
        return
    for name, item in value.items():
        inner = kind.field(name)
        if inner is None:
            problems.append(f"{_text(path)}.{name}: field not declared in schema")
        elif inner.kind != SCALAR or type(item) is not str or inner.scalar not in ("string", "untyped"):
            _validate(item, inner, (path, f"f:{name}"), problems, unique)


def merge(live: Any, applied: Any, kind: Type) -> Any:
    """The live tree with the applied one laid over it. Both sides may be ABSENT, but not both at once. Returns ABSENT where nothing is left."""
    if kind.kind == SCALAR or kind.atomic:
        return live if applied is ABSENT else applied
    value = live if applied is ABSENT or applied is None else applied
    if not live or not applied or live is ABSENT or applied is ABSENT:
        # an empty or missing side adds nothing; whether the other is null, empty or absent is kept
        nothing = (live is ABSENT or not live) and (applied is ABSENT or not applied)
        if nothing:
            return live if applied is ABSENT else applied
    if kind.kind == LIST:
        return _merge_lists(live, applied, kind)
    if kind.kind == MAP or isinstance(value, dict):
        return _merge_maps(live, applied, kind)
    return live if applied is ABSENT else applied


def _merge_maps(live: Any, applied: Any, kind: Type) -> Any:
    before = live if isinstance(live, dict) else {}
    after = applied if isinstance(applied, dict) else {}
    result = {}
    for name in (*before, *(name for name in after if name not in before)):
        inner = kind.field(name)
        if inner is None:
            raise TypedError(f".{name}: field not declared in schema")
        merged = merge(before.get(name, ABSENT), after.get(name, ABSENT), inner)
        if merged is not ABSENT:
            result[name] = merged
    return result or ABSENT


def _merge_lists(live: Any, applied: Any, kind: Type) -> Any:
    """Items of both: applied ones in their order, those only live where they stood between the ones that both have."""
    before = live if isinstance(live, list) else []
    after = applied if isinstance(applied, list) else []
    element = kind.element
    assert element is not None
    old_keys = [kind.item_key(item) for item in before]
    new_keys = [kind.item_key(item) for item in after]
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
        one = merge(known.get(key, ABSENT), wanted[key], element)
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
