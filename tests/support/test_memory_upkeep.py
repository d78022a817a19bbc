"""When a long-lived process looks for garbage, and gives memory back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bayplan.support import loop as module
from bayplan.support.loop import MemoryUpkeep


class Loop:
    """An event loop's clock and its one timer."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timer: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
        self.now += delay
        self.timer = callback
        return self


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        ([0.0, 0.0, 0.0], ["all", "", ""]),
        ([0.9, 0.9, 0.0, 0.0], ["young", "young", "all", ""]),
        ([0.01, 0.9, 0.01, 0.01], ["all", "young", "all", ""]),
        ([0.06, 0.04], ["young", "all"]),
    ],
    ids=["idle all along", "idle after work", "idle again", "at the limit"],
)
def test_all_garbage_is_collected_once_whenever_a_process_has_become_idle(
    monkeypatch: pytest.MonkeyPatch, busy: list[float], expected: list[str]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(module, "collect_all", lambda: done.append("all"))
    monkeypatch.setattr(module, "collect_young", lambda: done.append("young"))
    monkeypatch.setattr(module, "release_freed_memory", lambda: done.append("release"))
    cpu, loop = 0.0, Loop()
    MemoryUpkeep(loop, lambda: cpu)  # type: ignore[arg-type]
    for share in busy:
        cpu += share * module.RELEASE_SECONDS
        loop.timer()
    assert " ".join(done) == " ".join(f"{one} release".strip() for one in expected)
