"""The texts of fields for `kubectl explain`: in the documents if the package with the published OpenAPI definitions is installed (the extra `docs`)."""

from __future__ import annotations

import functools
import importlib.resources
import importlib.util
import logging

import msgspec

from bayplan import KUBERNETES_VERSION
from bayplan.api.schema import Schema, definitions

logger = logging.getLogger(__name__)

_PACKAGE = "kubernetes_validate"


class _Text(msgspec.Struct):
    """What is read of a published definition."""

    description: str = ""
    properties: dict[str, _Text] = {}


class _Published(msgspec.Struct, rename={"definitions": "$defs"}):
    definitions: dict[str, _Text]


def published_texts() -> dict[str, _Text]:
    """Texts by definition; nothing if they are not installed."""
    if importlib.util.find_spec(_PACKAGE) is None:
        return {}
    minor = KUBERNETES_VERSION.rpartition(".")[0]
    source = importlib.resources.files(_PACKAGE).joinpath(f"kubernetes-json-schema/v{minor}.0-local/_definitions.json")
    try:
        return msgspec.json.decode(source.read_bytes(), type=_Published).definitions
    except (OSError, msgspec.DecodeError) as error:
        logger.warning("%s has no definitions of Kubernetes %s that can be read: %s", _PACKAGE, minor, error)
        return {}


@functools.lru_cache(maxsize=1)
def documented_definitions() -> dict[str, Schema]:
    """All definitions, with their texts where there are some."""
    texts = published_texts()
    if not texts:
        return definitions()
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
