"""The values that expressions compute with.

Most are Python's own: `bool`, `int` (64 bits), `float`, `str`, `bytes`, `None`, `list`. `UInt`, `Timestamp`, `Duration`, `Optional` and `TypeValue` are here, as are
the bases of what others bring: maps (`Map`), lists that are not Python's (`ListValue`) and values known by name only (`Opaque`). Nothing converts by itself: where
types do not fit, an `EvaluationError` says so. Sources: the CEL specification, and cel-go 0.26 (`common/types`), whose words the errors have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from bayplan.api.cel.numbers import INT_MAX, INT_MIN, UINT_MAX, double_text


class EvaluationError(Exception):
    """An expression has no value. Errors are values to `&&` and `||`, which may not need them."""

    @property
    def message(self) -> str:
        """What is wrong, in cel-go's words."""
        return str(self.args[0])


class EvaluationCancelled(Exception):
    """An expression cost more than it may. No operator of the language can hide this."""

    message = "operation cancelled: actual cost limit exceeded"


class UInt(int):
    """An integer without sign, of 64 bits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment; two are equal if they are the same moment, whatever their zone."""

    nanoseconds: int
    """Since 1970 began in UTC."""
    zone: int = field(default=0, compare=False)
    """Seconds east of UTC of the text that it came from."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time."""

    nanoseconds: int
    """Within 64 bits."""


@dataclass(frozen=True, slots=True)
class TypeValue:
    """What `type(x)` evaluates to. Types are equal if their names are."""

    name: str


class _Absent:
    """Stands for what is not there; Python's None is the null of the language."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """A value that may be missing."""

    value: Any = ABSENT

    @property
    def is_present(self) -> bool:
        """Whether there is a value."""
        return self.value is not ABSENT


NO_VALUE: Final = Optional()


class Opaque:
    """Base of values that only functions can look into."""

    __slots__ = ()
    type_name = ""

    def equals(self, other: Any) -> bool:
        """Whether this is the same as another value. Raises EvaluationError for one of another type."""
        raise NotImplementedError

    def size(self) -> int:
        """What it counts for when costs are worked out."""
        return 1


class ListValue:
    """Base of lists that are not Python's."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def members(self) -> Iterable[Any]:
        """The items, as the expression sees them or as they are kept."""
        return self

    def equals(self, other: Any) -> bool:
        """Whether another value is the same list."""
        if not is_list(other):
            raise no_such_overload()
        return len(self) == len(other) and all(map(equals, self, other))

    def add(self, other: Any) -> Any:
        """This list and another one."""
        return [*self, *other]


class Map:
    """Base of maps, and of objects, whose fields are found by name."""

    __slots__ = ()
    type_name = "map"

    def __len__(self) -> int:
        raise NotImplementedError

    def find(self, key: Any) -> Any:
        """The value of a key, ABSENT if there is none."""
        raise NotImplementedError

    def keys(self) -> Iterable[Any]:
        """All keys."""
        raise NotImplementedError

    def has(self, key: Any) -> bool:
        """Whether there is a key."""
        return self.find(key) is not ABSENT

    def members(self) -> Iterable[Any]:
        """The values of all keys, as the expression sees them or as they are kept."""
        return map(self.find, self.keys())

    def equals(self, other: Any) -> bool:
        """Whether another value is the same map."""
        if not isinstance(other, Map) or len(self) != len(other):
            return False
        return all((value := other.find(key)) is not ABSENT and equals(self.find(key), value) for key in self.keys())


def _hashed(key: Any) -> Any:
    """A key as Python tells it apart: true is not 1, while all numbers of one size are the same key."""
    kind = type(key)
    if kind is str or kind is int or kind is UInt:
        return key
    if kind is bool:
        return (key,)
    if kind is float:
        return key
    raise EvaluationError(f"unsupported key type: {type_name(key)}")


