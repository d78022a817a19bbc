"""OpenAPI v2 as protobuf, the only form in which older kubectl asks for it; for version 3 see `openapi_protobuf_v3`.

The message types and field numbers are those of gnostic's `OpenAPIv2.proto`; only what our document has is written.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.protobuf.wire import delimited
from bayplan.apiserver.openapi.protobuf_fields import any_value, extensions, integer, members, text, texts

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
_OPERATION_TEXTS = {"description": 3, "operationId": 5}
_STRINGS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_INTEGERS = {
    "exclusiveMaximum": 8, "exclusiveMinimum": 10, "maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "uniqueItems": 16, "maxProperties": 17,
    "minProperties": 18,
}  # fmt: skip
_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}


def document(tree: dict[str, Any]) -> bytes:
    """A whole OpenAPI v2 document (as JSON would show it)."""
    info = text(1, tree["info"]["title"]) + text(2, tree["info"]["version"])
    paths = b"".join(
        delimited(2, text(1, path) + delimited(2, _path_item(item))) for path, item in tree["paths"].items()
    )
    schemas = b"".join(_named_schema(name, schema) for name, schema in tree["definitions"].items())
    shared = b"".join(
        delimited(1, text(1, name) + delimited(2, _parameter(one))) for name, one in tree.get("parameters", {}).items()
    )
    data = text(1, tree["swagger"]) + delimited(2, info) + delimited(8, paths) + delimited(9, schemas)
    return data + delimited(10, shared) + _security(tree)


def _security(tree: dict[str, Any]) -> bytes:
    """What a client may identify itself with; every definition is an API key."""
    wanted = b"".join(
        delimited(
            12, b"".join(delimited(1, text(1, name) + delimited(2, texts(1, scopes))) for name, scopes in one.items())
        )
        for one in tree.get("security", ())
    )
    keys = {"type": 1, "name": 2, "in": 3, "description": 4}
    items = b"".join(
        delimited(1, text(1, name) + delimited(2, delimited(2, b"".join(text(keys[key], one[key]) for key in keys))))
        for name, one in tree.get("securityDefinitions", {}).items()
    )
    return wanted + delimited(13, items)


def _path_item(item: dict[str, Any]) -> bytes:
    data = b"".join(
        delimited(number, _operation(item[method])) for method, number in _METHODS.items() if method in item
    )
    return data + b"".join(delimited(9, _parameter_item(one)) for one in item.get("parameters", ()))


def _operation(operation: dict[str, Any]) -> bytes:
    data = texts(1, operation.get("tags", ()))
    data += b"".join(text(number, operation[key]) for key, number in _OPERATION_TEXTS.items() if key in operation)
    data += texts(6, operation.get("produces", ())) + texts(7, operation.get("consumes", ()))
    data += b"".join(delimited(8, _parameter_item(one)) for one in operation.get("parameters", ()))
    codes = b"".join(
        delimited(1, text(1, code) + delimited(2, delimited(1, _response(response))))
        for code, response in operation.get("responses", {}).items()
    )
    return data + delimited(9, codes) + texts(10, operation.get("schemes", ())) + extensions(13, operation)


def _response(response: dict[str, Any]) -> bytes:
    data = text(1, response["description"])
    return data + delimited(2, delimited(1, _schema(response["schema"]))) if "schema" in response else data


def _parameter_item(parameter: dict[str, Any]) -> bytes:
    """A parameter where it is used: itself, or a reference to a shared one."""
    if "$ref" in parameter:
        return delimited(2, text(1, parameter["$ref"]))
    return delimited(1, _parameter(parameter))


def _parameter(parameter: dict[str, Any]) -> bytes:
    """A body, path or query parameter, inside the messages that stand for "one of"."""
    place = parameter["in"]
    if place == "body":
        required = integer(4, True) if parameter.get("required") else b""
        return delimited(
            1, text(2, parameter["name"]) + text(3, place) + required + delimited(5, _schema(parameter["schema"]))
        )
    data = integer(1, True) if parameter.get("required") else b""
    data += text(2, place)
    if "description" in parameter:
        data += text(3, parameter["description"])
    is_query = place == "query"
    data += text(4, parameter["name"]) + text(6 if is_query else 5, parameter.get("type", "string"))
    if parameter.get("uniqueItems"):
        data += integer(20 if is_query else 19, True)
    return delimited(2, delimited(3 if is_query else 4, data))


def _named_schema(name: str, schema: dict[str, Any], number: int = 1) -> bytes:
    return delimited(number, text(1, name) + delimited(2, _schema(schema)))


def _schema(schema: dict[str, Any]) -> bytes:
    data = members(schema, strings=_STRINGS, integers=_INTEGERS, doubles=_DOUBLES)
    data += b"".join(text(19, name) for name in schema.get("required", ()))
    data += b"".join(any_value(20, value) for value in schema.get("enum", ()))
    inner = schema.get("additionalProperties")
    if inner is not None:
        data += delimited(21, integer(2, inner) if isinstance(inner, bool) else delimited(1, _schema(inner)))
    if "type" in schema:
        data += delimited(22, text(1, schema["type"]))
    if "items" in schema:
        data += delimited(23, delimited(1, _schema(schema["items"])))
    if "properties" in schema:
        data += delimited(25, b"".join(_named_schema(name, one) for name, one in schema["properties"].items()))
    return data + extensions(31, schema)
