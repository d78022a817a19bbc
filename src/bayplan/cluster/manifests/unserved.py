"""Custom kinds: what manifests and dumps have of them, though nothing here serves them.

A chart often brings a few custom resources. They are left out and named, and the rest goes on; a misspelt built-in kind
is not taken for a custom one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bayplan.api.kinds import Kind
from bayplan.api.optional_kinds import EVERY_KIND
from bayplan.support.memory.memo import memoized

_ALIKE: Final = 0.85
"""Likeness of two names, 0 to 1, from which on one counts as the other misspelt."""


@dataclass(frozen=True, slots=True)
class UnservedKind:
    """A custom kind that nothing here serves."""

    api_version: str
    kind: str
    objects: int
    """How many of it were left out."""

    def __str__(self) -> str:
        left_out = f"{self.objects:,} object{'s' * (self.objects != 1)} left out"
        return f"{self.kind} in {self.api_version} is not served here, and so not simulated ({left_out})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": self.kind, "apiVersion": self.api_version, "objects": self.objects}


class UnservedKinds:
    """Those that were met, in the order in which they were."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], int] = {}

    def add(self, api_version: str, kind: str, objects: int = 1) -> None:
        """Count objects of a kind."""
        key = (api_version, kind)
        self._objects[key] = self._objects.get(key, 0) + objects

    def add_all(self, others: UnservedKinds) -> None:
        """Count what was met elsewhere."""
        for one in others:
            self.add(one.api_version, one.kind, one.objects)

    def __iter__(self) -> Iterator[UnservedKind]:
        return (UnservedKind(*key, count) for key, count in self._objects.items())

    def __len__(self) -> int:
        return len(self._objects)

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data."""
        return [one.to_dict() for one in self]


@memoized(4096)
def is_custom(api_version: str, kind: str) -> bool:
    """Whether a kind belongs to a group that is not Kubernetes' own.

    Groups of custom resources have a dot; one that differs little from the group that has a kind of this name is a misspelling.
    """
    group = _group(api_version)
    if "." not in group or any(row.group == group for row in _kinds()):
        return False
    return not any(row.kind == kind and _likeness(row.group, group) >= _ALIKE for row in _kinds())


def meant(api_version: str, kind: str) -> Kind | None:
    """The built-in kind that a misspelt one probably means; None if there is none."""
    same = [row for row in _kinds() if row.kind == kind and row.api_version != api_version]
    if same:
        return max(same, key=lambda row: _likeness(row.api_version, api_version))
    beside = {row.kind: row for row in _kinds() if row.group == _group(api_version)}
    near = difflib.get_close_matches(kind, beside, 1, _ALIKE)
    return beside[near[0]] if near else None


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _kinds() -> tuple[Kind, ...]:
    return EVERY_KIND
