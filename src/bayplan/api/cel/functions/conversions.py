"""Functions that make a value of one type from one of another: `int('1')`, `string(1.5)`, `type(x)`. Source: cel-go's `common/types`."""

from __future__ import annotations

import math
import re
from typing import Any

from bayplan.api.cel.functions.registry import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    LIST,
    MAP,
    STRING,
    TIMESTAMP,
    UINT,
    Table,
)
from bayplan.api.cel.moments import (
    FIRST_SECOND,
    LAST_SECOND,
    SECOND,
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp,
    timestamp_text,
)
from bayplan.api.cel.numbers import INT_MAX, INT_MIN, UINT_MAX, double_text, whole_number
from bayplan.api.cel.values import Duration, EvaluationError, Timestamp, TypeValue, UInt, type_name

TABLE = Table()
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(
    r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity)|nan", re.ASCII | re.IGNORECASE
)
_HEXADECIMAL = re.compile(r"[+-]?0x[\da-f]*\.?[\da-f]*p[+-]?\d+", re.ASCII | re.IGNORECASE)


def _misfit(wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{wanted}'")


def _same(value: Any) -> Any:
    return value


for _kind, _name in (
    (BOOL, "bool"),
    (BYTES, "bytes"),
    (DOUBLE, "double"),
    (DURATION, "duration"),
    (INT, "int"),
    (STRING, "string"),
    (TIMESTAMP, "timestamp"),
    (UINT, "uint"),
):
    TABLE.add(_name, (_kind,), _same)
TABLE.add("dyn", (ANY,), _same)


@TABLE.function("type", ANY)
def _type_of(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


@TABLE.function("bool", STRING)
def _bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _misfit("bool")


@TABLE.function("bytes", STRING)
def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@TABLE.function("double", STRING)
def _double(text: str) -> float:
    if _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(text)
        except (ValueError, OverflowError) as error:
            raise _misfit("double") from error
    if not _DECIMAL.fullmatch(text) or "_" in text:
        raise _misfit("double")
    found = float(text)
    if math.isinf(found) and "n" not in text.lower():
        raise _misfit("double")
    return found


TABLE.add("double", (INT,), float)
TABLE.add("double", (UINT,), float)


@TABLE.function("duration", STRING)
def _duration(text: str) -> Duration:
    found = parse_duration(text)
    if found is None:
        raise _misfit("google.protobuf.Duration")
    return Duration(found)


TABLE.add("duration", (INT,), Duration)


@TABLE.function("int", STRING)
def _int(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not INT_MIN <= (found := whole_number(text)) <= INT_MAX:
        raise _misfit("int")
    return found


@TABLE.function("int", DOUBLE)
def _int_of_double(value: float) -> int:
    if not math.isfinite(value) or value <= float(INT_MIN) or value >= float(INT_MAX):
        raise EvaluationError("integer overflow")
    return int(value)


@TABLE.function("int", UINT)
def _int_of_uint(value: UInt) -> int:
    if value > INT_MAX:
        raise EvaluationError("integer overflow")
    return int(value)


@TABLE.function("int", DURATION)
def _int_of_duration(value: Duration) -> int:
    return value.nanoseconds


@TABLE.function("int", TIMESTAMP)
def _int_of_timestamp(value: Timestamp) -> int:
    return value.nanoseconds // SECOND


@TABLE.function("string", BOOL)
def _string_of_bool(value: bool) -> str:
    return "true" if value else "false"


@TABLE.function("string", BYTES)
def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from error


TABLE.add("string", (DOUBLE,), double_text)
TABLE.add("string", (DURATION,), duration_text)
TABLE.add("string", (INT,), str)
TABLE.add("string", (TIMESTAMP,), timestamp_text)
TABLE.add("string", (UINT,), str)


@TABLE.function("timestamp", INT)
def _timestamp_of_int(seconds: int) -> Timestamp:
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        raise EvaluationError("timestamp overflow")
    return timestamp(seconds * SECOND)


@TABLE.function("timestamp", STRING)
def _timestamp(text: str) -> Timestamp:
    found = parse_timestamp(text)
    if found is None:
        raise _misfit("google.protobuf.Timestamp")
    return found


@TABLE.function("uint", STRING)
def _uint(text: str) -> UInt:
    if not text.isascii() or not text.isdecimal() or whole_number(text) > UINT_MAX:
        raise _misfit("uint")
    return UInt(text)


@TABLE.function("uint", INT)
def _uint_of_int(value: int) -> UInt:
    if value < 0:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


@TABLE.function("uint", DOUBLE)
def _uint_of_double(value: float) -> UInt:
    if not math.isfinite(value) or value < 0 or value >= 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(int(value))


def _size(value: Any) -> int:
    return len(value)


for _sized in (BYTES, LIST, MAP, STRING):
    TABLE.add("size", (_sized,), _size)
    TABLE.add("size", (_sized,), _size, member=True)
