"""Extended resources that come from devices: no claim in the pod, one made by the scheduler."""

from __future__ import annotations

from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types.core_v1 import PodSpec
from bayplan.api.types.resource_v1 import DeviceClass, ResourceClaim
from bayplan.scheduler import evaluate
from bayplan.scheduler.snapshot.extended_resources import class_behind, needs_of
from tests.scheduler.devices import (
    DRIVER,
    attempt,
    claim,
    cluster,
    device,
    device_class,
    slice_of,
)
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.running import World, play

GPU = "example.com/gpu"


def wanting(name: str, amount: str, resource: str = GPU) -> Tree:
    tree = pod(name, cpu="1")
    resources = tree["spec"]["containers"][0]["resources"]
    resources["requests"] |= {resource: amount}
    resources["limits"] = {resource: amount}
    return tree


def with_gpus(name: str) -> Tree:
    tree = node(name)
    tree["status"]["allocatable"][GPU] = "1"
    return tree


def standing_for(resource: str = GPU) -> Tree:
    return device_class("gpu", extendedResourceName=resource)


def two_devices(on: str = "b") -> Tree:
    return slice_of(on, device("gpu-0"), device("gpu-1"))


def test_devices_stand_in_for_a_resource_that_no_node_has() -> None:
    setup = cluster(two_devices(), wanting("p", "2"), wanting("q", "1"), classes=(standing_for(),))
    assert attempt(setup).decision.node == "b"
    (claim,) = setup.core.snapshot.catalog.pending_allocations.values()
    assert claim.status.allocation is not None
    results = claim.status.allocation.devices.results
    assert [(item.request, item.device) for item in results] == [
        ("container-0-request-1", "gpu-0"),
        ("container-0-request-1", "gpu-1"),
    ]
    second = attempt(setup)
    assert second.decision.histogram() == {"cannot allocate all claims": 2}


def test_what_a_node_offers_itself_counts_first() -> None:
    setup = cluster(two_devices(), wanting("p", "2"), nodes="b", classes=(standing_for(),))
    setup.see("Node", with_gpus("a"))
    outcome = attempt(setup)
    assert outcome.decision.node == "b"
    assert outcome.decision.histogram() == {"Insufficient example.com/gpu": 1}
    setup = cluster(wanting("p", "1"), nodes="", classes=(standing_for(),))
    setup.see("Node", with_gpus("a"))
    assert attempt(setup).decision.node == "a"
    assert setup.core.snapshot.catalog.pending_allocations == {}


def test_without_a_class_the_resource_is_missing_until_one_comes() -> None:
    setup = cluster(two_devices(), wanting("p", "1"), classes=())
    assert attempt(setup).decision.message.startswith("0/2 nodes are available: 2 Insufficient example.com/gpu.")
    setup.see("DeviceClass", standing_for("example.com/other"))
    assert setup.core.queue.sizes()["unschedulable"] == 1
    setup.see("DeviceClass", standing_for())
    setup.clock.seconds += 10
    assert attempt(setup).decision.node == "b"


def test_every_class_stands_for_a_resource_of_its_own() -> None:
    name = "deviceclass.resource.kubernetes.io/gpu"
    setup = cluster(two_devices(), wanting("p", "1", name))
    assert attempt(setup).decision.node == "b"


def container(name: str, amount: int, **fields: Any) -> Tree:
    return {"name": name, "resources": {"requests": {GPU: str(amount)}}, **fields}


def test_init_containers_use_the_devices_of_those_that_come_later() -> None:
    spec = from_tree(
        PodSpec,
        {
            "initContainers": [container("big", 3), container("side", 1, restartPolicy="Always"), container("late", 1)],
            "containers": [container("main", 2)],
        },
    )
    needs = needs_of(spec, {GPU: "gpu"})
    counts = {item.name: item.exactly.count for item in needs.requests if item.exactly is not None}
    assert counts == {"container-1-request-0": 1, "container-3-request-0": 2}
    used = [(item.container_name, item.request_name[10]) for item in needs.mappings]
    assert used == [("side", "1"), ("main", "3"), ("big", "1"), ("big", "3"), ("late", "3")]


