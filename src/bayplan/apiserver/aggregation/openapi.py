"""OpenAPI version 2 of several servers as one document: paths of their group versions, and the definitions and shared parameters that these need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

Tree = dict[str, Any]
_DEFINITION: Final = "#/definitions/"
_PARAMETER: Final = "#/parameters/"


def merge(own: Tree, others: Iterable[tuple[str, bytes]]) -> Tree:
    """One document. others: for each group version (`GROUP/VERSION`) the document of its server; what cannot be read adds nothing."""
    paths, definitions, parameters = dict(own["paths"]), dict(own["definitions"]), dict(own.get("parameters", {}))
    for group_version, body in others:
        try:
            found = msgspec.json.decode(body, type=Tree)
            part = {path: item for path, item in found["paths"].items() if _is_of(path, group_version)}
            shared = _closure(part, _PARAMETER, found.get("parameters", {}))
            needed = _closure([part, shared], _DEFINITION, found.get("definitions", {}))
        except (msgspec.DecodeError, KeyError, AttributeError, TypeError):
            continue
        names = {_DEFINITION + name: _DEFINITION + _free_name(name, one, definitions) for name, one in needed.items()}
        definitions |= _renamed_all(needed, _DEFINITION, names)
        shared = {name: _renamed(one, names) for name, one in shared.items()}
        names |= {_PARAMETER + name: _PARAMETER + _free_name(name, one, parameters) for name, one in shared.items()}
        parameters |= _renamed_all(shared, _PARAMETER, names)
        paths |= {path: _renamed(item, names) for path, item in part.items() if path not in paths}
    merged = {**own, "paths": dict(sorted(paths.items())), "definitions": definitions}
    return {**merged, "parameters": parameters} if parameters else merged


def _is_of(path: str, group_version: str) -> bool:
    return path.startswith(f"/apis/{group_version}/") or path == f"/apis/{group_version.partition('/')[0]}/"


def _free_name(name: str, one: Any, taken: Tree) -> str:
    """The name of a definition or parameter among others: its own, unless that means something else already."""
    number, found = 2, name
    while found in taken and taken[found] != one:
        found = f"{name}_v{number}"
        number += 1
    return found


def _closure(tree: Any, prefix: str, known: Tree) -> Tree:
    """The definitions (or parameters, by the prefix of references) that a tree refers to, also through others."""
    needed: Tree = {}
    waiting = list(_references(tree, prefix))
    while waiting:
        name = waiting.pop()
        if name not in needed and name in known:
            needed[name] = known[name]
            waiting.extend(_references(known[name], prefix))
    return needed


def _references(tree: Any, prefix: str) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref" and isinstance(value, str):
                if value.startswith(prefix):
                    yield value.removeprefix(prefix)
            else:
                yield from _references(value, prefix)
    elif isinstance(tree, list):
        for value in tree:
            yield from _references(value, prefix)


def _renamed_all(rows: Tree, prefix: str, names: dict[str, str]) -> Tree:
    """Definitions or parameters by their new names, with new references."""
    return {names[prefix + name].removeprefix(prefix): _renamed(one, names) for name, one in rows.items()}


def _renamed(tree: Any, names: dict[str, str]) -> Any:
    """A tree whose references have new names."""
    if isinstance(tree, dict):
        return {
            key: names.get(value, value) if key == "$ref" and isinstance(value, str) else _renamed(value, names)
            for key, value in tree.items()
        }
    return [_renamed(value, names) for value in tree] if isinstance(tree, list) else tree
