from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import resource_v1
from bayplan.controllers.nodes import device_taint_rules as rules

BORN, BIRTH = "2026-01-01T00:00:00Z", 1767225600.0
NOW = BIRTH + 100


def one_slice(name: str, generation: int, **taints: str) -> resource_v1.ResourceSlice:
    """A slice with devices that have a taint `broken` with these effects."""
    devices = [
        {"name": device, "taints": [{"key": "broken", "effect": effect, "timeAdded": BORN}] if effect else []}
        for device, effect in taints.items()
    ]
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "gpu", "pool": pool, "devices": devices}
    return from_tree(resource_v1.ResourceSlice, {"metadata": {"name": name}, "spec": spec})


def claim(*tolerations: dict[str, Any], device: str = "a") -> resource_v1.ResourceClaim:
    result = {"request": "r", "driver": "gpu", "pool": "pool", "device": device, "tolerations": list(tolerations)}
    status = {"allocation": {"devices": {"results": [result]}}}
    return from_tree(resource_v1.ResourceClaim, {"metadata": {"name": "c", "namespace": "d"}, "status": status})


def test_only_taints_that_drive_pods_away_count_and_only_in_the_newest_slices() -> None:
    old, new = one_slice("old", 1, a="NoExecute"), one_slice("new", 2, a="NoSchedule", b="NoExecute", c="")
    assert set(rules.tainted_devices([old, new])) == {("gpu", "pool", "b")}


TAINTED = rules.tainted_devices([one_slice("s", 1, a="NoExecute")])


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(claim(), BIRTH, id="nothing tolerates it: from its beginning"),
        pytest.param(claim(device="b"), None, id="another device"),
        pytest.param(resource_v1.ResourceClaim(), None, id="no device at all"),
        pytest.param(claim({"key": "broken", "operator": "Exists"}), None, id="tolerated for ever"),
        pytest.param(claim({"operator": "Exists"}), None, id="everything tolerated"),
        pytest.param(claim({"key": "broken", "operator": "Equal", "value": "x"}), BIRTH, id="another value"),
        pytest.param(claim({"operator": "Exists", "effect": "NoSchedule"}), BIRTH, id="another effect"),
        pytest.param(
            claim(
                {"key": "broken", "operator": "Exists", "tolerationSeconds": 90},
                {"operator": "Exists", "tolerationSeconds": 60},
            ),
            BIRTH + 60,
            id="tolerated for the shortest time that is given",
        ),
    ],
)
def test_when_pods_have_to_leave(one: resource_v1.ResourceClaim, expected: float | None) -> None:
    assert rules.eviction_time(one, TAINTED, NOW) == expected


def test_a_taint_without_a_time_counts_from_now() -> None:
    tainted = {("gpu", "pool", "a"): (resource_v1.DeviceTaint(key="broken", effect="NoExecute"),)}
    assert rules.eviction_time(claim(), tainted, NOW) == NOW
