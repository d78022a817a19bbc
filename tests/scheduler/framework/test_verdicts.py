"""Refusals by number, and which of them are failures."""

from __future__ import annotations

import numpy as np

from bayplan.scheduler.framework.verdicts import ReasonTable, Status


def test_failures_are_found_among_verdicts() -> None:
    reasons = ReasonTable()
    full = reasons.code(Status.UNSCHEDULABLE, "A", "full")
    codes = np.array([0, full, -1], dtype=np.int32)
    assert reasons.failures_in(codes) == []
    second = reasons.code(Status.ERROR, "B", "second")
    assert reasons.failures_in(codes) == []
    codes = np.array([second, full, -1, second], dtype=np.int32)
    assert [one.reasons for one in reasons.failures_in(codes)] == [("second",)]
    first = reasons.code(Status.ERROR, "B", "first")
    last = [reasons.code(Status.UNSCHEDULABLE, "A", str(number)) for number in range(9)][-1]
    codes = np.array([second, first, last], dtype=np.int32)
    assert [one.reasons for one in reasons.failures_in(codes)] == [("first",), ("second",)]
