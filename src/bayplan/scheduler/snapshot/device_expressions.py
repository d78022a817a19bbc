"""CEL expressions over devices (`device.driver`, `device.attributes[domain].name`, `device.capacity[domain].name`).

The engine is the `common-expression-language` package, imported when the first expression is compiled. Quantities and
semantic versions are small maps to it; Kubernetes' functions for them, and those of CEL's string library that device
selectors use, are added here. Source: `k8s.io/dynamic-resource-allocation/cel`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.quantity import Quantity, parse

if TYPE_CHECKING:
    from bayplan.api.types.resource_v1 import Device, DeviceAttribute

_QUANTITY: Final = "quantity"
_SEMVER: Final = "semver"
_DOMAINS: Final = re.compile(r"""(?:attributes|capacity)\s*\[\s*(?:"([^"]*)"|'([^']*)')\s*\]""")
_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:[0-9A-Za-z-]+)(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)
_LAX_VERSION: Final = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


class ExpressionError(ValueError):
    """An expression does not compile, or fails on a device."""


def _order(mine: Any, other: Any) -> int:
    return int(mine > other) - int(mine < other)


# Semantic versions


def _version_key(text: str) -> tuple[Any, ...]:
    """Sorts versions as semver.org defines: a pre-release before its release."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ExpressionError(f"{text!r} is no semantic version")
    major, minor, patch, pre = match.groups()
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split(".")) if pre else ()
    return (int(major), int(minor), int(patch), pre is None, parts)


def _normalized(text: str) -> str:
    match = _LAX_VERSION.fullmatch(text)
    if match is None:
        raise ExpressionError(f"{text!r} is no semantic version")
    major, minor, patch, pre, build = match.groups()
    return f"{int(major)}.{int(minor or 0)}.{int(patch or 0)}{pre or ''}{build or ''}"


def _semver(text: str, normalize: bool = False) -> dict[str, str]:
    chosen = _normalized(text) if normalize else text
    _version_key(chosen)
    return {_SEMVER: chosen}


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except ExpressionError:
        return False
    return True


# Quantities


def _amount(value: Mapping[str, str]) -> Quantity:
    return parse(value[_QUANTITY])


def _quantity(text: str) -> dict[str, str]:
    try:
        return {_QUANTITY: str(parse(text))}
    except ValueError as error:
        raise ExpressionError(str(error)) from error


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _key(value: Mapping[str, str]) -> Any:
    """What a quantity or a version sorts by."""
    if _QUANTITY in value:
        return _amount(value)
    return _version_key(value[_SEMVER])


def _compare(mine: Mapping[str, str], other: Mapping[str, str]) -> int:
    return _order(_key(mine), _key(other))


def _operand(value: Any) -> Quantity:
    return parse(value) if isinstance(value, int) else _amount(value)


def _as_integer(value: Mapping[str, str]) -> int:
    amount = _amount(value)
    if not _is_integer(value):
        raise ExpressionError(f"{amount} is no integer")
    return amount.value()


def _is_integer(value: Mapping[str, str]) -> bool:
    amount = _amount(value)
    return amount.unscaled % 10**amount.scale == 0 and abs(amount.value()) < 2**63


def _part(index: int) -> Callable[[Mapping[str, str]], int]:
    return lambda value: int(_version_key(value[_SEMVER])[index])


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise ExpressionError(f"substring({start}, {stop}) is out of range")
    return text[start:stop]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    return list(text) if separator == "" else text.split(separator, count - 1 if count > 0 else -1)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "semver": _semver,
    "isSemver": _is_semver,
    "major": _part(0),
    "minor": _part(1),
    "patch": _part(2),
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: _amount(value).unscaled / 10 ** _amount(value).scale,
    "sign": lambda value: _amount(value).sign(),
    "add": lambda mine, other: {_QUANTITY: str(_amount(mine).add(_operand(other)))},
    "sub": lambda mine, other: {_QUANTITY: str(_amount(mine).sub(_operand(other)))},
    "isGreaterThan": lambda mine, other: _compare(mine, other) > 0,
    "isLessThan": lambda mine, other: _compare(mine, other) < 0,
    "compareTo": _compare,
    "lowerAscii": lambda text: text.lower(),
    "upperAscii": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "indexOf": lambda text, part: text.find(part),
    "lastIndexOf": lambda text, part: text.rfind(part),
    "charAt": lambda text, index: text[index : index + 1],
    "substring": _substring,
    "replace": _replace,
    "split": _split,
    "join": lambda parts, separator="": separator.join(parts),
}


class DeviceExpression:
    """A compiled expression."""

    def __init__(self, text: str) -> None:
        """Raises ExpressionError if it does not compile."""
        import cel

        self.text = text
        self._cel = cel
        self._domains = {double or single for double, single in _DOMAINS.findall(text)}
        self._functions = {name: function for name, function in _FUNCTIONS.items() if f"{name}(" in text}
        try:
            self._program = cel.compile(text)
        except ValueError as error:
            raise ExpressionError(str(error)) from error

    def matches(self, driver: str, device: Device) -> bool:
        """Whether a device is meant. Raises ExpressionError if the expression fails or gives no boolean."""
        context = self._cel.Context({"device": describe(driver, device, self._domains)})
        for name, function in self._functions.items():
            context.add_function(name, function)
        try:
            answer = self._program.execute(context)
        except KeyError as error:
            raise ExpressionError(f"no such key: {error.args[0] if error.args else error}") from error
        except (RuntimeError, TypeError, ValueError) as error:
            raise ExpressionError(str(error)) from error
        if not isinstance(answer, bool):
            raise ExpressionError(f"the result is {type(answer).__name__}, not a boolean")
        return answer


def describe(driver: str, device: Device, domains: set[str]) -> dict[str, Any]:
    """A device as expressions see it. Names without a domain belong to the driver's; unknown domains are empty."""
    attributes: dict[str, dict[str, Any]] = {domain: {} for domain in (*domains, driver)}
    capacity: dict[str, dict[str, Any]] = {domain: {} for domain in (*domains, driver)}
    for name, attribute in device.attributes.items():
        domain, plain = split_name(name, driver)
        attributes.setdefault(domain, {})[plain] = attribute_value(attribute)
    for name, amount in device.capacity.items():
        domain, plain = split_name(name, driver)
        capacity.setdefault(domain, {})[plain] = {_QUANTITY: amount.value}
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
    }


def split_name(name: str, driver: str) -> tuple[str, str]:
    """(domain, name) of an attribute or capacity."""
    domain, slash, plain = name.rpartition("/")
    return (domain, plain) if slash else (driver, name)


def attribute_value(attribute: DeviceAttribute) -> Any:
    """The value of an attribute, versions as maps."""
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        return {_SEMVER: attribute.version}
    if attribute.versions:
        return [{_SEMVER: item} for item in attribute.versions]
    return list(attribute.ints or attribute.bools or attribute.strings)


@lru_cache(maxsize=1024)
def compiled(text: str) -> DeviceExpression:
    """A compiled expression, remembered. Raises ExpressionError."""
    return DeviceExpression(text)
