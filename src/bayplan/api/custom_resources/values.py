"""Whether the values of a tree are as a schema wants them.

An update may leave as it is what has been wrong before (ratcheting): errors below a value that did not change do not count.

Source of the behaviour: `kube-openapi/pkg/validation/validate` and `apiextensions-apiserver/pkg/apiserver/validation`. Fields are looked at in order of name,
where Kubernetes looks at them in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bayplan.api.custom_resources import formats, patterns
from bayplan.api.custom_resources.correlation import Before, identity, same
from bayplan.api.custom_resources.enums import enum_values
from bayplan.api.custom_resources.go_values import shown
from bayplan.api.custom_resources.numbers import as_whole
from bayplan.api.custom_resources.rejection import rejects
from bayplan.api.errors import ErrorType, FieldError, invalid, quoted, required, too_long, too_many, unsupported_text
from bayplan.api.schema import Schema

_WHOLE = "<nil>"
"""The field of errors that concern no single field, as Kubernetes shows it."""
_INT32 = 1 << 31
_INT64 = 1 << 63
_FLOAT32_LIMIT = 3.4028235677973366e38
"""The smallest number that becomes infinity when it is rounded to 32 bits."""
_WHOLE_FLOATS = float((1 << 53) - 1)
"""Up to here a float can be told from its neighbours among the whole numbers."""
_CLOSE = 1e-9
_MOST_ERRORS = 4000
"""Errors of one list or object after which the rest of it is not looked at: about as many as an answer shows."""
UNCHECKED = FieldError(
    ErrorType.INVALID,
    _WHOLE,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
)


@dataclass(slots=True)
class _Result:
    """What was found: errors, and how many checks were made, by which the closest of several alternatives is known."""

    errors: list[FieldError] = field(default_factory=list)
    checks: int = 0
    _known: dict[tuple[ErrorType, str, str], list[FieldError]] | None = None
    """The errors by all but their values, which may not be hashable; made with the first."""

    def merge(self, other: _Result) -> None:
        """Take over what another one found; what is known already is not said twice."""
        self.checks += other.checks
        if other.errors:
            self.add(*other.errors)

    def add(self, *errors: FieldError) -> None:
        """Note errors."""
        if errors and self._known is None:
            self._known = {}
        for error in errors:
            assert self._known is not None
            alike = self._known.setdefault((error.type, error.field, error.detail), [])
            if error not in alike:
                alike.append(error)
                self.errors.append(error)


_VALID, _VALID_AND_CHECKED = _Result(), _Result(checks=1)
"""Results of checks that found nothing. They are shared: do not change them."""


def validate(tree: Any, schema: Schema, path: str = "", before: Before | None = None) -> list[FieldError]:
    """What is wrong with a tree; `before`: what it was before the change, None for new ones."""
    return [_named(error, path) for error in _check(tree, schema, "", before).errors]


def _named(error: FieldError, path: str) -> FieldError:
    """The error with its field, below a path."""
    name = error.field.removeprefix(".")
    if error.field == _WHOLE or not path:
        whole = path or _WHOLE if error.field in (_WHOLE, "") else name
    else:
        whole = f"{path}.{name}" if name else path
    return msgspec.structs.replace(error, field=whole)


def json_type(value: Any) -> str:
    """The type of a JSON value, as schemas name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return {str: "string", int: "integer", float: "number", list: "array", dict: "object"}[type(value)]


def _is_whole(value: float) -> bool:
    """Whether a float is as good as an integer: those that differ from one by next to nothing are, those beyond 53 bits are not."""
    if not math.isfinite(value) or abs(value) > _WHOLE_FLOATS:
        return False
    difference = abs(value - int(value))
    return not difference or (int(value) != 0 and difference / (abs(value) + abs(int(value))) < _CLOSE)


def _check(value: Any, schema: Schema, path: str, before: Before | None) -> _Result:
    """`_check_new`; nothing is wrong with what did not change."""
    result = _check_new(value, schema, path, before)
    if result.errors and before is not None and same(value, before.value):
        return _Result(checks=result.checks)
    return result


def _check_new(value: Any, schema: Schema, path: str, before: Before | None) -> _Result:
    """What is wrong with a value, even if it was so before; what is below it may stay as it was."""
    if value is None:
        return _check_null(schema, path)
    result = _Result(checks=1)
    for check in _CHECKS:
        found = check(value, schema, path, before)
        if found is not None:
            result.checks += found.checks + 1
            if found.errors:
                result.add(*found.errors)
    return result


def _check_null(schema: Schema, path: str) -> _Result:
    typed, listed = _type(None, schema, path, None), _enum(None, schema, path, None)
    result = _Result(checks=0 if typed is not None and typed.errors else 1)
    for found in (typed, listed):
        if found is not None:
            result.add(*found.errors)
    return result


