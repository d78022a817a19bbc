"""Claims that have their devices already: where they can be used, whether they got ready, and what PostFilter does."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types.resource_v1 import ResourceClaim
from bayplan.scheduler import evaluate
from bayplan.scheduler.framework.claims import is_overdue, readiness
from tests.scheduler.devices import (
    DRIVER,
    allocated,
    claim,
    device,
    device_class,
    exactly,
    slice_of,
    user,
)
from tests.scheduler.objects import Tree, node, pod


def binding(name: str = "c", *conditions: Tree, on: str = "a") -> Tree:
    """A claim whose device has to get ready; `conditions` are what its driver says."""
    tree = allocated(name, on)
    (result,) = tree["status"]["allocation"]["devices"]["results"]
    result |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    if conditions:
        place = {"driver": DRIVER, "pool": on, "device": "gpu-0"}
        tree["status"]["devices"] = [{**place, "conditions": list(conditions)}]
    return tree


def condition(kind: str, status: str = "True", **fields: str) -> Tree:
    return {"type": kind, "status": status, "reason": "R", "lastTransitionTime": "2026-03-01T00:00:00Z", **fields}


def post_filter(*objects: Tree, new: Tree) -> str:
    outcome = evaluate([device_class(), *objects], new).post_filter
    assert outcome is not None
    return outcome.reasons[0]


def test_devices_elsewhere_are_given_up_only_if_they_are_what_a_node_was_refused_for() -> None:
    with_claim = allocated("c", "a")
    crowded, elsewhere = node("a", pods="0"), node("b")
    assert post_filter(crowded, elsewhere, with_claim, new=user("p", "c")) == "deallocation of ResourceClaim completed"
    reserved = pod("rival", cpu="4", priority=100)
    reserved["status"]["nominatedNodeName"] = "b"
    asks = user("p", "c")
    asks["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert post_filter(crowded, elsewhere, with_claim, reserved, new=asks) == "still not schedulable"


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), ("", False)),
        ((condition("ready"),), ("", True)),
        ((condition("ready", "False"),), ("", False)),
        (
            (condition("ready"), condition("broken", message='it "burns"')),
            (r'claim=c, reason=R, message="it \"burns\""', False),
        ),
    ],
)
def test_devices_are_ready_as_their_conditions_say(conditions: tuple[Tree, ...], expected: tuple[str, bool]) -> None:
    assert readiness(from_tree(ResourceClaim, binding("c", *conditions))) == expected


def test_a_device_that_failed_to_get_ready_is_of_no_use_and_is_given_up() -> None:
    broken = binding("c", condition("broken"))
    decision = evaluate([node("a"), device_class(), broken], user("p", "c"))
    assert decision.message.startswith(
        "0/1 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed"
    )
    outcome = decision.post_filter
    assert outcome is not None
    (given_up,) = outcome.deallocates
    assert (given_up.status.allocation, given_up.status.devices) == (None, ())
    assert evaluate([node("a"), device_class(), binding("c")], user("p", "c")).node == "a"


def test_devices_have_their_time_to_get_ready() -> None:
    tree = binding()
    tree["status"]["allocation"]["allocationTimestamp"] = "1970-01-01T00:01:00Z"
    waiting = from_tree(ResourceClaim, tree)
    assert [is_overdue(waiting, 600, now) for now in (60.0, 660.0, 661.0)] == [False, False, True]
    plain = allocated("c", "a")
    plain["status"]["allocation"]["allocationTimestamp"] = "1970-01-01T00:01:00Z"
    assert not is_overdue(from_tree(ResourceClaim, plain), 600, 1e9)


def first_available(name: str, *models: str) -> Tree:
    def one(model: str) -> Tree:
        selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}
        return {
            "name": model,
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 1,
            "selectors": [selector],
        }

    return {"name": name, "firstAvailable": [one(model) for model in models]}


def test_alternatives_of_claims_that_are_allocated_count_for_the_score() -> None:
    old = claim("old", first_available("r", "x"))
    result = {"request": "r/x", "driver": DRIVER, "pool": "net", "device": "d"}
    old["status"] = {"allocation": {"devices": {"results": [result]}}}
    slices = [slice_of(name, device("gpu-0", model=model)) for name, model in (("a", "x"), ("b", "y"))]
    objects = [node("a"), node("b"), device_class(), *slices, old, claim("new", first_available("r", "x", "y"))]

    def scores(*claims: str) -> list[Any]:
        found = evaluate(objects, user("p", *claims)).to_dict()["nodes"]
        return [found[name]["scores"]["DynamicResources"] for name in "ab"]

    assert scores("new") == [200, 174]
    assert scores("new", "old") == [200, 186]


def test_constraints_and_counts_are_told_with_the_name_of_the_plugin() -> None:
    many = claim("c", exactly("one", count=32), exactly("two"))
    decision = evaluate([node("a"), device_class(), many], user("p", "c"))
    assert decision.message == (
        'running "DynamicResources" filter plugin: claim default/c: number of requested devices 33 exceeds the claim '
        "limit of 32"
    )
