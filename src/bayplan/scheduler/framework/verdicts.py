"""Verdicts of plugins: status codes, reasons, and their encoding as small integers.

A filter answers with an integer per row: 0 is yes, anything else stands for (status code, plugin, reasons) in a
`ReasonTable`. So 5,000 refusals are one int32 array, and text is made only for whoever reads it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
"""One verdict per row: 0 = yes, else a number of the profile's `ReasonTable`."""

OK: Final = 0


class Status(enum.Enum):
    """Kubernetes' status codes for a refusal."""

    UNSCHEDULABLE = "Unschedulable"
    """Removing other pods may help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Removing other pods cannot help."""
    ERROR = "Error"
    """The plugin failed."""


class PluginError(Exception):
    """A plugin failed: the pod is neither schedulable nor unschedulable, and is tried again."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin


class ActionError(Exception):
    """The outside world refused what a plugin wanted done. `code` is the HTTP status, 0 if there was no answer."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Reason(NamedTuple):
    """A refusal. `plugin` is empty where the framework itself refuses."""

    status: Status
    plugin: str
    reasons: tuple[str, ...]


class ReasonTable:
    """Refusals by number, from 1 on."""

    __slots__ = ("_failures", "_is_failure", "_numbers", "_reasons")

    def __init__(self) -> None:
        self._reasons: list[Reason] = [Reason(Status.UNSCHEDULABLE, "", ())]
        self._numbers: dict[Reason, int] = {}
        self._failures: list[int] = []
        """The numbers that stand for failures of plugins."""
        self._is_failure = np.zeros(0, dtype=np.bool_)
        """By number, of those that there were when it was made; longer, as -1 (a row without a node) is none."""

    def code(self, status: Status, plugin: str, *reasons: str) -> int:
        """The number of a refusal, made if it is new."""
        reason = Reason(status, plugin, reasons)
        number = self._numbers.get(reason)
        if number is None:
            number = self._numbers[reason] = len(self._reasons)
            self._reasons.append(reason)
            if status is Status.ERROR:
                self._failures.append(number)
                self._is_failure = self._is_failure[:0]
        return number

    def failures_in(self, codes: Codes) -> list[Reason]:
        """The failures among some verdicts, by text."""
        if not self._failures:
            return []
        if len(self._is_failure) <= len(self._reasons):
            self._is_failure = np.zeros(2 * len(self._reasons) + 1, dtype=np.bool_)
            self._is_failure[self._failures] = True
        failed = self._is_failure[codes]
        if not failed.any():
            return []
        numbers = np.flatnonzero(np.bincount(codes[failed])).tolist()
        return sorted((self._reasons[number] for number in numbers), key=lambda reason: reason.reasons)

    def __getitem__(self, code: int) -> Reason:
        return self._reasons[code]

    def __len__(self) -> int:
        return len(self._reasons)


@dataclass(frozen=True, slots=True)
class Skip:
    """PreFilter and PreScore: this plugin has nothing to say about the pod.

    `lasting`: it will not before nodes, catalog objects or the affinity terms in use change; else PreScore is asked
    again whenever pods come or go.
    """

    lasting: bool = True


@dataclass(frozen=True, slots=True)
class Narrow:
    """PreFilter: only these nodes come into question."""

    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reject:
    """PreEnqueue, PreFilter, Reserve and Permit: the pod cannot be scheduled now, wherever."""

    status: Status
    reasons: tuple[str, ...]


SKIP: Final = Skip()
