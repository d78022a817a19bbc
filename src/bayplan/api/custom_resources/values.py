"""Whether the values of a tree are as a schema wants them.

An update may leave as it is what has been wrong before (ratcheting): errors below a value that did not change do not count.

Source of the behaviour: `kube-openapi/pkg/validation/validate` and `apiextensions-apiserver/pkg/apiserver/validation`. Fields are looked at in order of name,
where Kubernetes looks at them in any order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.custom_resources import formats, patterns
from bayplan.api.errors import ErrorType, FieldError, invalid, required, too_long, too_many, unsupported
from bayplan.api.schema import Schema

ABSENT: Any = object()
"""Stands for an old value that is not there, or cannot be told from among the items of a list."""
_WHOLE = "<nil>"
"""The field of errors that concern no single field, as Kubernetes shows it."""
_INT32 = 1 << 31
_INT64 = 1 << 63
_FLOAT32_MAX = 3.4028234663852886e38
_FORMATS_OF = {"integer": ("int32", "int64"), "number": ("float", "double")}


@dataclass(slots=True)
class _Result:
    """What was found: errors, and how many checks were made, by which the closest of several alternatives is known."""

    errors: list[FieldError] = field(default_factory=list)
    checks: int = 0

    def merge(self, other: _Result) -> None:
        """Take over what another one found; what is known already is not said twice."""
        self.checks += other.checks
        self.errors += [error for error in other.errors if error not in self.errors]

    def add(self, *errors: FieldError) -> None:
        """Note errors."""
        self.errors += [error for error in errors if error not in self.errors]


def validate(tree: Any, schema: Schema, path: str = "", old: Any = ABSENT) -> list[FieldError]:
    """What is wrong with a tree; `old`: what it was before the change."""
    return [_named(error, path) for error in _check(tree, schema, "", old).errors]


def _named(error: FieldError, path: str) -> FieldError:
    """The error with its field, below a path."""
    name = error.field.removeprefix(".")
    if error.field == _WHOLE or not path:
        shown = path or _WHOLE if error.field in (_WHOLE, "") else name
    else:
        shown = f"{path}.{name}" if name else path
    return FieldError(error.type, shown, error.value, error.detail)


def json_type(value: Any) -> str:
    """The type of a JSON value, as schemas name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return {str: "string", int: "integer", float: "number", list: "array", dict: "object"}[type(value)]


def _check(value: Any, schema: Schema, path: str, old: Any) -> _Result:
    result = _Result()
    for check in _CHECKS if value is not None else (_type, _enum):
        found = check(value, schema, path, old)
        if found is not None:
            result.merge(found)
            result.checks += 1
    result.checks += 1
    if result.errors and old is not ABSENT and value == old and json_type(value) == json_type(old):
        return _Result(checks=result.checks)
    return result


def _failed(*errors: FieldError) -> _Result:
    return _Result(list(errors))


