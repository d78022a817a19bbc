"""Lists whose items have to differ: sets, and lists under keys.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/apiserver/schema/listtype`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bayplan.api.custom_resources.pruning import child, child_path, has_key
from bayplan.api.errors import FieldError, duplicate, invalid
from bayplan.api.schema import Schema

_TYPE: Final = "x-kubernetes-list-type"


def has_unique_items(schema: Any) -> bool:
    """Whether a schema says of a list, somewhere, of what type it is."""
    return has_key(schema, _TYPE)


def list_errors(value: Any, schema: Schema | None, path: str = "") -> list[FieldError]:
    """Items that are there twice, in the order of the lists' paths."""
    return list(_errors(value, schema, path))


def _errors(value: Any, schema: Schema | None, path: str) -> Iterator[FieldError]:
    if schema is None:
        return
    if isinstance(value, dict):
        for name in sorted(value):
            yield from _errors(value[name], child(schema, name), child_path(path, name, schema))
    elif isinstance(value, list):
        list_type = schema.get(_TYPE)
        if list_type == "set":
            yield from (duplicate(f"{path}[{index}]", value[index]) for index in _second(value))
        elif list_type == "map":
            yield from _errors_in_map(value, schema.get("x-kubernetes-list-map-keys", ()), path)
        for index, item in enumerate(value):
            yield from _errors(item, schema.get("items"), f"{path}[{index}]")


def _second(items: list[Any]) -> Iterator[int]:
    """The place of each item that is the second of its kind."""
    seen: dict[bytes, int] = {}
    for index, item in enumerate(items):
        key = msgspec.json.encode(item, order="sorted")
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            yield index


def _errors_in_map(items: list[Any], names: list[str], path: str) -> Iterator[FieldError]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            yield invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            return
    keys = [{name: item[name] for name in names if name in item} if item else {} for item in items]
    yield from (duplicate(f"{path}[{index}]", keys[index]) for index in _second(keys))
