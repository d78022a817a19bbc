"""OpenAPI version 2 of several servers as one document: paths of their group versions, and the definitions that these need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

_REFERENCE: Final = "#/definitions/"


def merge(own: dict[str, Any], others: Iterable[tuple[str, bytes]]) -> dict[str, Any]:
    """One document. others: for each group version (`GROUP/VERSION`) the document of its server; what cannot be read adds nothing."""
    paths, definitions = dict(own["paths"]), dict(own["definitions"])
    for group_version, body in others:
        try:
            found = msgspec.json.decode(body, type=dict[str, Any])
            part = {path: item for path, item in found["paths"].items() if _is_of(path, group_version)}
            needed = _closure(part, found.get("definitions", {}))
        except (msgspec.DecodeError, KeyError, AttributeError, TypeError):
            continue
        names = {name: _free_name(name, schema, definitions) for name, schema in needed.items()}
        definitions |= {names[name]: _renamed(schema, names) for name, schema in needed.items()}
        paths |= {path: _renamed(item, names) for path, item in part.items() if path not in paths}
    return {**own, "paths": dict(sorted(paths.items())), "definitions": definitions}


def _is_of(path: str, group_version: str) -> bool:
    return path.startswith(f"/apis/{group_version}/") or path == f"/apis/{group_version.partition('/')[0]}/"


def _free_name(name: str, schema: Any, taken: dict[str, Any]) -> str:
    """The name of a definition among others: its own, unless that means something else already."""
    number, found = 2, name
    while found in taken and taken[found] != schema:
        found = f"{name}_v{number}"
        number += 1
    return found


def _closure(tree: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that a tree refers to, also through others."""
    needed: dict[str, Any] = {}
    waiting = list(_references(tree))
    while waiting:
        name = waiting.pop()
        if name not in needed and name in definitions:
            needed[name] = definitions[name]
            waiting.extend(_references(definitions[name]))
    return needed


def _references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REFERENCE)
            else:
                yield from _references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _references(value)


def _renamed(tree: Any, names: dict[str, str]) -> Any:
    """A tree whose references have new names."""
    if isinstance(tree, dict):
        return {
            key: _REFERENCE + names.get(value.removeprefix(_REFERENCE), value.removeprefix(_REFERENCE))
            if key == "$ref" and isinstance(value, str)
            else _renamed(value, names)
            for key, value in tree.items()
        }
    return [_renamed(value, names) for value in tree] if isinstance(tree, list) else tree