def _types_of(schema: Schema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    one = schema.get("type")
    return (one,) if one else ()


def _format_of(schema: Schema) -> str:
    """The format, if values are checked against it."""
    name: str = schema.get("format") or ""
    if not name:
        return ""
    types = _types_of(schema)
    kind = types[0] if len(types) == 1 else ""
    if kind in ("", "string"):
        return name if formats.is_known(name) else ""
    return name if name in _FORMATS_OF.get(kind, ()) else ""


def _type(value: Any, schema: Schema, path: str, old: Any) -> _Result | None:
    types, form = _types_of(schema), _format_of(schema)
    if not types and not form:
        return None
    if value is None:
        wrong = types and "null" not in types and not schema.get("nullable")
        return _failed(_type_error(path, ",".join(types), "null")) if wrong else _Result(checks=1)
    kind = json_type(value)
    fits = (
        kind in types
        or (kind == "number" and "integer" in types and float(value).is_integer())
        or (kind == "integer" and "number" in types)
    )
    is_numeric = "number" in types or "integer" in types
    if form and kind in ("string", "array"):
        if not is_numeric:
            return _Result(checks=1)
    elif form and not fits:
        inner = {"integer": "int64", "number": "float64"}.get(kind, "")
        if inner != form:
            return _failed(_type_error(path, form, inner))
    return _Result(checks=1) if fits else _failed(_type_error(path, ",".join(types), kind))


def _type_error(path: str, wanted: str, given: str) -> FieldError:
    detail = f'{path} in body must be of type {wanted}: "{given}"'
    return FieldError(ErrorType.TYPE_INVALID, path, given, detail)


def _enum(value: Any, schema: Schema, path: str, old: Any) -> _Result | None:
    allowed = schema.get("enum")
    if not allowed or any(
        one == value and (json_type(one) == json_type(value) or not isinstance(value, bool)) for one in allowed
    ):
        return _Result()
    shown = [one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in allowed]
    return _failed(unsupported(path, value, shown))


def _string(value: Any, schema: Schema, path: str, old: Any) -> _Result | None:
    if not isinstance(value, str):
        return None
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None and len(value) > longest:
        return _failed(too_long(path, longest))
    if shortest is not None and len(value) < shortest:
        return _failed(invalid(path, value, f"{path} in body should be at least {shortest} chars long"))
    if pattern and not patterns.matches(value, pattern):
        return _failed(invalid(path, value, f"{path} in body should match '{pattern}'"))
    return _Result()


def _format(value: Any, schema: Schema, path: str, old: Any) -> _Result | None:
    name = _format_of(schema)
    if not isinstance(value, str) or not name or not formats.is_known(name):
        return None
    if formats.has_format(value, name):
        return _Result()
    detail = f"{path} in body must be of type {name}: {_quoted(value)}"
    return _failed(FieldError(ErrorType.TYPE_INVALID, path, value, detail))


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: Any, schema: Schema, path: str, old: Any) -> _Result | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    result = _Result(checks=1)
    form = _format_of(schema)
    kind = schema.get("type") or ""
    if not _in_range(value, kind, form):
        shown = f"{kind} with format {form}" if form else f"{kind} (default format)"
        result.add(invalid(_WHOLE, "", f"Checked value must be of type {shown} in {path}"))
    factor = schema.get("multipleOf")
    if factor is not None and not _is_multiple(value, factor):
        result.add(invalid(path, value, f"{path} in body should be a multiple of {_shown(factor)}"))
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    if lowest is not None and (value < lowest or (schema.get("exclusiveMinimum") and value == lowest)):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        result.add(invalid(path, value, f"{path} in body should be {words} {_shown(lowest)}"))
    if highest is not None and (value > highest or (schema.get("exclusiveMaximum") and value == highest)):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        result.add(invalid(path, value, f"{path} in body should be {words} {_shown(highest)}"))
    return result


def _in_range(value: float, kind: str, form: str) -> bool:
    if kind == "integer":
        limit = _INT32 if form == "int32" else _INT64
        return -limit <= value < limit
    return form != "float" or abs(value) <= _FLOAT32_MAX


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and float(factor).is_integer():
        return factor > 0 and value % int(factor) == 0
    return factor > 0 and float(value / factor if factor >= 1 else 1 / factor * value).is_integer()


def _shown(number: float) -> str:
    """A bound as Go prints it."""
    if not float(number).is_integer() or math.isinf(number) or abs(number) >= 1e21:
        return repr(float(number))
    return str(int(number))


def _array(value: Any, schema: Schema, path: str, old: Any) -> _Result | None:
    if not isinstance(value, list):
        return None
    result = _Result(checks=1)
    items = schema.get("items")
    if items is not None:
        before = _correlated(value, schema, old)
        for index, item in enumerate(value):
            result.merge(_check(item, items, f"{path}[{index}]", before(index)))
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if fewest is not None and len(value) < fewest:
        result.add(invalid(path, len(value), f"{path} in body should have at least {fewest} items"))
    if most is not None and len(value) > most:
        result.add(too_many(path, len(value), most))
    if schema.get("uniqueItems") and any(value.index(item) < index for index, item in enumerate(value)):
        result.add(invalid(path, "", f"{path} in body shouldn't contain duplicates"))
    return result


