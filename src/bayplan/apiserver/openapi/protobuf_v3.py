"""OpenAPI v3 as protobuf. The message types and field numbers are those of gnostic's `OpenAPIv3.proto`; only what our documents have is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bayplan.api.protobuf.wire import delimited
from bayplan.apiserver.openapi.protobuf_fields import (
    any_value,
    double,
    extensions,
    integer,
    members,
    text,
    texts,
)

MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
Tree = Mapping[str, Any]
_METHODS: Final = {"get": 4, "put": 5, "post": 6, "delete": 7, "options": 8, "head": 9, "patch": 10}
_STRINGS: Final = {"title": 9, "pattern": 17, "type": 25, "description": 34, "format": 35}
_INTEGERS: Final = {
    "nullable": 1, "exclusiveMaximum": 12, "exclusiveMinimum": 14, "maxLength": 15, "minLength": 16, "maxItems": 18, "minItems": 19, "uniqueItems": 20,
    "maxProperties": 21, "minProperties": 22,
}  # fmt: skip
_DOUBLES: Final = {"multipleOf": 10, "maximum": 11, "minimum": 13}
_SCHEMES: Final = {"type": 1, "description": 2, "name": 3, "in": 4}


def document(tree: Tree) -> bytes:
    """A whole OpenAPI v3 document (as JSON would show it)."""
    info = text(1, tree["info"]["title"]) + text(6, tree["info"]["version"])
    components = tree["components"]
    inside = b""
    if "schemas" in components:
        inside += delimited(1, _named(components["schemas"], _schema_or_reference))
    if "securitySchemes" in components:
        inside += delimited(7, _named(components["securitySchemes"], _security_scheme))
    paths = _named(tree["paths"], _path_item)
    return text(1, tree["openapi"]) + delimited(2, info) + delimited(4, paths) + delimited(5, inside)


def _named(rows: Tree, write: Callable[[Any], bytes], number: int = 1) -> bytes:
    """A map: a repeated message of name and value."""
    return b"".join(delimited(number, text(1, name) + delimited(2, write(one))) for name, one in rows.items())


def _security_scheme(scheme: Tree) -> bytes:
    return delimited(1, members(scheme, strings=_SCHEMES, integers={}, doubles={}))


def _path_item(item: Tree) -> bytes:
    data = b"".join(
        delimited(number, _operation(item[method])) for method, number in _METHODS.items() if method in item
    )
    return data + b"".join(delimited(13, _parameter(one)) for one in item.get("parameters", ()))


def _operation(operation: Tree) -> bytes:
    data = texts(1, operation["tags"]) + text(3, operation["description"]) + text(5, operation["operationId"])
    data += b"".join(delimited(6, _parameter(one)) for one in operation.get("parameters", ()))
    if "requestBody" in operation:
        data += delimited(7, delimited(1, _request_body(operation["requestBody"])))
    return data + delimited(8, _named(operation["responses"], _response, 2)) + extensions(13, operation)


def _parameter(parameter: Tree) -> bytes:
    data = members(parameter, strings={"name": 1, "in": 2, "description": 3}, integers={"required": 4}, doubles={})
    return delimited(1, data + delimited(10, _schema_or_reference(parameter["schema"])))


def _request_body(body: Tree) -> bytes:
    return delimited(2, _named(body["content"], _media_type)) + (integer(3, True) if body.get("required") else b"")


def _response(response: Tree) -> bytes:
    data = text(1, response["description"])
    return delimited(
        1, data + delimited(3, _named(response["content"], _media_type)) if "content" in response else data
    )


def _media_type(content: Tree) -> bytes:
    return delimited(1, _schema_or_reference(content["schema"]))


def _schema_or_reference(schema: Tree) -> bytes:
    if "$ref" in schema:
        return delimited(2, text(1, schema["$ref"]))
    return delimited(1, _schema(schema))


def _schema(schema: Tree) -> bytes:
    data = members(schema, strings=_STRINGS, integers=_INTEGERS, doubles=_DOUBLES)
    data += texts(23, schema.get("required", ())) + b"".join(any_value(24, one) for one in schema.get("enum", ()))
    for key, number in (("allOf", 26), ("oneOf", 27), ("anyOf", 28)):
        data += b"".join(delimited(number, _schema_or_reference(one)) for one in schema.get(key, ()))
    if "not" in schema:
        data += delimited(29, _schema(schema["not"]))
    if "items" in schema:
        data += delimited(30, delimited(1, _schema_or_reference(schema["items"])))
    if "properties" in schema:
        data += delimited(31, _named(schema["properties"], _schema_or_reference))
    values = schema.get("additionalProperties")
    if values is not None:
        data += delimited(
            32, integer(2, values) if isinstance(values, bool) else delimited(1, _schema_or_reference(values))
        )
    if "default" in schema:
        data += delimited(33, _default(schema["default"]))
    return data + extensions(36, schema)


def _default(value: Any) -> bytes:
    """A default; nothing stands for maps and lists."""
    if isinstance(value, bool):
        return integer(2, value)
    if isinstance(value, int | float):
        return double(1, value)
    return text(3, value) if isinstance(value, str) else b""