class MapValue(Map):
    """A map that an expression made."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[Any, Any]] = ()) -> None:
        self._entries = {_hashed(key): (key, value) for key, value in entries}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Any) -> Any:
        """The value of a key, ABSENT if there is none."""
        kind = type(key)
        if kind is not str and kind not in (int, UInt, bool, float):
            return ABSENT
        found = self._entries.get(_hashed(key))
        return ABSENT if found is None else found[1]

    def keys(self) -> Iterable[Any]:
        """All keys, in the order of the expression."""
        return [key for key, _ in self._entries.values()]

    def insert(self, key: Any, value: Any) -> None:
        """Add an entry; only to be used by who made the map and has not shown it to others. Raises EvaluationError for a key that is there."""
        hashed = _hashed(key)
        if hashed in self._entries:
            raise EvaluationError(f"insert failed: key {text_of(key)} already exists")
        self._entries[hashed] = (key, value)

    def copy(self) -> MapValue:
        """The same map, to be changed."""
        made = MapValue()
        made._entries = dict(self._entries)
        return made


class StructValue(MapValue):
    """An object that an expression made: `JSONPatch{...}`."""

    __slots__ = ("type_name",)

    def __init__(self, name: str, fields: Iterable[tuple[Any, Any]]) -> None:
        super().__init__(fields)
        self.type_name = name


class JsonMap(Map):
    """An object of JSON, as policies see objects and parameters: keys are strings, integers have 64 bits."""

    __slots__ = ("_fields", "_found")

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self._found: dict[str, Any] = {}
        """Lists and objects that were looked at: an expression may look at a long list again for each of its items."""

    def __len__(self) -> int:
        return len(self._fields)

    def find(self, key: Any) -> Any:
        """The value of a key, ABSENT if there is none."""
        found = self._fields.get(key, ABSENT) if type(key) is str else ABSENT
        if not isinstance(found, dict | list):
            return found
        if key not in self._found:
            self._found[key] = from_json(found)
        return self._found[key]

    def members(self) -> Iterable[Any]:
        """See Map."""
        return self._fields.values()

    def keys(self) -> Iterable[Any]:
        """All keys."""
        return self._fields.keys()


def from_json(value: Any) -> Any:
    """A value of decoded JSON as expressions see it."""
    if isinstance(value, dict):
        return JsonMap(value)
    if isinstance(value, list):
        return [from_json(one) for one in value]
    return value


NUMBERS: Final = frozenset((int, UInt, float))
_PLAIN: Final = frozenset((str, int, bool, bytes, float, UInt, Timestamp, Duration, TypeValue, type(None)))
_NAMES: Final = {
    bool: "bool",
    bytes: "bytes",
    float: "double",
    Duration: "google.protobuf.Duration",
    int: "int",
    list: "list",
    type(None): "null_type",
    Optional: "optional_type",
    str: "string",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    UInt: "uint",
}


def is_list(value: Any) -> bool:
    """Whether a value is a list."""
    return isinstance(value, (list, ListValue))


def type_name(value: Any) -> str:
    """The name of a value's type."""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    return "list" if isinstance(value, ListValue) else str(getattr(value, "type_name", "unknown"))


def no_such_overload(function: str = "", *values: Any) -> EvaluationError:
    """What is said of values that a function or operator does not take."""
    shown = f": {function}({', '.join(map(type_name, values))})" if function else ""
    return EvaluationError(f"no such overload{shown}")


def equals(one: Any, other: Any) -> bool:
    """Whether two values are the same; numbers of different types may be. Raises EvaluationError where a value cannot be compared with the other."""
    kind, other_kind = type(one), type(other)
    if kind in NUMBERS:
        if other_kind not in NUMBERS:
            return False
        return _same_number(one, other)
    if kind in _PLAIN or one is None or other is None:
        return kind is other_kind and bool(one == other)
    if kind is list:
        return is_list(other) and len(one) == len(other) and all(map(equals, one, other))
    if kind is Optional:
        if other_kind is not Optional or one.is_present is not other.is_present:
            return False
        return not one.is_present or equals(one.value, other.value)
    return bool(one.equals(other))


def _same_number(one: Any, other: Any) -> bool:
    if (type(one) is float) is (type(other) is float):
        return bool(one == other)
    return compare_numbers(one, other) == 0 if one == one and other == other else False


def compare_numbers(one: Any, other: Any) -> int:
    """-1, 0 or 1; an integer is compared with a double as doubles are. Raises EvaluationError for what is no number."""
    if one != one or other != other:
        raise EvaluationError("NaN values cannot be ordered")
    if type(one) is float and type(other) is not float:
        return _compare_double(one, other)
    if type(other) is float and type(one) is not float:
        return -_compare_double(other, one)
    return _order(one, other)


def _order(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _compare_double(one: float, other: int) -> int:
    low, high = (0, UINT_MAX) if type(other) is UInt else (INT_MIN, INT_MAX)
    if one < low:
        return -1
    if one > float(high):
        return 1
    value = float(other)
    return (one > value) - (one < value)


_ORDERED: Final = frozenset((str, bytes, bool))


def compare(one: Any, other: Any) -> int:
    """-1, 0 or 1 as a value comes before, is, or comes after another one. Raises EvaluationError for values without order."""
    kind = type(one)
    if kind in NUMBERS and type(other) in NUMBERS:
        return compare_numbers(one, other)
    if kind is type(other):
        if kind in _ORDERED:
            return _order(one, other)
        if kind is Timestamp or kind is Duration:
            return _order(one.nanoseconds, other.nanoseconds)
    raise no_such_overload()


def contains(holder: Any, value: Any) -> bool:
    """Whether a list has an item, or a map a key. Raises EvaluationError."""
    if isinstance(holder, Map):
        return holder.has(value)
    if not is_list(holder):
        raise no_such_overload()
    problem: EvaluationError | None = None
    for item in holder:
        try:
            if equals(item, value):
                return True
        except EvaluationError as error:
            problem = problem or error
    if problem is not None:
        raise no_such_overload()
    return False


def text_of(value: Any) -> str:
    """A value in messages."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) is float:
        return double_text(value)
    if value is None:
        return "null"
    if is_list(value):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, TypeValue):
        return value.name
    return str(value)
