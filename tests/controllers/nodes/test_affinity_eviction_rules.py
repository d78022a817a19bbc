"""How patient the eviction for broken affinity rules is."""

from __future__ import annotations

import pytest

from bayplan.controllers.nodes.affinity_eviction_rules import OwnerBackOff, eviction_rate, retry_delay
from bayplan.controllers.nodes.node_zones import FULL, NORMAL, PARTIAL
from bayplan.controllers.settings import ControllerSettings

SETTINGS = ControllerSettings(
    affinity_eviction_rate=2.0, secondary_affinity_eviction_rate=0.5, large_cluster_size_threshold=10
)


@pytest.mark.parametrize(
    ("state", "size", "rate"),
    [(NORMAL, 5, 2.0), (FULL, 5, 2.0), (PARTIAL, 11, 0.5), (PARTIAL, 10, 0.0)],
    ids=["healthy", "lost as a whole: others take over", "large and disrupted", "small and disrupted"],
)
def test_how_fast_pods_of_a_zone_may_be_evicted(state: str, size: int, rate: float) -> None:
    assert eviction_rate(state, size, SETTINGS) == rate


def test_an_eviction_that_fails_is_asked_for_again_later_and_later() -> None:
    assert [retry_delay(number) for number in (1, 2, 3, 4, 5, 50)] == [5, 10, 20, 40, 60, 60]


def test_pods_that_were_there_before_do_not_wait_for_each_other() -> None:
    owners = OwnerBackOff()
    owners.evicted("a", created=0.0, now=100.0)
    assert owners.delay("a", created=99.0, now=101.0) == 0.0
    assert owners.delay("b", created=101.0, now=101.0) == 0.0


def test_replacements_that_are_evicted_again_wait_twice_as_long_each_time() -> None:
    owners, now, waits = OwnerBackOff(), 100.0, []
    owners.evicted("a", created=0.0, now=now)
    for _ in range(7):
        wait = owners.delay("a", created=now, now=now)
        waits.append(wait)
        created, now = now, now + wait
        assert owners.delay("a", created=created, now=now) == 0.0
        owners.evicted("a", created=created, now=now)
    assert waits == [10, 20, 40, 80, 160, 300, 300]


def test_an_owner_that_was_left_alone_for_long_begins_anew() -> None:
    owners = OwnerBackOff()
    owners.evicted("a", created=0.0, now=100.0)
    owners.evicted("a", created=100.0, now=110.0)
    assert owners.delay("a", created=111.0, now=111.0) == 19.0
    assert owners.delay("a", created=711.0, now=711.0) == 0.0
    owners.evicted("a", created=711.0, now=711.0)
    assert owners.delay("a", created=711.0, now=711.0) == 10.0
