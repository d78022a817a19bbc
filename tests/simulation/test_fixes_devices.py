"""Evictions that free devices: found, no more than needed, and nothing is left changed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from bayplan.api.types import core_v1, meta_v1, resource_v1
from bayplan.simulation.fixes.search import Fixes, fixes_for
from bayplan.simulation.fixes.trial import Trial
from bayplan.simulation.snapshots.planner import planner_of
from bayplan.testing.builders import node, owner, pod
from tests.simulation.objects import budget, copy_of, running

DRIVER = "gpu.example.com"


def gpus(on: str, count: int = 1) -> resource_v1.ResourceSlice:
    """GPUs of a node; of all nodes if none is named."""
    place: dict[str, Any] = {"node_name": on} if on else {"all_nodes": True}
    return resource_v1.ResourceSlice(
        metadata=meta_v1.ObjectMeta(name=f"slice-{on}"),
        spec=resource_v1.ResourceSliceSpec(
            driver=DRIVER,
            pool=resource_v1.ResourcePool(name=on or "shared", generation=1, resource_slice_count=1),
            devices=tuple(resource_v1.Device(name=f"gpu-{number}") for number in range(count)),
            **place,
        ),
    )


def claim(name: str, pool: str = "", device: str = "gpu-0", users: tuple[str, ...] = ()) -> resource_v1.ResourceClaim:
    """A claim of one GPU, allocated if it has users."""
    exactly = resource_v1.ExactDeviceRequest(device_class_name="gpu", allocation_mode="ExactCount", count=1)
    status = resource_v1.ResourceClaimStatus()
    if users:
        result = resource_v1.DeviceRequestAllocationResult(request="one", driver=DRIVER, pool=pool, device=device)
        status = resource_v1.ResourceClaimStatus(
            allocation=resource_v1.AllocationResult(
                devices=resource_v1.DeviceAllocationResult(results=(result,)),
            ),
            reserved_for=tuple(
                resource_v1.ResourceClaimConsumerReference(resource="pods", name=user, uid=f"uid-{user}")
                for user in users
            ),
        )
    return resource_v1.ResourceClaim(
        metadata=meta_v1.ObjectMeta(name=name, namespace="default", uid=f"uid-claim-{name}"),
        spec=resource_v1.ResourceClaimSpec(
            devices=resource_v1.DeviceClaim(requests=(resource_v1.DeviceRequest(name="one", exactly=exactly),))
        ),
        status=status,
    )


GPU = resource_v1.DeviceClass(metadata=meta_v1.ObjectMeta(name="gpu"), spec=resource_v1.DeviceClassSpec())


def uses(name: str) -> dict[str, Any]:
    return {"resource_claims": (core_v1.PodResourceClaim(name="gpu", resource_claim_name=name),)}


def asked(**fields: Any) -> list[Any]:
    """The pod that is pending, with its claim."""
    return [claim("mine"), pod("asked", meta={"uid": "uid-asked"}, **uses("mine"), **fields)]


def answer(*objects: Any) -> Fixes:
    copy = copy_of(GPU, *objects)
    return fixes_for(copy, next(one for one in copy.of("Pod") if one.metadata.name == "asked"))


def evicted(found: Fixes) -> list[list[str]]:
    return [change.detail["pods"] for fix in found.fixes for change in fix.changes if change.kind == "evict"]


def test_the_pod_that_has_the_device_is_evicted_and_nobody_else() -> None:
    found = answer(
        node("a"),
        gpus("a"),
        running("idle", "a"),
        running("busy", "a", **uses("theirs")),
        claim("theirs", "a", users=("busy",)),
        *asked(),
    )
    assert evicted(found) == [["default/busy"]]
    assert (found.fixes[0].node, found.fixes[0].changes[0].detail["from"]) == ("a", "a")


def test_devices_and_resources_may_both_be_in_the_way() -> None:
    found = answer(
        node("a", cpu="2"),
        gpus("a"),
        running("large", "a", cpu="1500m"),
        running("busy", "a", cpu="100m", **uses("theirs")),
        claim("theirs", "a", users=("busy",)),
        *asked(cpu="1"),
    )
    assert sorted(evicted(found)[0]) == ["default/busy", "default/large"]


def test_the_least_important_pod_goes_unless_a_budget_protects_it() -> None:
    pods = [
        running("a-poor", "a", priority=1, meta={"labels": {"app": "kept"}}, **uses("c1")),
        running("b-poor", "a", priority=1, **uses("c2")),
        running("rich", "a", priority=9, **uses("c3")),
    ]
    claims = [claim(f"c{n}", "a", f"gpu-{n}", users=(name,)) for n, name in enumerate(("a-poor", "b-poor", "rich"), 1)]
    slice_ = gpus("a", 4)
    slice_.spec.devices = slice_.spec.devices[1:]
    found = answer(node("a"), slice_, *pods, *claims, budget("kept", 0, {"app": "kept"}), *asked())
    assert evicted(found) == [["default/b-poor"]]
    found = answer(node("a"), slice_, pods[0], *claims[:1], *_users(2), budget("kept", 0, {"app": "kept"}), *asked())
    assert evicted(found) == [["default/a-poor"]]
    assert found.fixes[0].changes[0].detail["budgetViolations"] == 1


def _users(count: int) -> list[Any]:
    """Daemons that have the devices from gpu-2 on: nobody evicts these."""
    made: list[Any] = []
    for number in range(2, 2 + count):
        name = f"daemon-{number}"
        owners = (owner(node("n", meta={"uid": "u"}), "DaemonSet"),)
        made += [
            running(name, "a", meta={"owners": owners}, **uses(f"d{number}")),
            claim(f"d{number}", "a", f"gpu-{number}", users=(name,)),
        ]
    return made


def test_all_users_of_a_shared_device_go_wherever_they_run() -> None:
    found = answer(
        node("a"),
        node("b"),
        gpus(""),
        running("left", "a", **uses("theirs")),
        running("right", "b", **uses("theirs")),
        claim("theirs", "shared", users=("left", "right")),
        *asked(),
    )
    assert [sorted(pods) for pods in evicted(found)] == [["default/left", "default/right"]]
    assert found.fixes[0].changes[0].detail["from"] == "a, b"


def test_devices_behind_an_extended_resource_are_freed_too() -> None:
    """The claim of such a pod stands in no spec: it names the pod as its user."""
    requests = core_v1.ResourceRequirements(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "1"})
    container = core_v1.Container(name="main", image="example", resources=requests)
    spec = resource_v1.DeviceClassSpec(extended_resource_name="example.com/gpu")
    found = answer(
        replace(GPU, spec=spec),
        node("a"),
        gpus("a"),
        running("busy", "a"),
        claim("made-for-busy", "a", users=("busy",)),
        pod("asked", meta={"uid": "uid-asked"}, containers=(container,)),
    )
    assert evicted(found) == [["default/busy"]]


def test_a_change_that_has_to_come_with_the_eviction() -> None:
    found = answer(
        node("a", unschedulable=True),
        gpus("a"),
        running("busy", "a", **uses("theirs")),
        claim("theirs", "a", users=("busy",)),
        *asked(),
    )
    assert sorted(change.kind for change in found.fixes[0].changes) == ["evict", "uncordon-node"]


def test_afterwards_all_devices_are_as_they_were() -> None:
    copy = copy_of(
        GPU,
        node("a"),
        gpus("a"),
        running("busy", "a", **uses("theirs")),
        claim("theirs", "a", users=("busy",)),
        *asked(),
    )
    pending = next(one for one in copy.of("Pod") if one.metadata.name == "asked")
    trial = Trial(planner_of(copy, without=pending), {}, replace(pending))
    before = dict(trial.planner.snapshot.catalog.resource_claims)
    found = list(trial.evictions(()))
    assert [fix.node for fix in found] == ["a"]
    assert trial.planner.snapshot.catalog.resource_claims == before
    assert trial.planner.decide(pending).node is None
