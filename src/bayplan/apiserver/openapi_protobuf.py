"""OpenAPI v2 as protobuf, the only form in which older kubectl asks for it.

The message types and field numbers are those of gnostic's `OpenAPIv2.proto`; only what our document has is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
_OPERATION_TEXTS = {"description": 3, "operationId": 5}
_STRINGS = {"$ref": 1, "format": 2, "title": 3, "description": 4}


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def _message(number: int, data: bytes) -> bytes:
    """A field that holds a message or string."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _flag(number: int) -> bytes:
    return _varint(number << 3) + b"\x01"


def _any(number: int, value: Any) -> bytes:
    """A value as YAML text; JSON is YAML."""
    return _message(number, _text(2, msgspec.json.encode(value).decode()))


def _extensions(number: int, row: dict[str, Any]) -> bytes:
    return b"".join(
        _message(number, _text(1, key) + _any(2, value)) for key, value in row.items() if key.startswith("x-")
    )


def _texts(number: int, texts: Iterable[str]) -> bytes:
    return b"".join(_text(number, text) for text in texts)


def document(tree: dict[str, Any]) -> bytes:
    """A whole OpenAPI v2 document (as JSON would show it)."""
    info = _text(1, tree["info"]["title"]) + _text(2, tree["info"]["version"])
    paths = b"".join(
        _message(2, _text(1, path) + _message(2, _path_item(item))) for path, item in tree["paths"].items()
    )
    schemas = b"".join(_named_schema(name, schema) for name, schema in tree["definitions"].items())
    shared = b"".join(
        _message(1, _text(1, name) + _message(2, _parameter(one))) for name, one in tree.get("parameters", {}).items()
    )
    data = _text(1, tree["swagger"]) + _message(2, info) + _message(8, paths) + _message(9, schemas)
    return data + _message(10, shared) + _security(tree)


def _security(tree: dict[str, Any]) -> bytes:
    """What a client may identify itself with; every definition is an API key."""
    wanted = b"".join(
        _message(
            12, b"".join(_message(1, _text(1, name) + _message(2, _texts(1, scopes))) for name, scopes in one.items())
        )
        for one in tree.get("security", ())
    )
    keys = {"type": 1, "name": 2, "in": 3, "description": 4}
    items = b"".join(
        _message(1, _text(1, name) + _message(2, _message(2, b"".join(_text(keys[key], one[key]) for key in keys))))
        for name, one in tree.get("securityDefinitions", {}).items()
    )
    return wanted + _message(13, items)


def _path_item(item: dict[str, Any]) -> bytes:
    data = b"".join(_message(number, _operation(item[method])) for method, number in _METHODS.items() if method in item)
    return data + b"".join(_message(9, _parameter_item(one)) for one in item.get("parameters", ()))


def _operation(operation: dict[str, Any]) -> bytes:
    data = _texts(1, operation.get("tags", ()))
    data += b"".join(_text(number, operation[key]) for key, number in _OPERATION_TEXTS.items() if key in operation)
    data += _texts(6, operation.get("produces", ())) + _texts(7, operation.get("consumes", ()))
    data += b"".join(_message(8, _parameter_item(one)) for one in operation.get("parameters", ()))
    codes = b"".join(
        _message(1, _text(1, code) + _message(2, _message(1, _response(response))))
        for code, response in operation.get("responses", {}).items()
    )
    return data + _message(9, codes) + _texts(10, operation.get("schemes", ())) + _extensions(13, operation)


def _response(response: dict[str, Any]) -> bytes:
    data = _text(1, response["description"])
    return data + _message(2, _message(1, _schema(response["schema"]))) if "schema" in response else data


def _parameter_item(parameter: dict[str, Any]) -> bytes:
    """A parameter where it is used: itself, or a reference to a shared one."""
    if "$ref" in parameter:
        return _message(2, _text(1, parameter["$ref"]))
    return _message(1, _parameter(parameter))


def _parameter(parameter: dict[str, Any]) -> bytes:
    """A body, path or query parameter, inside the messages that stand for "one of"."""
    place = parameter["in"]
    if place == "body":
        required = _flag(4) if parameter.get("required") else b""
        return _message(
            1, _text(2, parameter["name"]) + _text(3, place) + required + _message(5, _schema(parameter["schema"]))
        )
    data = _flag(1) if parameter.get("required") else b""
    data += _text(2, place)
    if "description" in parameter:
        data += _text(3, parameter["description"])
    is_query = place == "query"
    data += _text(4, parameter["name"]) + _text(6 if is_query else 5, parameter.get("type", "string"))
    if parameter.get("uniqueItems"):
        data += _flag(20 if is_query else 19)
    return _message(2, _message(3 if is_query else 4, data))


def _named_schema(name: str, schema: dict[str, Any], number: int = 1) -> bytes:
    return _message(number, _text(1, name) + _message(2, _schema(schema)))


def _schema(schema: dict[str, Any]) -> bytes:
    data = b"".join(_text(number, schema[key]) for key, number in _STRINGS.items() if key in schema)
    data += b"".join(_text(19, name) for name in schema.get("required", ()))
    data += b"".join(_any(20, value) for value in schema.get("enum", ()))
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        data += _message(21, _message(1, _schema(inner)))
    if "type" in schema:
        data += _message(22, _text(1, schema["type"]))
    if "items" in schema:
        data += _message(23, _message(1, _schema(schema["items"])))
    if "properties" in schema:
        data += _message(25, b"".join(_named_schema(name, one) for name, one in schema["properties"].items()))
    return data + _extensions(31, schema)
