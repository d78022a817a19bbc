from __future__ import annotations

import pytest

from bayplan.controllers.nodes import node_zones as zones
from bayplan.controllers.settings import ControllerSettings


@pytest.mark.parametrize(
    ("ready", "failing", "expected"),
    [
        (0, 0, zones.NORMAL),
        (3, 0, zones.NORMAL),
        (0, 1, zones.FULL),
        (1, 2, zones.NORMAL),
        (3, 3, zones.NORMAL),
        (2, 3, zones.PARTIAL),
        (45, 54, zones.NORMAL),
        (45, 55, zones.PARTIAL),
    ],
)
def test_a_zone_is_disrupted_if_much_of_it_fails(ready: int, failing: int, expected: str) -> None:
    assert zones.state_of(ready, failing, 0.55) == expected


@pytest.mark.parametrize(
    ("state", "size", "rate"),
    [
        (zones.NORMAL, 10, 0.1),
        (zones.FULL, 10, 0.1),
        (zones.PARTIAL, 50, 0.0),
        (zones.PARTIAL, 51, 0.01),
    ],
)
def test_a_disrupted_zone_is_emptied_slowly_or_not_at_all(state: str, size: int, rate: float) -> None:
    assert zones.rate_of(state, size, ControllerSettings()) == rate


def test_zones_are_judged_on_their_own() -> None:
    nodes = [("a", False), ("a", True), ("b", True), ("b", True)]
    assert zones.states_of(nodes, 0.55) == {"a": (zones.NORMAL, 2), "b": (zones.FULL, 2)}


def test_one_passes_at_once_and_the_next_when_its_time_has_come() -> None:
    limiter = zones.Limiter(0.1, 0.0)
    assert limiter.take(0.0) == 0.0
    assert limiter.take(0.0) == pytest.approx(10.0)
    assert limiter.take(4.0) == pytest.approx(6.0)
    assert limiter.take(10.0) == 0.0


def test_nobody_passes_at_rate_zero_and_time_does_not_add_up() -> None:
    limiter = zones.Limiter(0.0, 0.0)
    assert limiter.take(0.0) is None
    limiter.set_rate(1.0, 100.0)
    assert limiter.take(100.0) == 0.0
    assert limiter.take(100.0) == pytest.approx(1.0)
    assert limiter.take(1000.0) == 0.0
    assert limiter.take(1000.0) == pytest.approx(1.0), "a long pause is no reason for a burst"
