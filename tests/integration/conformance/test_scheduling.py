"""Where pods may run. Conformance: SchedulerPredicates, Conformance Tests (nodes)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from bayplan.api.quantity import milli_value
from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import PAUSE, Space, Workloads, is_ready

NODES = "/api/v1/nodes"


def pod(name: str, **spec: object) -> Object:
    """A pod that does nothing."""
    container = {"name": name, "image": PAUSE, **({"resources": spec.pop("resources")} if "resources" in spec else {})}
    if "ports" in spec:
        container["ports"] = spec.pop("ports")
    return {"metadata": {"name": name}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}}


def amount(cpu: int) -> Object:
    """So many thousandths of a processor, as request and limit."""
    return {"requests": {"cpu": f"{cpu}m"}, "limits": {"cpu": f"{cpu}m"}}


async def run(space: Space, made: Object) -> Object:
    """Run a pod."""
    await space.api.create(space.core("pods"), made)
    own = space.core(f"pods/{made['metadata']['name']}")
    return await space.until(own, lambda one: one["status"]["phase"] == "Running")


async def node_that_can_run_a_pod(space: Space) -> str:
    """The node that a pod got which was free to go anywhere; it is gone again."""
    found = await run(space, pod("anywhere"))
    await space.api.delete(space.core("pods/anywhere"), {"gracePeriodSeconds": 0})
    return str(found["spec"]["nodeName"])


@contextlib.asynccontextmanager
async def labelled(space: Space, label: str, values: dict[str, str]) -> AsyncIterator[None]:
    """Nodes have a label for a while: name of a node -> its value."""
    for name, value in values.items():
        patch = {"metadata": {"labels": {label: value}}}
        patched = await space.api.patch(f"{NODES}/{name}", patch, STRATEGIC_PATCH)
        assert patched["metadata"]["labels"][label] == value
    try:
        yield
    finally:
        for name in values:
            updated = await space.changed(f"{NODES}/{name}", lambda node: node["metadata"]["labels"].pop(label))
            assert label not in updated["metadata"]["labels"]


async def is_not_scheduled(space: Space, made: Object) -> None:
    """Create a pod: an event says that it fits nowhere, and it stays without a node."""
    name = made["metadata"]["name"]
    async with space.api.watch(space.core("events"), resourceVersion="0") as watch:
        await space.api.create(space.core("pods"), made)
        while True:
            kind, event = await watch.next()
            told = (event["metadata"]["name"].startswith(f"{name}."), event.get("reason"))
            if kind == "ADDED" and told == (True, "FailedScheduling"):
                break
    found = await space.api.get(space.core(f"pods/{name}"))
    assert not found["spec"].get("nodeName")


async def on_nodes(space: Space) -> int:
    """How many pods of the namespace have a node."""
    return sum(bool(one["spec"].get("nodeName")) for one in await space.pods())


def test_there_are_two_nodes_for_pods(workloads: Workloads) -> None:
    """Conformance Tests should have at least two untainted nodes."""

    async def scenario(space: Space) -> None:
        nodes = (await space.api.get(NODES, resourceVersion="0", fieldSelector="spec.unschedulable=false"))["items"]
        usable = [one for one in nodes if is_ready(one) and not one["spec"].get("taints")]
        assert len(usable) >= 2
        for one in usable:
            unhealthy = {each["type"] for each in one["status"]["conditions"] if each["status"] != "False"}
            assert unhealthy == {"Ready"}
            assert one["metadata"]["labels"]["kubernetes.io/hostname"]
            assert {"cpu", "memory", "ephemeral-storage", "pods"} <= one["status"]["allocatable"].keys()
            assert "InternalIP" in {each["type"] for each in one["status"]["addresses"]}

    workloads.run(scenario)


def test_nodes_are_not_overcommitted(workloads: Workloads) -> None:
    """SchedulerPredicates validates resource limits of pods that are allowed to run."""

    async def scenario(space: Space) -> None:
        nodes = (await space.api.get(NODES))["items"]
        free = {one["metadata"]["name"]: milli_value(one["status"]["allocatable"]["cpu"]) for one in nodes}
        largest = max(free.values())
        for one in (await space.api.get("/api/v1/pods"))["items"]:
            for container in one["spec"]["containers"] if one["spec"].get("nodeName") in free else ():
                asked = container.get("resources", {}).get("requests", {}).get("cpu", "0")
                free[one["spec"]["nodeName"]] -= milli_value(asked)
        async with labelled(space, "node", {name: name for name in free}):
            for name, cpu in free.items():
                term = {"matchExpressions": [{"key": "node", "operator": "In", "values": [name]}]}
                required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
                filler = pod(f"filler-{name}", resources=amount(cpu * 7 // 10), affinity={"nodeAffinity": required})
                assert (await run(space, filler))["spec"]["nodeName"] == name
            await is_not_scheduled(space, pod("one-too-many", resources=amount(largest // 2)))
            assert await on_nodes(space) == len(free)

    workloads.run(scenario)


def test_a_selector_that_no_node_meets(workloads: Workloads) -> None:
    """SchedulerPredicates validates that NodeSelector is respected if not matching."""

    async def scenario(space: Space) -> None:
        await is_not_scheduled(space, pod("particular", nodeSelector={"label": "nowhere"}))
        assert await on_nodes(space) == 0

    workloads.run(scenario)


def test_a_selector_that_one_node_meets(workloads: Workloads) -> None:
    """SchedulerPredicates validates that NodeSelector is respected if matching."""

    async def scenario(space: Space) -> None:
        name, label = await node_that_can_run_a_pod(space), "example.com/chosen"
        async with labelled(space, label, {name: "42"}):
            found = await run(space, pod("particular", nodeSelector={label: "42"}))
            assert found["spec"]["nodeName"] == name

    workloads.run(scenario)


def test_a_port_of_all_addresses_is_taken_for_each(workloads: Workloads) -> None:
    """SchedulerPredicates validates that there exists conflict between pods with same hostPort and protocol but one using 0.0.0.0 hostIP."""

    async def scenario(space: Space) -> None:
        privileged = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        await space.api.patch(f"/api/v1/namespaces/{space.name}", privileged, STRATEGIC_PATCH)
        name, label = await node_that_can_run_a_pod(space), "example.com/ports"
        addresses = (await space.api.get(f"{NODES}/{name}"))["status"]["addresses"]
        own = next(one["address"] for one in addresses if one["type"] == "InternalIP")
        port = {"hostPort": 54322, "containerPort": 8080, "protocol": "TCP"}
        async with labelled(space, label, {name: "95"}):
            selector = {label: "95"}
            first = pod("everywhere", ports=[{**port, "hostIP": ""}], nodeSelector=selector)
            assert (await run(space, first))["spec"]["nodeName"] == name
            await is_not_scheduled(space, pod("here", ports=[{**port, "hostIP": own}], nodeSelector=selector))

    workloads.run(scenario)


def test_what_somebody_adds_to_a_node_stays_and_what_he_erases_comes_back(workloads: Workloads) -> None:
    """What the tests of preemption rely on: clients of types patch a node's status with resources of their own and, without meaning to, with an empty nodeInfo."""

    async def scenario(space: Space) -> None:
        name = await node_that_can_run_a_pod(space)
        own = f"{NODES}/{name}"
        info = (await space.api.get(own))["status"]["nodeInfo"]
        assert info["kubeletVersion"]
        erased = dict.fromkeys((*info, "machineID", "kubeProxyVersion"), "")
        more = {"example.com/crane": "5"}
        status = {"capacity": more, "allocatable": more, "nodeInfo": erased}
        ports = {"kubeletEndpoint": {"Port": 0}}
        patch = {"metadata": {"creationTimestamp": None}, "spec": {}, "status": {**status, "daemonEndpoints": ports}}
        await space.api.patch(f"{own}/status", patch, STRATEGIC_PATCH)

        async def recovered() -> bool:
            found = (await space.api.get(own))["status"]
            assert found["nodeInfo"] == info
            assert found["allocatable"]["example.com/crane"] == found["capacity"]["example.com/crane"] == "5"
            return "cpu" in found["allocatable"]

        try:
            await eventually(recovered)
        finally:
            removal = {kind: {"example.com/crane": None} for kind in ("capacity", "allocatable")}
            await space.api.patch(f"{own}/status", {"status": removal}, STRATEGIC_PATCH)

    workloads.run(scenario)
