"""Semantic versions. Sources: `k8s.io/apiserver/pkg/cel/library/semverlib.go`; the errors are those of `blang/semver`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.api.cel.functions.registry import BOOL, STRING, Table
from bayplan.api.cel.numbers import UINT_MAX, whole_number
from bayplan.api.cel.values import EvaluationError, Opaque, no_such_overload
from bayplan.api.errors import quoted

TABLE = Table()
_DIGITS = frozenset("0123456789")
_IDENTIFIER = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


@dataclass(frozen=True, slots=True, eq=False)
class Version(Opaque):
    """A semantic version; build metadata do not count."""

    type_name = "kubernetes.Semver"
    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    def equals(self, other: Any) -> bool:
        """Whether neither comes first. Raises EvaluationError for what is no version."""
        if not isinstance(other, Version):
            raise no_such_overload()
        return self.compare(other) == 0

    def compare(self, other: Version) -> int:
        """-1, 0 or 1 as this version comes before, is, or comes after another one."""
        one, two = self._order(), other._order()
        return (one > two) - (one < two)

    def _order(self) -> tuple[Any, ...]:
        parts = [(0, whole_number(one), "") if _only(one, _DIGITS) else (1, 0, one) for one in self.prerelease]
        return self.major, self.minor, self.patch, not parts, parts


def _only(text: str, allowed: frozenset[str]) -> bool:
    return allowed.issuperset(text)


def _number(text: str, name: str) -> int:
    if not _only(text, _DIGITS):
        raise EvaluationError(f"Invalid character(s) found in {name} number {quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{name.capitalize()} number must not contain leading zeroes {quoted(text)}")
    if not text:
        raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
    if whole_number(text) > UINT_MAX:
        raise EvaluationError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


def parse_version(text: str) -> Version:
    """A version. Raises EvaluationError."""
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch_text, dash, prerelease = rest.partition("-")
    patch = _number(patch_text, "patch")
    identifiers = tuple(prerelease.split(".")) if dash else ()
    for one in identifiers:
        _check_prerelease(one)
    for one in build.split(".") if plus else ():
        if not one:
            raise EvaluationError("Build meta data is empty")
        if not _only(one, _IDENTIFIER):
            raise EvaluationError(f"Invalid character(s) found in build meta data {quoted(one)}")
    return Version(major, minor, patch, identifiers)


def _check_prerelease(one: str) -> None:
    if not one:
        raise EvaluationError("Prerelease is empty")
    if _only(one, _DIGITS):
        if len(one) > 1 and one[0] == "0":
            raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {quoted(one)}")
    elif not _only(one, _IDENTIFIER):
        raise EvaluationError(f"Invalid character(s) found in prerelease {quoted(one)}")


def _normalized(text: str) -> str:
    """Without a `v` in front and zeros that lead, and with all three numbers."""
    parts = [_without_zeros(one) for one in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join((*parts, *["0"] * (3 - len(parts))))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest and rest[0] in _DIGITS else f"0{rest}"


@TABLE.function("semver", STRING)
def _semver(text: str) -> Version:
    return parse_version(text)


@TABLE.function("semver", STRING, BOOL)
def _semver_normalized(text: str, normalize: bool) -> Version:
    return parse_version(_normalized(text) if normalize else text)


@TABLE.function("isSemver", STRING)
def _is_semver(text: str) -> bool:
    return _is_semver_normalized(text, False)


@TABLE.function("isSemver", STRING, BOOL)
def _is_semver_normalized(text: str, normalize: bool) -> bool:
    try:
        _semver_normalized(text, normalize)
    except EvaluationError:
        return False
    return True


@TABLE.member("isGreaterThan", Version, Version)
def _is_greater_than(value: Version, other: Version) -> bool:
    return value.compare(other) > 0


@TABLE.member("isLessThan", Version, Version)
def _is_less_than(value: Version, other: Version) -> bool:
    return value.compare(other) < 0


@TABLE.member("compareTo", Version, Version)
def _compare_to(value: Version, other: Version) -> int:
    return value.compare(other)


@TABLE.member("major", Version)
def _major(value: Version) -> int:
    return value.major


@TABLE.member("minor", Version)
def _minor(value: Version) -> int:
    return value.minor


@TABLE.member("patch", Version)
def _patch(value: Version) -> int:
    return value.patch
