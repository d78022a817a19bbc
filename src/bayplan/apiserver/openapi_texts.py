"""The texts of fields for `kubectl explain`: Kubernetes' own descriptions, compressed beside the types and read on first use."""

from __future__ import annotations

import functools
import gzip
import importlib.resources

import msgspec

from bayplan.api.schema import Schema, definitions


class _Text(msgspec.Struct):
    """The descriptions of a definition or field."""

    description: str = ""
    properties: dict[str, _Text] = {}


def published_texts() -> dict[str, _Text]:
    """Texts by definition."""
    data = importlib.resources.files("bayplan.api.types").joinpath("texts.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(data), type=dict[str, _Text])


@functools.lru_cache(maxsize=1)
def documented_definitions() -> dict[str, Schema]:
    """All definitions, with their texts where there are some."""
    texts = published_texts()
    return {name: _documented(schema, texts.get(name)) for name, schema in definitions().items()}


def _documented(schema: Schema, text: _Text | None) -> Schema:
    if text is None:
        return schema
    found = dict(schema)
    if text.description:
        found["description"] = text.description
    if "properties" in schema:
        found["properties"] = {
            name: _documented(one, text.properties.get(name)) for name, one in schema["properties"].items()
        }
    return found