def test_the_claim_is_made_before_the_pod_is_bound_and_the_pod_told() -> None:
    async def story(world: World) -> None:
        await world.create(node("a"), node("b"), standing_for(), two_devices(), wanting("p", "1"))
        assert await world.bound("p") == "b"
        (made,) = (await world.client.list(ResourceClaim, "default")).items
        assert made.metadata.name.startswith("p-extended-resources-")
        assert made.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert [item.name for item in made.status.reserved_for] == ["p"]
        told = (await world.pod("p")).status.extended_resource_claim_status
        assert told is not None
        assert told.resource_claim_name == made.metadata.name
        assert [(item.container_name, item.resource_name) for item in told.request_mappings] == [("main", GPU)]

    play(story)


def test_what_init_containers_lack_is_asked_for_once_since_they_run_one_after_the_other() -> None:
    spec = from_tree(
        PodSpec,
        {
            "initContainers": [container("one", 2), container("two", 4), container("three", 3)],
            "containers": [container("main", 1)],
        },
    )
    needs = needs_of(spec, {GPU: "gpu"})
    counts = {item.name: item.exactly.count for item in needs.requests if item.exactly is not None}
    assert counts == {"container-1-request-0": 3, "container-3-request-0": 1}
    used = [(item.container_name, item.request_name[10]) for item in needs.mappings]
    assert used == [
        ("main", "3"),
        ("one", "3"),
        ("one", "1"),
        ("two", "3"),
        ("two", "1"),
        ("three", "3"),
        ("three", "1"),
    ]


def test_requests_are_sorted_by_name() -> None:
    spec = from_tree(PodSpec, {"containers": [container(f"c{index}", 1) for index in range(11)]})
    names = [item.name.removeprefix("container-") for item in needs_of(spec, {GPU: "gpu"}).requests]
    assert names[:3] == ["0-request-0", "1-request-0", "10-request-0"]


def test_the_newest_class_is_meant_and_of_equally_new_ones_the_first_by_name() -> None:
    def classes(**created: str) -> dict[str, DeviceClass]:
        trees = {name: device_class(name, extendedResourceName=GPU) for name in created}
        for name, tree in trees.items():
            tree["metadata"]["creationTimestamp"] = created[name]
        return {name: from_tree(DeviceClass, tree) for name, tree in trees.items()}

    old, new = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    assert class_behind(GPU, classes(a=old, b=new)) == "b"
    assert class_behind(GPU, classes(b=old, a=old, c=old)) == "a"
    assert class_behind("example.com/other", classes(a=old)) == ""


def scoring(plugin: str, **args: Any) -> Tree:
    config = [{"name": plugin, "args": args}]
    return {"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": config}]}


def test_nodes_that_do_not_know_another_resource_of_the_pod_cannot_have_it_even_if_room_is_ignored() -> None:
    tree = wanting("p", "1")
    resources = tree["spec"]["containers"][0]["resources"]
    resources["requests"]["example.com/odd"] = resources["limits"]["example.com/odd"] = "1"
    knows = node("b")
    knows["status"]["allocatable"]["example.com/odd"] = "0"
    config = scoring("NodeResourcesFit", ignoredResources=["example.com/odd"])
    objects = [node("a"), knows, standing_for(), two_devices("a"), two_devices("b")]
    found = evaluate(objects, tree, config).to_dict()["nodes"]
    assert found["a"]["filter"]["reasons"] == ["cannot fit resource"]
    assert found["b"]["filter"] == {"ok": True}


def test_devices_count_for_the_score_where_they_stand_for_a_resource() -> None:
    used = claim("used")
    result = {"request": "one", "driver": DRIVER, "pool": "b", "device": "gpu-0"}
    used["status"] = {"allocation": {"devices": {"results": [result]}}}
    everywhere = slice_of("net", device("d"), allNodes=True)
    elsewhere = slice_of("far", device("e") | {"nodeName": "gone"}, perDeviceNodeSelection=True)
    objects = [with_gpus("a"), node("b"), standing_for(), two_devices(), everywhere, elsewhere, used]
    strategy = {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]}

    def scores(plugin: str, **args: Any) -> list[int]:
        found = evaluate(objects, wanting("p", "1"), scoring(plugin, **args)).to_dict()["nodes"]
        return [found[name]["scores"][plugin] for name in "ab"]

    assert scores("NodeResourcesFit", scoringStrategy=strategy) == [100, 66]
    strategy["type"] = "LeastAllocated"
    assert scores("NodeResourcesFit", scoringStrategy=strategy) == [0, 33]
    three = [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU)]
    assert scores("NodeResourcesBalancedAllocation", resources=three) == [53, 69]
