"""The built-in definitions with what people and clients read: descriptions, defaults and values of Kubernetes, compressed beside the types, read on first use."""

from __future__ import annotations

import functools
import gzip
import importlib.resources
from typing import Any, Final

import msgspec

from bayplan.api.schema import Schema, definitions
from bayplan.apiserver.openapi import facts as openapi_facts

_NO_FACTS: Final = openapi_facts.Definition()
_NO_FIELD: Final = openapi_facts.Field()


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
    """All definitions, with their texts, defaults and values where there are some."""
    texts, facts = published_texts(), openapi_facts.facts().definitions
    return {
        name: _documented(schema, texts.get(name, _Text()), facts.get(name, _NO_FACTS))
        for name, schema in definitions().items()
    }


def _documented(schema: Schema, text: _Text, facts: openapi_facts.Definition) -> Schema:
    found = dict(schema)
    if description := text.description or facts.description:
        found["description"] = description
    if "properties" in schema:
        found["properties"] = {
            name: _field(
                _any_text(name, one), text.properties.get(name, _Text()), facts.properties.get(name, _NO_FIELD)
            )
            for name, one in schema["properties"].items()
        }
    return found


def _any_text(name: str, schema: Schema) -> Schema:
    """A field as servers publish it: kind and apiVersion are any text there."""
    if name not in ("kind", "apiVersion") or "enum" not in schema:
        return schema
    return {key: value for key, value in schema.items() if key != "enum"}


def _field(schema: Schema, text: _Text, facts: openapi_facts.Field) -> Schema:
    found: dict[str, Any] = {**schema, **openapi_facts.added(facts)}
    if description := text.description + facts.values:
        found["description"] = description
    if facts.inner is not None:
        key = "items" if "items" in schema else "additionalProperties"
        found[key] = {**schema[key], **openapi_facts.added(facts.inner)}
    return found
