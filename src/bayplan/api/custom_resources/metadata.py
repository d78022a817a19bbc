"""Metadata out of JSON that somebody sent: of custom resources, and of objects inside them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.api import schema as schemas
from bayplan.api.custom_resources.pruning import METADATA_DEFINITION
from bayplan.api.times import TimeError, settle
from bayplan.api.types import meta_v1

_read = msgspec.json.Decoder(meta_v1.ObjectMeta).decode
_GO_TYPES = {"str": "string", "int": "int64", "bool": "bool", "array": "[]", "object": "map[string]string"}


class MetadataError(ValueError):
    """These are no metadata; the text says why, in Go's words."""


def read_metadata(given: Any, *, lenient: bool = False) -> tuple[meta_v1.ObjectMeta, list[str]]:
    """Metadata, and the paths of unknown fields, which are left out.

    lenient: fields that are malformed are left out as well; otherwise, and if these are no fields at all, MetadataError is raised.
    """
    dropped: list[str] = []
    cleaned = schemas.prune(given, METADATA_DEFINITION, dropped) if isinstance(given, Mapping) else given
    try:
        return _typed({} if cleaned is None else cleaned), dropped
    except MetadataError:
        if not lenient or not isinstance(cleaned, dict):
            raise
    kept = {name: value for name, value in cleaned.items() if _is_fine({name: value})}
    return _typed(kept), dropped


def _is_fine(fields: dict[str, Any]) -> bool:
    try:
        _typed(fields)
    except MetadataError:
        return False
    return True


def _typed(fields: Any) -> meta_v1.ObjectMeta:
    try:
        found: meta_v1.ObjectMeta = settle(_read(msgspec.json.encode(fields)))
    except msgspec.DecodeError as error:
        raise MetadataError(_described(str(error))) from None
    except TimeError as error:
        raise MetadataError(str(error)) from None
    return found


def _described(text: str) -> str:
    """msgspec's message as Go words it."""
    found = re.search(r"Expected `(\w+)[^`]*`.*, got `(\w+)`(?: - at `\$\.?(\w*))?", text)
    if found is None:
        return text
    wanted, got, name = found.groups()
    given_type = {"int": "number", "float": "number", "str": "string"}.get(got, got)
    if not name:
        return f"json: cannot unmarshal {given_type} into Go value of type v1.ObjectMeta"
    return f"json: cannot unmarshal {given_type} into Go struct field ObjectMeta.{name} of type {_GO_TYPES.get(wanted, wanted)}"
