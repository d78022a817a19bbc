"""The built-in definitions with what people and clients read: descriptions, defaults and values of Kubernetes, compressed beside the types, read on first use."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any, Final

import msgspec

from bayplan.api.schema import Schema, definitions, unpacked
from bayplan.apiserver.openapi import facts as openapi_facts

_NO_FACTS: Final = openapi_facts.Definition()
_NO_FIELD: Final = openapi_facts.Field()


class _Published(msgspec.Struct):
    """What the file has; `tools/generate_api.py` says how."""

    texts: list[str]
    definitions: list[list[int]]


def published_texts() -> dict[str, dict[str, str]]:
    """By definition, the texts of its fields by their names, and its own one under an empty name; empty where there is none."""
    published = msgspec.json.decode(unpacked("texts"), type=_Published)
    following, known = iter(published.texts), defaultdict[str, list[str]](lambda: [""])
    found: dict[str, dict[str, str]] = {}
    for (name, schema), row in zip(sorted(definitions().items()), published.definitions, strict=True):
        found[name] = {}
        for field, place in zip(("", *sorted(schema.get("properties", ()))), row, strict=True):
            texts = known[field]
            if place == len(texts):
                texts.append(next(following))
            found[name][field] = texts[place]
    return found


@functools.lru_cache(maxsize=1)
def documented_definitions() -> dict[str, Schema]:
    """All definitions, with their texts, defaults and values where there are some."""
    texts, facts = published_texts(), openapi_facts.facts().definitions
    return {
        name: _documented(schema, texts[name], facts.get(name, _NO_FACTS)) for name, schema in definitions().items()
    }


def _documented(schema: Schema, texts: dict[str, str], facts: openapi_facts.Definition) -> Schema:
    found = dict(schema)
    if description := texts[""] or facts.description:
        found["description"] = description
    if "properties" in schema:
        found["properties"] = {
            name: _field(_any_text(name, one), texts[name], facts.properties.get(name, _NO_FIELD))
            for name, one in schema["properties"].items()
        }
    return found


def _any_text(name: str, schema: Schema) -> Schema:
    """A field as servers publish it: kind and apiVersion are any text there."""
    if name not in ("kind", "apiVersion") or "enum" not in schema:
        return schema
    return {key: value for key, value in schema.items() if key != "enum"}


def _field(schema: Schema, text: str, facts: openapi_facts.Field) -> Schema:
    found: dict[str, Any] = {**schema, **openapi_facts.added(facts)}
    if description := text + facts.values:
        found["description"] = description
    if facts.inner is not None:
        key = "items" if "items" in schema else "additionalProperties"
        found[key] = {**schema[key], **openapi_facts.added(facts.inner)}
    return found
