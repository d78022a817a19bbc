"""JSON trees of any kind, filled by chance from its schema."""

from __future__ import annotations

import base64
import random
from typing import Any

from bayplan.api.protobuf import wire
from bayplan.api.schema import definitions

_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_DEPTH = 12


class Objects:
    """JSON trees of definitions, filled by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def tree(self, definition: str, depth: int = 0) -> Any:
        special = self._special(definition, depth)
        if special is not None:
            return special
        properties = definitions()[definition].get("properties", {})
        numbered = wire.numbers().get(definition, {})
        likely = 0.9 if depth < 2 else 0.6 if depth < 5 else 0.2
        made = {
            name: self.value(schema, depth + 1)
            for name, schema in properties.items()
            if name in numbered and (self.chance.random() < likely) and depth < _DEPTH
        }
        if definition.endswith(".HPAScalingRules") and made.get("policies") == []:
            del made["policies"]  # an empty list is refused, and protobuf has none
        return made

    def _special(self, definition: str, depth: int) -> Any:
        name = definition.rpartition(".")[2]
        chance = self.chance
        if definition == _CRD + "JSONSchemaProps" and depth > 5:
            return {"type": "string", "maximum": 1.5}
        made: dict[str, Any] = {
            "Quantity": chance.choice(["100m", "1Gi", "0"]),
            "IntOrString": chance.choice([0, -1, 80, "http", "25%", ""]),
            "Time": chance.choice(["2026-01-02T03:04:05Z", "1969-12-31T23:59:59Z"]),
            "MicroTime": chance.choice(["2026-01-02T03:04:05.000006Z", "1970-01-01T00:00:00.000000Z"]),
            "FieldsV1": {"f:metadata": {"f:labels": {".": {}}}},
            "RawExtension": {"a": [1, {"b": None}]},
            "JSON": chance.choice([1, "x", {"a": False}, [None], True]),
        }
        if name in made and name != "JSON":
            return made[name]
        if definition == _CRD + "JSON":
            return made["JSON"]
        if definition.startswith(_CRD + "JSONSchemaPropsOr"):
            props = self.tree(_CRD + "JSONSchemaProps", depth + 1)
            other = {"Array": [props], "Bool": True, "StringArray": ["a", "b"]}[definition.rpartition("Or")[2]]
            return chance.choice([props, other])
        return None

    def value(self, schema: dict[str, Any], depth: int) -> Any:
        chance = self.chance
        reference = schema.get("$ref")
        if reference is not None:
            return self.tree(reference, depth)
        kind = schema.get("type")
        if kind == "array":
            return [self.value(schema["items"], depth) for _ in range(chance.randrange(3))]
        if kind == "object" and "additionalProperties" in schema:
            return {
                key: self.value(schema["additionalProperties"], depth) for key in ("b", "a", "ü")[: chance.randrange(4)]
            }
        if kind == "string":
            if schema.get("format") == "byte":
                return base64.b64encode(chance.randbytes(chance.randrange(4))).decode()
            return chance.choice(["", "x", "größer", "y" * 200])
        if kind == "integer":
            return chance.choice([0, 1, -1, 300, 2**31 - 1])
        if kind == "number":
            return chance.choice([0.5, 0.0, -3.25])
        if kind == "boolean":
            return chance.random() < 0.5
        return {"free": "form"}