def _correlated(value: list[Any], schema: Schema, old: Any) -> Callable[[int], Any]:
    """Which old item stands for one of now: that with the same keys, in a list under keys; none in any other list."""
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map" or not keys:
        return lambda index: ABSENT

    def key_of(item: Any) -> tuple[str, ...] | None:
        return tuple(repr(item.get(key)) for key in keys) if isinstance(item, dict) else None

    by_key = {key_of(item): item for item in old}
    return lambda index: by_key.get(key_of(value[index]), ABSENT)


def _object(value: Any, schema: Schema, path: str, old: Any) -> _Result | None:
    if not isinstance(value, dict):
        return None
    result = _Result()
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if fewest is not None and len(value) < fewest:
        result.add(invalid(path, len(value), f"{path} in body should have at least {fewest} properties"))
    if most is not None and len(value) > most:
        result.add(too_many(path, len(value), most))
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    for name in sorted(value):
        inner = properties.get(name, additional)
        if name not in properties and additional is False:
            result.add(invalid(path, name, f"{path}.{name} in body is a forbidden property"))
        elif isinstance(inner, dict):
            # Kubernetes joins the first name of a map at the root with a dot in front; nothing shows it
            below = f"{path}.{name}" if path else name
            result.merge(_check(value[name], inner, below, _old_field(old, name, path)))
    for name in schema.get("required", ()):
        if name not in value:
            result.add(required(f"{path}.{name}"))
    return result


def _old_field(old: Any, name: str, path: str) -> Any:
    if not isinstance(old, dict) or (not path and name in ("kind", "apiVersion")):
        return ABSENT
    return old.get(name, ABSENT)


def _combined(value: Any, schema: Schema, path: str, old: Any) -> _Result | None:
    """anyOf, oneOf, allOf and not."""
    result = _Result()
    if schema.get("anyOf"):
        _any_of(_each(value, schema["anyOf"], path, old), path, result)
    if schema.get("oneOf"):
        _one_of(list(_each(value, schema["oneOf"], path, old)), path, result)
    if schema.get("allOf"):
        found = list(_each(value, schema["allOf"], path, old))
        failed = [one for one in found if one.errors]
        for one in found:
            result.merge(one)
        if failed:
            rest = ". None validated" if len(failed) == len(found) else ""
            result.add(_overall(path, f"must validate all the schemas (allOf){rest}"))
    if schema.get("not") is not None and not _check(value, schema["not"], path, ABSENT).errors:
        result.add(_overall(path, "must not validate the schema (not)"))
    result.checks += 1
    return result


def _each(value: Any, schemas: Iterable[Schema], path: str, old: Any) -> Iterable[_Result]:
    return (_check(value, one, path, old) for one in schemas)


def _overall(path: str, what: str) -> FieldError:
    return invalid(_WHOLE, "", f'"{path}" {what}')


def _closest(failed: Iterable[_Result]) -> _Result:
    return max(failed, key=lambda one: one.checks)


def _any_of(found: Iterable[_Result], path: str, result: _Result) -> None:
    failed = []
    for one in found:
        if not one.errors:
            result.merge(one)
            return
        failed.append(one)
    result.add(_overall(path, "must validate at least one schema (anyOf)"))
    result.merge(_closest(failed))


def _one_of(found: list[_Result], path: str, result: _Result) -> None:
    valid = [one for one in found if not one.errors]
    if len(valid) == 1:
        result.merge(valid[0])
        return
    rest = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    result.add(_overall(path, f"must validate one and only one schema (oneOf). {rest}"))
    if not valid:
        result.merge(_closest(found))


_CHECKS: tuple[Callable[[Any, Schema, str, Any], _Result | None], ...] = (
    _type,
    _combined,
    _string,
    _format,
    _number,
    _array,
    _enum,
    _object,
)
"""In Kubernetes' order."""
