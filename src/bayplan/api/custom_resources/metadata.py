"""Metadata out of JSON that somebody sent: of custom resources, and of objects inside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.api import schema as schemas
from bayplan.api.custom_resources.pruning import METADATA_DEFINITION
from bayplan.api.times import FormError, settle
from bayplan.api.types import meta_v1

_read = msgspec.json.Decoder(meta_v1.ObjectMeta).decode


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
    except (msgspec.DecodeError, FormError) as error:
        raise MetadataError(_problem(fields) or str(error)) from None
    return found


def _problem(fields: Any) -> str | None:
    """The first thing that is wrong with metadata, in the order of their names."""
    from bayplan.api.json.decode_problems import first_problem  # what is seldom needed

    return first_problem(meta_v1.ObjectMeta, msgspec.json.encode(fields, order="sorted"))
