"""Which claims a pod may use, and which of their devices its containers get."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, resource_v1
from bayplan.kubelet.dynamic_resources.claims import (
    ClaimState,
    PreparedDevice,
    container_requests,
    usable_state,
    used_claims,
)
from bayplan.kubelet.dynamic_resources.errors import ClaimError

ENTRIES = [{"name": "own", "resourceClaimTemplateName": "t"}, {"name": "shared", "resourceClaimName": "cards"}]
USES = [{"name": "own"}, {"name": "shared", "request": "fast"}]


def pod(statuses: list[dict[str, str]] | None = None, **status: Any) -> core_v1.Pod:
    made = [{"name": "own", "resourceClaimName": "p-own-x"}] if statuses is None else statuses
    container = {"name": "c", "image": "i", "resources": {"claims": USES, "requests": {"example.com/gpu": "1"}}}
    tree = {
        "metadata": {"name": "p", "namespace": "d", "uid": "1"},
        "spec": {"resourceClaims": ENTRIES, "containers": [container]},
        "status": {"resourceClaimStatuses": made, **status},
    }
    return from_tree(core_v1.Pod, tree)


def claim(owner: str = "1", reserved: str = "1", *, allocated: bool = True) -> resource_v1.ResourceClaim:
    results = [{"request": "fast", "driver": "a", "pool": "n", "device": "0"}]
    tree: dict[str, Any] = {
        "metadata": {"name": "p-own-x", "namespace": "d", "uid": "c"},
        "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": reserved}]},
    }
    tree["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
    ]
    if allocated:
        tree["status"]["allocation"] = {"devices": {"results": results}}
    return from_tree(resource_v1.ResourceClaim, tree)


def test_claims_are_found_by_their_names_and_by_the_status() -> None:
    assert used_claims(pod()) == [("own", "p-own-x", True), ("shared", "cards", False)]
    assert used_claims(pod([{"name": "own"}])) == [("shared", "cards", False)], "none was to be made"
    with pytest.raises(ClaimError, match="ResourceClaim not created yet"):
        used_claims(pod([]))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (claim(owner="2"), r"ResourceClaim d/p-own-x was not created for Pod d/p \(Pod is not owner\)"),
        (claim(reserved="2"), r"pod p \(1\) is not allowed to use ResourceClaim p-own-x \(c\)"),
        (claim(allocated=False), "ResourceClaim p-own-x: not allocated"),
    ],
)
def test_a_pod_may_use_only_what_is_allocated_and_reserved_for_it(found: resource_v1.ResourceClaim, text: str) -> None:
    with pytest.raises(ClaimError, match=text):
        usable_state(pod(), found, made_for_pod=True)


def test_a_claim_begins_with_the_drivers_of_its_devices() -> None:
    assert usable_state(pod(), claim(), made_for_pod=True) == ClaimState("c", "p-own-x", "d", {"a": ()})
    assert usable_state(pod(), claim(owner="2"), made_for_pod=False).uid == "c", "a claim of its own is anybody's"


def test_a_container_gets_what_it_names_and_what_its_extended_resources_became() -> None:
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    other = {"containerName": "d", "resourceName": "example.com/gpu", "requestName": "s"}
    extended = {"resourceClaimName": "p-ext", "requestMappings": [mapping, other]}
    asked = pod(extendedResourceClaimStatus=extended)
    (container,) = asked.spec.containers
    assert container_requests(asked, container) == [("p-own-x", ""), ("cards", "fast"), ("p-ext", "r")]


def test_devices_are_those_of_the_request_or_of_all() -> None:
    devices = (
        PreparedDevice("n", "0", ("fast",), ("v/c=0", "v/c=common")),
        PreparedDevice("n", "1", ("slow",), ("v/c=1",)),
        PreparedDevice("n", "2", (), ("v/c=2",)),
    )
    state = ClaimState("c", "n", "d", {"a": devices})
    assert list(state.cdi_ids("fast")) == ["v/c=0", "v/c=common", "v/c=2"]
    assert list(state.cdi_ids("")) == ["v/c=0", "v/c=common", "v/c=1", "v/c=2"]
