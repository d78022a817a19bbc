"""Resource claims: devices are chosen with the node, kept for the pod, and written before it is bound."""

from __future__ import annotations

import pytest

from bayplan.api.types.resource_v1 import ResourceClaim
from bayplan.scheduler.library import typed
from tests.scheduler.devices import (
    DRIVER,
    allocated,
    attempt,
    claim,
    cluster,
    device,
    device_class,
    exactly,
    slice_of,
    user,
)
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.running import World, play
from tests.scheduler.test_core import Setup


def chosen(setup: Setup, name: str) -> list[str]:
    """The devices a claim has been given, `request=pool/device`."""
    pending = setup.core.snapshot.catalog.pending_allocations[f"uid-{name}"]
    allocation = pending.status.allocation
    assert allocation is not None
    return [f"{item.request}={item.pool}/{item.device}" for item in allocation.devices.results]


def refusal(setup: Setup) -> str:
    return attempt(setup).decision.message.split(" still not schedulable")[0].split(" no new claims")[0]


def test_a_pod_goes_where_its_devices_are() -> None:
    setup = cluster(slice_of("b", device("gpu-0")), claim("c"), user("p", "c"))
    outcome = attempt(setup)
    assert outcome.decision.node == "b"
    assert chosen(setup, "c") == ["one=b/gpu-0"]
    assert outcome.decision.histogram() == {"cannot allocate all claims": 1}


def test_a_device_is_given_only_once() -> None:
    setup = cluster(slice_of("b", device("gpu-0")), claim("c"), claim("d"), user("p", "c"), user("q", "d"))
    first = attempt(setup)
    assert first.decision.node == "b"
    assert refusal(setup) == "0/2 nodes are available: 2 cannot allocate all claims."
    assert first.binding_cycle is not None
    first.binding_cycle.undo()
    assert setup.core.snapshot.catalog.pending_allocations == {}


def test_a_claim_in_the_making_is_waited_for() -> None:
    setup = cluster(slice_of("b", device("gpu-0")), claim("c"), user("p", "c"), user("q", "c"))
    attempt(setup)
    assert refusal(setup) == ("0/2 nodes are available: resource claim default/c is in the process of being allocated.")


def test_selectors_of_class_and_request_both_count() -> None:
    big = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
    setup = cluster(
        slice_of("a", device("gpu-0", model="A100", memory="80Gi"), device("gpu-1", model="H100", memory="40Gi")),
        slice_of("b", device("gpu-0", model="H100", memory="80Gi")),
        claim("c", exactly("one", big)),
        user("p", "c"),
        classes=(device_class("gpu", f'device.attributes["{DRIVER}"].model == "H100"'),),
    )
    attempt(setup)
    assert chosen(setup, "c") == ["one=b/gpu-0"]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device.", "claim default/c: selector #0: CEL compile error:"),
        (
            f'device.attributes["{DRIVER}"].missing == 1',
            "claim default/c: selector #0: CEL runtime error: no such key: missing",
        ),
    ],
)
def test_a_broken_selector_is_an_error(expression: str, problem: str) -> None:
    setup = cluster(slice_of("a", device("gpu-0")), claim("c", exactly("one", expression)), user("p", "c"))
    decision = attempt(setup).decision
    assert decision.message.startswith(f'running "DynamicResources" filter plugin: {problem}')
    assert decision.reason == "SchedulerError"


def test_a_number_of_devices_may_come_from_several_slices() -> None:
    setup = cluster(
        slice_of("a", device("gpu-0"), device("gpu-1")),
        slice_of("b", device("gpu-0"), device("gpu-1"), count=2),
        slice_of("b", device("gpu-2"), count=2, part=1),
        claim("c", exactly("all", count=3)),
        user("p", "c"),
    )
    assert attempt(setup).decision.node == "b"
    assert chosen(setup, "c") == ["all=b/gpu-0", "all=b/gpu-1", "all=b/gpu-2"]


def test_slices_of_an_older_generation_do_not_count() -> None:
    setup = cluster(
        slice_of("a", device("old"), generation=1),
        slice_of("a", device("new"), generation=2),
        claim("c"),
        user("p", "c"),
    )
    attempt(setup)
    assert chosen(setup, "c") == ["one=a/new"]


