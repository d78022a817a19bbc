"""What the status of a resource claim may say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api import codec
from bayplan.api.strategies.base import clone
from bayplan.api.strategies.resource.resourceclaims import STRATEGY
from bayplan.api.types import resource_v1

UID = "0b5c8f1e-1111-4222-8333-444455556666"
SPEC = {
    "devices": {
        "requests": [
            {"name": "r", "exactly": {"deviceClassName": "c"}},
            {"name": "f", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]},
        ]
    }
}
DEVICE = {"driver": "d.io", "pool": "p", "device": "x"}
RESULT = {"request": "r", **DEVICE}
NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def problems(status: dict[str, Any]) -> list[str]:
    """What is wrong with this as the first status of a claim, without the paths' common beginning."""
    body = {"metadata": {"name": "c", "namespace": "n"}, "spec": SPEC}
    old = codec.decode(resource_v1.ResourceClaim, msgspec.json.encode(body))
    new = codec.decode(resource_v1.ResourceClaim, msgspec.json.encode(body | {"status": status}))
    return [str(error).removeprefix("status.") for error in STRATEGY.validate_status_update(new, old)]


def allocated(**members: Any) -> dict[str, Any]:
    return {"devices": {"results": [RESULT | members]}}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, []),
        ({"request": "f/s"}, []),
        ({"request": "zz"}, [f'request: Invalid value: "zz": {NO_REQUEST}']),
        ({"request": "a/b/c"}, [f'request: Invalid value: "a/b/c": {NO_REQUEST}']),
        ({"driver": "", "pool": ""}, ["driver: Required value", "pool: Required value"]),
        ({"pool": "p/" + "q" * 252}, ["pool: Too long: may not be more than 253 bytes"]),
        ({"shareID": UID}, []),
        ({"shareID": "x"}, ['shareID: Invalid value: "x": error validating uid: invalid UUID length: 1']),
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["b"]}, []),
    ],
)
def test_what_is_allocated_fits_the_requests(members: dict[str, Any], expected: list[str]) -> None:
    found = problems({"allocation": allocated(**members)})
    assert found == [f"allocation.devices.results[0].{one}" for one in expected]


def test_a_share_is_named_in_lower_case() -> None:
    (found,) = problems({"allocation": allocated(shareID=UID.upper())})
    assert "uid must be in RFC 4122 normalized form" in found


def test_configurations_of_an_allocation_say_where_they_are_from() -> None:
    opaque = {"driver": "d.io", "parameters": {}}
    config = [
        {"source": "x", "requests": ["zz"], "opaque": opaque},
        {"opaque": opaque},
        {"source": "FromClaim", "requests": ["r", "r"]},
    ]
    assert problems({"allocation": {"devices": {"config": config}}}) == [
        'allocation.devices.config[0].source: Unsupported value: "x": supported values: "FromClaim", "FromClass"',
        f'allocation.devices.config[0].requests[0]: Invalid value: "zz": {NO_REQUEST}',
        "allocation.devices.config[1].source: Required value",
        'allocation.devices.config[2].requests[1]: Duplicate value: "r"',
        "allocation.devices.config[2].opaque: Required value",
    ]


def test_an_allocation_has_a_limit() -> None:
    results = [RESULT | {"device": f"d{index}"} for index in range(33)]
    assert problems({"allocation": {"devices": {"results": results}}}) == [
        "allocation.devices.results: Too many: 33: must have at most 32 items"
    ]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([DEVICE], []),
        (
            [DEVICE, DEVICE],
            ['[1]: Duplicate value: {"Driver":"d.io","Pool":"p","Device":"x","ShareID":""}'],
        ),
        (
            [DEVICE | {"device": "y"}],
            [
                '[0]: Invalid value: {"Driver":"d.io","Pool":"p","Device":"y","ShareID":""}: '
                "must be an allocated device in the claim"
            ],
        ),
        ([DEVICE | {"data": [1]}], ['[0].data: Invalid value: "<value omitted>": must be a valid JSON object']),
        ([DEVICE | {"data": {"a": "x" * 11_000}}], ["[0].data: Too long: may not be more than 10240 bytes"]),
        (
            [DEVICE | {"networkData": {"interfaceName": "x" * 257, "hardwareAddress": "y" * 129}}],
            [
                "[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
                "[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes",
            ],
        ),
        (
            [DEVICE | {"networkData": {"ips": ["10.0.0.1/24", "10.0.0.1/24", "x", "10.0.0.01/24", "fd00:0::1/64"]}}],
            [
                '[0].networkData.ips[2]: Invalid value: "x": must be a valid address in CIDR form, '
                "(e.g. 10.9.8.7/24 or 2001:db8::1/64)",
                '[0].networkData.ips[3]: Invalid value: "10.0.0.01/24": must be in canonical form ("10.0.0.1/24")',
                '[0].networkData.ips[4]: Invalid value: "fd00:0::1/64": must be in canonical form ("fd00::1/64")',
                '[0].networkData.ips[1]: Duplicate value: "10.0.0.1/24"',
            ],
        ),
        (
            [DEVICE | {"networkData": {"ips": [f"10.0.0.{index}/8" for index in range(17)]}}],
            ["[0].networkData.ips: Too many: 17: must have at most 16 items"],
        ),
    ],
)
def test_drivers_tell_of_devices_that_are_allocated(devices: list[dict[str, Any]], expected: list[str]) -> None:
    found = problems({"allocation": allocated(), "devices": devices})
    assert found == [f"devices{one}" for one in expected]


def test_an_allocation_stays() -> None:
    body = {"metadata": {"name": "c", "namespace": "n"}, "spec": SPEC, "status": {"allocation": allocated()}}
    old = codec.decode(resource_v1.ResourceClaim, msgspec.json.encode(body))
    new = clone(old)
    new.status.allocation = resource_v1.AllocationResult()
    (found,) = STRATEGY.validate_status_update(new, old)
    assert (found.field, found.detail) == ("status.allocation", "field is immutable")


def test_what_is_said_of_devices_goes_with_their_allocation() -> None:
    body = {"metadata": {"name": "c", "namespace": "n"}, "spec": SPEC}
    told = {"devices": [DEVICE, {**DEVICE, "device": "y"}]}
    both = {"devices": {"results": [RESULT, RESULT | {"device": "y"}]}}

    def claim(status: dict[str, Any]) -> resource_v1.ResourceClaim:
        found: resource_v1.ResourceClaim = codec.decode(
            resource_v1.ResourceClaim, msgspec.json.encode(body | {"status": status})
        )
        return found

    old = claim({"allocation": both, **told})
    for allocation, left in ((both, ["x", "y"]), (None, [])):
        new = claim({**({"allocation": allocation} if allocation else {}), **told})
        STRATEGY.prepare_status_update(new, old)
        assert [one.device for one in new.status.devices] == left
        assert STRATEGY.validate_status_update(new, old) == []
    stranger = claim({"devices": [{**DEVICE, "device": "z"}]})
    STRATEGY.prepare_status_update(stranger, old)
    assert [one.device for one in stranger.status.devices] == ["z"], "what was never allocated is refused, not dropped"
