"""Resource slices and who uses a claim."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api import codec
from bayplan.api.strategies.base import clone
from bayplan.api.strategies.resource.resourceclaims import STRATEGY as CLAIMS
from bayplan.api.strategies.resource.resourceslices import STRATEGY as SLICES
from bayplan.api.types import resource_v1
from tests.api.validation.pods import told

SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}


def shared(policy: dict[str, Any]) -> dict[str, Any]:
    capacity = {"memory": {"value": "10Gi", "requestPolicy": policy}}
    return {"devices": [{"name": "d", "allowMultipleAllocations": True, "capacity": capacity}]}


def device(**more: Any) -> dict[str, Any]:
    return {"devices": [{"name": "d", **more}]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"nodeName": None}, ["spec REQUIRED"]),
        ({"nodeName": ""}, ["spec.nodeName INVALID", "spec REQUIRED"]),
        ({"nodeName": None, "allNodes": False}, ["spec.allNodes INVALID", "spec REQUIRED"]),
        ({"allNodes": True}, ["spec INVALID"]),
        (
            {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": SELECTOR["nodeSelectorTerms"] * 2}},
            ["spec.nodeSelector.nodeSelectorTerms INVALID"],
        ),
        ({"sharedCounters": [{"name": "c", "counters": {"m": {"value": "1"}}}]}, []),
        ({"sharedCounters": [{"name": "c"}]}, ["spec.sharedCounters[0].counters REQUIRED"]),
        ({**device(), "sharedCounters": [{"name": "c", "counters": {"m": {"value": "1"}}}]}, ["spec INVALID"]),
        ({"devices": [{"name": f"d{n}"} for n in range(128)]}, []),
        ({"devices": [{"name": f"d{n}"} for n in range(129)]}, ["spec.devices TOO_MANY"]),
        ({"devices": [{"name": "d"}, {"name": "d"}]}, ["spec.devices[1] DUPLICATE"]),
        (device(nodeName="n"), ["spec.devices[0] INVALID"]),
        ({"nodeName": None, "perDeviceNodeSelection": True, **device()}, ["spec.devices[0] REQUIRED"]),
        ({"nodeName": None, "perDeviceNodeSelection": True, **device(nodeName="n")}, []),
        (device(attributes={"a": {"version": "1.2"}}), ["spec.devices[0].attributes[a].version INVALID"]),
        (device(attributes={"a": {"version": "1.2.3-x.1+b"}}), []),
        (device(attributes={"a": {"string": "x" * 65}}), ["spec.devices[0].attributes[a].string TOO_LONG"]),
        (device(attributes={f"a{n}": {"int": n} for n in range(33)}), ["spec.devices[0] INVALID"]),
        (device(bindingConditions=["a"]), ["spec.devices[0].bindingFailureConditions INVALID"]),
        (
            device(bindingConditions=["a"], bindingFailureConditions=["a"]),
            ["spec.devices[0].bindingFailureConditions[0] INVALID"],
        ),
        (
            device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}}),
            ["spec.devices[0].capacity[m].requestPolicy FORBIDDEN"],
        ),
        (shared({"default": "1Gi", "validValues": ["1Gi", "2Gi"]}), []),
        (
            shared({"default": "3Gi", "validValues": ["1Gi", "20Gi"]}),
            [
                "spec.devices[0].capacity[memory].requestPolicy.validValues[1] INVALID",
                "spec.devices[0].capacity[memory].requestPolicy.validValues INVALID",
            ],
        ),
        (shared({"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}), []),
        (
            shared({"default": "2560Mi", "validRange": {"min": "1Gi", "step": "1Gi"}}),
            ["spec.devices[0].capacity[memory].requestPolicy.validRange.step INVALID"],
        ),
        (
            shared({"default": "1", "validRange": {"max": "1Gi"}}),
            ["spec.devices[0].capacity[memory].requestPolicy.validRange.min REQUIRED"],
        ),
    ],
)
def test_resource_slices(given: dict[str, Any], expected: list[str]) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n", **given}
    obj = codec.decode(resource_v1.ResourceSlice, msgspec.json.encode({"metadata": {"name": "s"}, "spec": spec}))
    SLICES.default(obj)
    assert told(SLICES.validate(obj)) == expected


def exactly(name: str = "r", **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "c", **more}}


DRIVER = "d.example.com"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"requests": [exactly()]}, []),
        ({"requests": [exactly(f"r{n}") for n in range(33)]}, ["requests TOO_MANY"]),
        ({"requests": [exactly(), exactly()]}, ["requests[1] DUPLICATE"]),
        (
            {"requests": [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}] * 2}]},
            ["requests[0].firstAvailable[1] DUPLICATE"],
        ),
        (
            {"requests": [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}] * 9}]},
            ["requests[0].firstAvailable TOO_MANY"],
        ),
        ({"requests": [exactly()], "constraints": [{}]}, ["constraints[0] REQUIRED"]),
        (
            {"requests": [exactly()], "constraints": [{"distinctAttribute": "a"}]},
            ["constraints[0].distinctAttribute INVALID"],
        ),
        (
            {"requests": [exactly()], "constraints": [{"requests": ["a/b/c"], "matchAttribute": "a.b/c"}]},
            ["constraints[0].requests[0] INVALID"],
        ),
        (
            {"requests": [exactly()], "config": [{"opaque": {"driver": DRIVER, "parameters": {"a": "x" * 10240}}}]},
            ["config[0].opaque.parameters TOO_LONG"],
        ),
        (
            {"requests": [exactly()], "config": [{"opaque": {"driver": DRIVER, "parameters": []}}]},
            ["config[0].opaque.parameters INVALID"],
        ),
    ],
)
def test_resource_claims(given: dict[str, Any], expected: list[str]) -> None:
    body = {"metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": given}}
    obj = codec.decode(resource_v1.ResourceClaim, msgspec.json.encode(body))
    CLAIMS.default(obj)
    assert told(CLAIMS.validate_create(obj)) == [f"spec.devices.{one}" for one in expected]


def test_a_claim_is_reserved_once_for_each_user_and_no_longer_when_it_goes() -> None:
    body = {"metadata": {"name": "c", "namespace": "n"}, "status": {"allocation": {"devices": {}}}}
    old = codec.decode(resource_v1.ResourceClaim, msgspec.json.encode(body))
    user = resource_v1.ResourceClaimConsumerReference(resource="pods", name="p", uid="u")
    new = clone(old)
    new.status.reserved_for = (user, user)
    assert told(CLAIMS.validate_status_update(new, old)) == ["status.reservedFor[1] DUPLICATE"]
    new.status.reserved_for = (user, resource_v1.ResourceClaimConsumerReference(resource="pods", name="p"))
    assert told(CLAIMS.validate_status_update(new, old)) == ["status.reservedFor[1].uid REQUIRED"]
    new.status.reserved_for = (user,)
    assert told(CLAIMS.validate_status_update(new, old)) == []
    new.metadata.deletion_timestamp = "2024-01-01T00:00:00Z"
    assert told(CLAIMS.validate_status_update(new, old)) == ["status.reservedFor FORBIDDEN"]
