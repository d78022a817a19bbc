"""What requests take of devices' capacities, under the policies of the devices."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.quantity import parse
from bayplan.api.types.resource_v1 import CapacityRequirements, Device
from bayplan.scheduler.snapshot.device_capacity import share_of

Tree = dict[str, Any]


def share(asked: str | None, policy: Tree | None = None, used: str = "0") -> str | None:
    """What is taken of a memory of 10Gi."""
    memory = {"value": "10Gi", **({"requestPolicy": policy} if policy is not None else {})}
    device = from_tree(Device, {"name": "d", "capacity": {"memory": memory}})
    wanted = from_tree(CapacityRequirements, {"requests": {"memory": asked}}) if asked is not None else None
    found = share_of(device, wanted, {"memory": parse(used)})
    return str(found["memory"]) if found is not None else None


@pytest.mark.parametrize(
    ("asked", "policy", "expected"),
    [
        (None, None, "10Gi"),
        ("3Gi", None, "3Gi"),
        ("11Gi", None, None),
        (None, {"default": "1Gi"}, "1Gi"),
        ("1Gi", {"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}, "2Gi"),
        ("3Gi", {"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}, "4Gi"),
        ("9Gi", {"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi"}}, None),
        ("3Gi", {"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, "4Gi"),
        ("5Gi", {"default": "1Gi", "validValues": ["1Gi", "4Gi"]}, None),
    ],
)
def test_an_amount_is_what_is_asked_for_or_the_default_brought_to_what_the_policy_allows(
    asked: str | None, policy: Tree | None, expected: str | None
) -> None:
    assert share(asked, policy) == expected


def test_what_others_use_is_not_there_and_unknown_capacities_cannot_be_had() -> None:
    assert share("3Gi", used="7Gi") == "3Gi"
    assert share("3Gi", used="8Gi") is None
    device = from_tree(Device, {"name": "d", "capacity": {}})
    assert share_of(device, from_tree(CapacityRequirements, {"requests": {"memory": "1"}})) is None