def _failed(*errors: FieldError) -> _Result:
    result = _Result()
    result.add(*errors)
    return result


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
    return name if name in formats.OF_NUMBERS.get(kind, ()) else ""


def _type(value: Any, schema: Schema, path: str, before: Before | None) -> _Result | None:
    types, form = _types_of(schema), _format_of(schema)
    if not types and not form:
        return None
    if value is None:
        wrong = types and "null" not in types and not schema.get("nullable")
        return _failed(_type_error(path, ",".join(types), "null")) if wrong else _VALID_AND_CHECKED
    kind = json_type(value)
    fits = (
        kind in types
        or (kind == "number" and "integer" in types and _is_whole(value))
        or (kind == "integer" and "number" in types)
    )
    is_numeric = "number" in types or "integer" in types
    if form and kind in ("string", "array"):
        if not is_numeric:
            return _VALID_AND_CHECKED
    elif form and not fits:
        inner = {"integer": "int64", "number": "float64"}.get(kind, "")
        if inner != form:
            return _failed(_type_error(path, form, inner))
    return _VALID_AND_CHECKED if fits else _failed(_type_error(path, ",".join(types), kind))


def _type_error(path: str, wanted: str, given: str) -> FieldError:
    detail = f'{path} in body must be of type {wanted}: "{given}"'
    return FieldError(ErrorType.TYPE_INVALID, path, given, detail)


def _enum(value: Any, schema: Schema, path: str, before: Before | None) -> _Result | None:
    allowed = schema.get("enum")
    if not allowed:
        return _VALID
    values = enum_values(allowed)
    return _VALID if values.has(value) else _failed(unsupported_text(path, value, values.names))


def _string(value: Any, schema: Schema, path: str, before: Before | None) -> _Result | None:
    if not isinstance(value, str):
        return None
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None and len(value) > longest:
        return _failed(too_long(path, longest))
    if shortest is not None and len(value) < shortest:
        return _failed(invalid(path, value, f"{path} in body should be at least {shortest} chars long"))
    if pattern and not patterns.matches(value, pattern):
        return _failed(invalid(path, value, f"{path} in body should match '{pattern}'"))
    return _VALID


def _format(value: Any, schema: Schema, path: str, before: Before | None) -> _Result | None:
    name = _format_of(schema)
    if not isinstance(value, str) or not name or not formats.is_known(name):
        return None
    if formats.has_format(value, name):
        return _VALID
    detail = f"{path} in body must be of type {name}: {quoted(value)}"
    return _failed(FieldError(ErrorType.TYPE_INVALID, path, value, detail))


def _number(value: Any, schema: Schema, path: str, before: Before | None) -> _Result | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    result = _Result(checks=1)
    form = _format_of(schema)
    kind = schema.get("type") or ""
    typed = f"{kind} with format {form}" if form else f"{kind} (default format)"
    if not _in_range(value, kind, form):
        result.add(invalid(_WHOLE, "", f"Checked value must be of type {typed} in {path}"))
    for name, what, judge in _BOUNDS:
        bound = schema.get(name)
        if bound is None:
            continue
        fits = _in_range(bound, kind, form)
        if not fits:
            result.add(invalid(_WHOLE, "", f"{what} value must be of type {typed} in {path}"))
        # integers are compared with what is left of a bound without its fraction
        result.add(*judge(value, int(bound) if fits and isinstance(value, int) else float(bound), schema, path))
    return result


def _minimum_errors(value: float, bound: float, schema: Schema, path: str) -> Iterable[FieldError]:
    excluded = schema.get("exclusiveMinimum")
    if value < bound or (excluded and value == bound):
        words = "greater than" if excluded else "greater than or equal to"
        yield invalid(path, value, f"{path} in body should be {words} {shown(bound)}")


def _maximum_errors(value: float, bound: float, schema: Schema, path: str) -> Iterable[FieldError]:
    excluded = schema.get("exclusiveMaximum")
    if value > bound or (excluded and value == bound):
        words = "less than" if excluded else "less than or equal to"
        yield invalid(path, value, f"{path} in body should be {words} {shown(bound)}")


def _in_range(value: float, kind: str, form: str) -> bool:
    """Whether a number can be had in a type. Whole numbers can be integers, however they are written."""
    if kind == "integer":
        limit = _INT32 if form == "int32" else _INT64
        whole = value if isinstance(value, int) else as_whole(value) if math.isfinite(value) else None
        return whole is not None and -limit <= whole < limit
    return form != "float" or abs(value) < _FLOAT32_LIMIT


