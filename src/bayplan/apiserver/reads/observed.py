"""Decoding of an object no more than the caches look at: its labels, uid and selectable fields.

Another server's write comes as bytes, and most of these are only passed on: what is not needed is skipped, at a third of the cost of decoding all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from bayplan.api.codec import decoder
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.kinds import Kind
from bayplan.api.strategies.base import Strategy

_METADATA: Final = ("metadata.labels", "metadata.uid")

Decode = Callable[[bytes], Any]


def observed_decoder(kind: Kind, strategy: Strategy) -> Decode:
    """What decodes an object for its entry: as far as `Strategy.selectable_fields` needs it, or whole where that is not known."""
    whole: Decode = decoder(kind.type)
    own = type(strategy)
    if isinstance(kind, CustomKind) or own.shown is not Strategy.shown:
        return whole
    if own.selectable_fields is not Strategy.selectable_fields and not strategy.observed_fields:
        return whole
    return _reading(kind.type, (*_METADATA, *strategy.observed_fields))


@functools.cache
def _reading(cls: type[Any], paths: tuple[str, ...]) -> Decode:
    return msgspec.json.Decoder(reduced_type(cls, paths)).decode


def reduced_type(cls: type[Any], paths: Iterable[str]) -> type[Any]:
    """A type that has only these fields of another one (attributes with dots between them), and reads them alike."""
    wanted: dict[str, list[str]] = {}
    for path in paths:
        name, _, rest = path.partition(".")
        wanted.setdefault(name, []).extend([rest] if rest else [])
    fields: list[Any] = []
    for field in msgspec.structs.fields(cls):
        if field.name not in wanted:
            continue
        below = wanted[field.name]
        kind = reduced_type(field.type, below) if below else field.type
        factory: Any = kind if below else field.default_factory
        if factory is not msgspec.NODEFAULT:
            default = msgspec.field(default_factory=factory, name=field.encode_name)
        else:
            default = msgspec.field(default=field.default, name=field.encode_name)
        fields.append((field.name, kind, default))
    return msgspec.defstruct(f"Reduced{cls.__name__}", fields, gc=False)
