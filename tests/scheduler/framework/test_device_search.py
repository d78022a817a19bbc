"""How long the search for devices on a node may take."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bayplan.scheduler.framework.meter import Meter
from bayplan.support.metrics.instruments import Counter
from tests.scheduler.devices import attempt, claim, device, device_class, exactly, slice_of, user
from tests.scheduler.objects import node
from tests.scheduler.test_core import Setup


class SlowWatch(Meter):
    """A second passes with every look at the watch."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        self.seconds += 1.0
        return self.seconds

    def wall_time(self) -> float:
        return 0.0

    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Not of interest."""

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Not of interest."""

    def evaluations(self, profile: str, counters: Mapping[tuple[str, str], Counter]) -> None:
        """Not of interest."""

    def devices_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """Not of interest."""

    def volumes_failed(self, stage: str) -> None:
        """Not of interest."""


@pytest.mark.parametrize(("limit", "expected"), [("5s", False), ("1h", True), ("0s", True)])
def test_the_search_for_devices_ends_when_its_time_on_a_node_is_over(limit: str, expected: bool) -> None:
    profile = {
        "schedulerName": "default-scheduler",
        "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": limit}}],
    }
    setup = Setup({"profiles": [profile]})
    setup.core.measure(SlowWatch())
    devices = [device(f"gpu-{index}") for index in range(12)]
    for kind, tree in (
        ("Node", node("a")),
        ("DeviceClass", device_class()),
        ("ResourceSlice", slice_of("a", *devices)),
        ("ResourceClaim", claim("c", exactly(count=10))),
        ("Pod", user("p", "c")),
    ):
        setup.see(kind, tree)
    decision = attempt(setup).decision
    assert decision.scheduled is expected
    failure = 'running "DynamicResources" filter plugin: node a: timed out trying to allocate devices'
    assert (decision.message == failure) is not expected
