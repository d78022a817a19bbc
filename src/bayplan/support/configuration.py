"""Configuration files of Kubernetes' components as structs, with durations as Go writes them. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from bayplan.support.durations import go_duration, go_seconds

C = TypeVar("C", bound=msgspec.Struct)


class Duration(float):
    """Seconds; on the wire a Go duration such as `1m0s`."""

    __slots__ = ()


def to_tree(configuration: msgspec.Struct) -> dict[str, Any]:
    """The configuration as JSON shows it (`/configz`)."""
    tree: dict[str, Any] = msgspec.to_builtins(configuration, enc_hook=_encode)
    return tree


def convert(tree: Any, kind: type[C]) -> C:
    """A configuration from what a file holds. Raises ValueError that names the field."""
    return msgspec.convert(tree, kind, dec_hook=_decode)


def _decode(kind: type, value: Any) -> Any:
    if kind is not Duration:
        raise TypeError(f"configurations have no fields of the type {kind}")
    if not isinstance(value, str):
        raise ValueError(f"Expected a duration such as `1m0s`, got `{value}`")
    return Duration(go_seconds(value))


def _encode(value: Any) -> Any:
    if not isinstance(value, Duration):
        raise TypeError(f"configurations have no values of the type {type(value)}")
    return go_duration(value)