def test_all_devices_means_all_or_none() -> None:
    every = {"name": "every", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    setup = cluster(
        slice_of("a", device("gpu-0"), device("gpu-1")),
        slice_of("b", device("gpu-0")),
        claim("taken", exactly("one", f'device.attributes["{DRIVER}"].busy')),
        claim("c", every),
        nodes="a",
    )
    setup.see("ResourceSlice", slice_of("a", device("gpu-0", busy=True), device("gpu-1", busy=False)))
    setup.see("Pod", user("p", "taken"))
    attempt(setup)
    setup.see("Pod", user("q", "c"))
    assert refusal(setup) == "0/1 nodes are available: 1 cannot allocate all claims."
    setup.see("Node", node("b"))
    setup.clock.seconds += 10
    setup.core.queue.activate(["default/q"])
    attempt(setup)
    assert chosen(setup, "c") == ["every=b/gpu-0"]


def test_all_devices_waits_for_a_complete_pool() -> None:
    every = {"name": "every", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    setup = cluster(slice_of("a", device("gpu-0"), count=2), claim("c", every), user("p", "c"), nodes="a")
    assert attempt(setup).decision.message == (
        'running "DynamicResources" filter plugin: claim default/c, request every: asks for all devices, but resource '
        f"pool {DRIVER}/a is currently being updated"
    )


def test_the_first_available_alternative_is_taken_and_better_ones_draw() -> None:
    def either() -> Tree:
        return {
            "name": "any",
            "firstAvailable": [
                {"name": "big", "deviceClassName": "big", "allocationMode": "ExactCount", "count": 1},
                {"name": "two", "deviceClassName": "small", "allocationMode": "ExactCount", "count": 2},
            ],
        }

    size = f'device.attributes["{DRIVER}"].size'
    setup = cluster(
        slice_of("a", device("s0", size="small"), device("s1", size="small")),
        slice_of("b", device("b0", size="big")),
        claim("c", either()),
        claim("d", either()),
        user("p", "c"),
        user("q", "d"),
        classes=(device_class("big", f'{size} == "big"'), device_class("small", f'{size} == "small"')),
    )
    assert attempt(setup).decision.node == "b"
    assert chosen(setup, "c") == ["any/big=b/b0"]
    assert attempt(setup).decision.node == "a"
    assert chosen(setup, "d") == ["any/two=a/s0", "any/two=a/s1"]


def test_constraints_make_the_search_go_back() -> None:
    setup = cluster(
        slice_of("a", device("g0", numa=0), device("g1", numa=1), device("g2", numa=1)),
        claim("c", exactly("x"), exactly("y"), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
        user("p", "c"),
    )
    attempt(setup)
    assert chosen(setup, "c") == ["x=a/g1", "y=a/g2"]


def test_distinct_attributes_must_differ() -> None:
    setup = cluster(
        slice_of("a", device("g0", numa=1), device("g1", numa=1), device("g2", numa=2)),
        claim("c", exactly("x", count=2), constraints=[{"distinctAttribute": f"{DRIVER}/numa"}]),
        user("p", "c"),
    )
    attempt(setup)
    assert chosen(setup, "c") == ["x=a/g0", "x=a/g2"]


def test_tainted_devices_need_a_toleration() -> None:
    tainted = device("gpu-0") | {"taints": [{"key": "worn", "effect": "NoSchedule"}]}
    setup = cluster(slice_of("a", tainted), claim("c"), user("p", "c"), nodes="a")
    assert refusal(setup) == "0/1 nodes are available: 1 cannot allocate all claims."
    tolerant = exactly("one", tolerations=[{"key": "worn", "operator": "Exists"}])
    setup = cluster(slice_of("a", tainted), claim("c", tolerant), user("p", "c"), nodes="a")
    assert attempt(setup).decision.node == "a"


def test_administrators_see_devices_that_others_use() -> None:
    admin = exactly("watch", adminAccess=True)
    setup = cluster(
        slice_of("a", device("gpu-0")), claim("c"), claim("d", admin), user("p", "c"), user("q", "d"), nodes="a"
    )
    attempt(setup)
    assert attempt(setup).decision.node == "a"


def partitions() -> tuple[Tree, Tree]:
    """A device in two halves; counters and devices stand in slices of their own."""

    def part(name: str, memory: str) -> Tree:
        used = [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]
        return device(name, memory=memory) | {"consumesCounters": used}

    counters = [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]
    devices = (part("whole", "40Gi"), part("half-0", "20Gi"), part("half-1", "20Gi"))
    return slice_of("a", *devices, count=2), slice_of("a", count=2, part=1, sharedCounters=counters)


def test_partitions_of_a_device_share_its_counters() -> None:
    half = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("20Gi")) == 0'
    setup = cluster(
        *partitions(), claim("c", exactly("one", half)), claim("d"), claim("e", exactly("one", f"!({half})")),
        user("p", "c"), nodes="a",
    )  # fmt: skip
    attempt(setup)
    assert chosen(setup, "c") == ["one=a/half-0"]
    setup.see("Pod", user("q", "e"))
    assert refusal(setup) == "0/1 nodes are available: 1 cannot allocate all claims."
    setup.see("Pod", user("r", "d"))
    attempt(setup)
    assert chosen(setup, "d") == ["one=a/half-1"]


def test_a_divisible_device_is_shared_until_its_capacity_is_used() -> None:
    shared = device("nic", memory="10Gi") | {"allowMultipleAllocations": True}
    some = exactly("one", capacity={"requests": {"memory": "4Gi"}})
    names = "cde"
    setup = cluster(
        slice_of("a", shared), *(claim(name, some) for name in names), *(user(f"p{name}", name) for name in names),
        nodes="a",
    )  # fmt: skip
    found = [attempt(setup).decision.node for _ in names]
    assert found == ["a", "a", None]
    results = [
        allocation.devices.results[0]
        for item in setup.core.snapshot.catalog.pending_allocations.values()
        if (allocation := item.status.allocation) is not None
    ]
    assert [item.consumed_capacity for item in results] == [{"memory": "4Gi"}, {"memory": "4Gi"}]
    assert len({item.share_id for item in results}) == 2


def test_devices_for_all_nodes_and_for_each() -> None:
    near = device("near") | {"nodeName": "b"}
    setup = cluster(slice_of("net", near, perDeviceNodeSelection=True), claim("c"), user("p", "c"))
    assert attempt(setup).decision.node == "b"
    setup = cluster(slice_of("net", device("far"), allNodes=True), claim("c"), user("p", "c"))
    assert attempt(setup).decision.scheduled
    pending = setup.core.snapshot.catalog.pending_allocations["uid-c"]
    assert pending.status.allocation is not None
    assert pending.status.allocation.node_selector is None


def test_configuration_of_class_and_claim_is_passed_on() -> None:
    opaque = {"driver": DRIVER, "parameters": {"kind": "Mode"}}
    setup = cluster(
        slice_of("a", device("g0"), device("g1")),
        claim("c", exactly("x"), exactly("y"), config=[{"requests": ["y"], "opaque": opaque}]),
        user("p", "c"),
        classes=(device_class("gpu", config=[{"opaque": opaque}]),),
    )
    attempt(setup)
    allocation = setup.core.snapshot.catalog.pending_allocations["uid-c"].status.allocation
    assert allocation is not None
    assert [(item.source, item.requests) for item in allocation.devices.config] == [
        ("FromClass", ()),
        ("FromClaim", ("y",)),
    ]


def test_an_allocated_claim_pins_its_pods() -> None:
    setup = cluster(slice_of("a", device("gpu-0")), allocated("c", "a", "other"), user("p", "c"))
    outcome = attempt(setup)
    assert (outcome.decision.node, outcome.decision.decided_by) == ("a", "onlyFeasibleNode")
    assert outcome.decision.histogram() == {"resourceclaim not available on the node": 1}


def test_an_unused_claim_on_the_wrong_node_gives_its_devices_up() -> None:
    setup = cluster(slice_of("a", device("gpu-0")), allocated("c", "a"), nodes="ab")
    tree = user("p", "c")
    tree["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "b"}
    setup.see("Pod", tree)
    outcome = attempt(setup).decision.post_filter
    assert outcome is not None
    assert [item.status.allocation for item in outcome.deallocates] == [None]
    assert outcome.reasons[0] == "deallocation of ResourceClaim completed"


def templated(name: str, made: str | None) -> Tree:
    tree = pod(name, resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}])
    if made is not None:
        tree["status"]["resourceClaimStatuses"] = [{"name": "r", "resourceClaimName": made}]
    return tree


def test_a_pod_waits_until_its_claim_is_made() -> None:
    setup = cluster(slice_of("a", device("gpu-0")))
    before = setup.see("Pod", templated("p", None))
    gate = setup.core.explain(before).gate
    assert gate is not None
    assert gate[1].reasons == ('pod "default/p": ResourceClaim not created yet',)
    owned = claim("p-r-x")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    setup.see("ResourceClaim", owned)
    setup.core.handle("Pod", before, typed("Pod", templated("p", "p-r-x")))
    assert attempt(setup).decision.node == "a"


def test_a_claim_of_another_pod_is_refused() -> None:
    setup = cluster(claim("c"))
    gate = setup.core.explain(setup.see("Pod", templated("p", "c"))).gate
    assert gate is not None
    assert gate[1].reasons == ("ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",)


def test_a_missing_class_is_waited_for() -> None:
    setup = cluster(claim("c"), user("p", "c"), classes=())
    assert refusal(setup) == "0/2 nodes are available: request one: device class gpu does not exist."
    setup.see("ResourceSlice", slice_of("a", device("gpu-0")))
    setup.see("DeviceClass", device_class())
    setup.clock.seconds += 10
    assert attempt(setup).decision.node == "a"


def test_freed_devices_wake_pods_that_wait_for_some() -> None:
    setup = cluster(slice_of("a", device("gpu-0")), claim("d"), nodes="a")
    before = setup.see("ResourceClaim", allocated("c", "a"))
    setup.see("Pod", user("q", "d"))
    assert not attempt(setup).decision.scheduled
    setup.core.handle("ResourceClaim", before, typed("ResourceClaim", claim("c")))
    setup.clock.seconds += 10
    assert attempt(setup).decision.node == "a"


def test_allocation_and_user_are_written_before_the_pod_is_bound() -> None:
    async def story(world: World) -> None:
        await world.create(
            node("a"), node("b"), device_class(), slice_of("b", device("gpu-0")), claim("c"), user("p", "c")
        )
        assert await world.bound("p") == "b"
        made = await world.client.get(ResourceClaim, "c", "default")
        assert made.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
        assert made.status.allocation is not None
        assert [item.device for item in made.status.allocation.devices.results] == ["gpu-0"]
        assert [item.name for item in made.status.reserved_for] == ["p"]
        await world.create(claim("d"), user("q", "d"))
        await world.refused("q", "2 cannot allocate all claims")

    play(story)