def _multiple_errors(value: float, factor: float, schema: Schema, path: str) -> Iterable[FieldError]:
    if factor <= 0:
        yield invalid(path, factor, f"factor MultipleOf declared for {path} must be positive: {shown(factor)}")
        return
    if isinstance(factor, int):
        is_multiple = value % factor == 0
    else:
        is_multiple = _is_whole(1 / factor * value if factor < 1 else value / factor)
    if not is_multiple:
        yield invalid(path, value, f"{path} in body should be a multiple of {shown(factor)}")


_BOUNDS: tuple[tuple[str, str, Callable[[float, float, Schema, str], Iterable[FieldError]]], ...] = (
    ("multipleOf", "MultipleOf", _multiple_errors),
    ("minimum", "Minimum boundary", _minimum_errors),
    ("maximum", "Maximum boundary", _maximum_errors),
)


def _array(value: Any, schema: Schema, path: str, before: Before | None) -> _Result | None:
    if not isinstance(value, list):
        return None
    result = _Result(checks=1)
    items = schema.get("items")
    if items is not None:
        for index, item in enumerate(value):
            result.merge(_check(item, items, f"{path}[{index}]", before and before.item(index)))
            if len(result.errors) >= _MOST_ERRORS:
                result.add(UNCHECKED)
                break
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if fewest is not None and len(value) < fewest:
        result.add(invalid(path, len(value), f"{path} in body should have at least {fewest} items"))
    if most is not None and len(value) > most:
        result.add(too_many(path, len(value), most))
    if schema.get("uniqueItems") and _has_twice(value):
        result.add(invalid(path, "", f"{path} in body shouldn't contain duplicates"))
    return result


def _object(value: Any, schema: Schema, path: str, before: Before | None) -> _Result | None:
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
            result.merge(_check(value[name], inner, below, _below(before, name, path)))
        if len(result.errors) >= _MOST_ERRORS:
            result.add(UNCHECKED)
            break
    for name in schema.get("required", ()):
        if name not in value:
            result.add(required(f"{path}.{name}"))
    return result


def _has_twice(items: list[Any]) -> bool:
    return len({identity(item) for item in items}) < len(items)


def _below(before: Before | None, name: str, path: str) -> Before | None:
    """What a field was before. Of what kind a whole object is has no past: both are shown in one version."""
    return None if before is None or (not path and name in ("kind", "apiVersion")) else before.field(name)


def _combined(value: Any, schema: Schema, path: str, before: Before | None) -> _Result | None:
    """anyOf, oneOf, allOf and not."""
    result = _Result()
    if schema.get("anyOf"):
        _any_of(value, schema["anyOf"], path, before, result)
    if schema.get("oneOf"):
        _one_of(value, schema["oneOf"], path, before, result)
    if schema.get("allOf"):
        found = list(_each(value, schema["allOf"], path, before))
        failed = [one for one in found if one.errors]
        for one in found:
            result.merge(one)
        if failed:
            rest = ". None validated" if len(failed) == len(found) else ""
            result.add(_overall(path, f"must validate all the schemas (allOf){rest}"))
    if schema.get("not") is not None and not _check_new(value, schema["not"], path, before).errors:
        result.add(_overall(path, "must not validate the schema (not)"))
    result.checks += 1
    return result


def _each(value: Any, schemas: Iterable[Schema], path: str, before: Before | None) -> Iterable[_Result]:
    return (_check_new(value, one, path, before) for one in schemas)


def _overall(path: str, what: str) -> FieldError:
    return invalid(_WHOLE, "", f'"{path}" {what}')


def _merge_closest(value: Any, schemas: Iterable[Schema], path: str, before: Before | None, result: _Result) -> None:
    """What is wrong with a value by the alternative of which most holds."""
    result.merge(max(_each(value, schemas, path, before), key=lambda one: one.checks))


def _candidates(value: Any, schemas: Iterable[Schema], path: str, before: Before | None) -> Iterator[_Result]:
    """What is found by alternatives that a value does not break at first sight and keeps: few of many."""
    for one in schemas:
        if not rejects(value, one, before):
            found = _check_new(value, one, path, before)
            if not found.errors:
                yield found


def _any_of(value: Any, schemas: list[Schema], path: str, before: Before | None, result: _Result) -> None:
    valid = next(_candidates(value, schemas, path, before), None)
    if valid is not None:
        result.merge(valid)
        return
    result.add(_overall(path, "must validate at least one schema (anyOf)"))
    _merge_closest(value, schemas, path, before, result)


def _one_of(value: Any, schemas: list[Schema], path: str, before: Before | None, result: _Result) -> None:
    valid = list(_candidates(value, schemas, path, before))
    if len(valid) == 1:
        result.merge(valid[0])
        return
    rest = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    result.add(_overall(path, f"must validate one and only one schema (oneOf). {rest}"))
    if not valid:
        _merge_closest(value, schemas, path, before, result)


_CHECKS: tuple[Callable[[Any, Schema, str, Before | None], _Result | None], ...] = (
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
