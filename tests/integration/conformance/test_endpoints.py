"""Where services lead. Conformance: EndpointSlice, EndpointSliceMirroring, EndpointsController, Service endpoints latency."""

from __future__ import annotations

import asyncio

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import Object
from tests.integration.conformance.workloads import PAUSE, SERVER_IMAGE, Space, Workloads, template

SERVICE_NAME = "kubernetes.io/service-name"


def service(name: str, port: str, target: int | str | None = None, **spec: object) -> Object:
    """A service of one port."""
    ports: list[Object] = [{"name": port, "port": 80, "protocol": "TCP"}]
    if target is not None:
        ports[0]["targetPort"] = target
    return {"metadata": {"name": name}, "spec": {"ports": ports, **spec}}


def slices_path(space: Space) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{space.name}/endpointslices"


async def slices_of(space: Space, name: str) -> list[Object]:
    """The slices of a service."""
    found: list[Object] = (await space.api.get(slices_path(space), labelSelector=f"{SERVICE_NAME}={name}"))["items"]
    return found


async def two_pods(space: Space) -> tuple[Object, Object]:
    """Pods that share a label and the name of a port, but not its number; returned with their addresses."""
    ports: dict[str, list[Object]] = {
        "pod1": [{"name": "web-port", "containerPort": 3000}],
        "pod2": [{"name": "web-port", "containerPort": 3001}, {"name": "other-port", "containerPort": 3002}],
    }
    for name, own in ports.items():
        metadata = {"name": name, "labels": {name: "yes", "both": "yes"}}
        spec = {"containers": [{"name": "web", "image": SERVER_IMAGE, "ports": own}]}
        await space.api.create(space.core("pods"), {"metadata": metadata, "spec": spec})
    one, two = [
        await space.until(space.core(f"pods/{name}"), lambda found: found["status"].get("podIPs")) for name in ports
    ]
    return one, two


def check_reference(reference: Object, pod: Object) -> None:
    """An address names its pod."""
    metadata = pod["metadata"]
    wanted = {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    assert wanted.items() <= reference.items()


async def leads(space: Space, name: str, port: str, targets: dict[int, Object]) -> bool:
    """Wait until the Endpoints of a service have a subset for each of these ports, with the address of its pod alone."""

    async def look() -> bool:
        subsets = (await space.api.get(space.core(f"endpoints/{name}"))).get("subsets", [])
        found = {one["ports"][0]["port"]: one for one in subsets}
        assert found.keys() == targets.keys(), subsets
        for number, pod in targets.items():
            assert [(each["name"], each["protocol"]) for each in found[number]["ports"]] == [(port, "TCP")]
            ready, unready = (found[number].get(kind, []) for kind in ("addresses", "notReadyAddresses"))
            (address,) = ready + unready
            assert address["ip"] == pod["status"]["podIP"]
            check_reference(address["targetRef"], pod)
        return True

    return await eventually(look)


async def leads_in_slices(space: Space, name: str, port: str, targets: dict[int, Object]) -> bool:
    """The same of its EndpointSlices; of a service without pods there is an empty one."""

    async def look() -> bool:
        slices = await slices_of(space, name)
        assert len(slices) >= max(len(targets), 1), slices
        found = {one["ports"][0]["port"]: one for one in slices if one.get("endpoints")}
        assert found.keys() == targets.keys(), slices
        for number, pod in targets.items():
            assert [(each["name"], each["protocol"]) for each in found[number]["ports"]] == [(port, "TCP")]
            (endpoint,) = found[number]["endpoints"]
            assert endpoint["addresses"] == [pod["status"]["podIP"]]
            check_reference(endpoint["targetRef"], pod)
        return True

    return await eventually(look)


def test_slices_and_endpoints_of_pods(workloads: Workloads) -> None:
    """EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service; EndpointsController should create Endpoints for them."""

    async def scenario(space: Space) -> None:
        path, always = space.core("services"), {"publishNotReadyAddresses": True}
        await space.api.create(path, service("by-number", "first", 3000, selector={"pod1": "yes"}, **always))
        await space.api.create(path, service("by-name", "http", "web-port", selector={"both": "yes"}, **always))
        await space.api.create(path, service("nobody", "none", 8080, selector={"pod3": "yes"}, **always))
        one, two = await two_pods(space)
        for check in (leads, leads_in_slices):
            assert await check(space, "by-number", "first", {3000: one})
            assert await check(space, "by-name", "http", {3000: one, 3001: two})
            assert await check(space, "nobody", "none", {})
        for each in await slices_of(space, "by-name"):
            await space.api.delete(f"{slices_path(space)}/{each['metadata']['name']}")
        assert await leads_in_slices(space, "by-name", "http", {3000: one, 3001: two})

    workloads.run(scenario)


def test_a_service_whose_selector_fits_no_pod(workloads: Workloads) -> None:
    """EndpointSlice should create and delete EndpointSlices for a Service with a selector that matches no pods; EndpointsController: the same of Endpoints."""

    async def scenario(space: Space) -> None:
        made = service("lonely", "web", selector={"fits": "nobody"})
        await space.api.create(space.core("services"), made)
        await eventually(lambda: space.api.get(space.core("endpoints/lonely")))
        (empty,) = await eventually(lambda: slices_of(space, "lonely"))
        manager = empty["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
        assert manager == "endpointslice-controller.k8s.io"
        assert not empty.get("endpoints")
        await space.api.delete(space.core("services/lonely"))
        await space.gone(space.core("endpoints/lonely"))

        async def none() -> bool:
            return not await slices_of(space, "lonely")

        await eventually(none)

    workloads.run(scenario)


def test_endpoints_that_somebody_wrote_are_mirrored(workloads: Workloads) -> None:
    """EndpointSliceMirroring should mirror a custom Endpoints resource through create update and delete."""

    async def scenario(space: Space) -> None:
        await space.api.create(space.core("services"), service("own", "web"))

        def endpoints(address: str) -> Object:
            return {"metadata": {"name": "own"}, "subsets": [{"ports": [{"port": 80}], "addresses": [{"ip": address}]}]}

        async def mirrored(*addresses: str) -> bool:
            found = await slices_of(space, "own")
            assert [[each["addresses"] for each in one["endpoints"]] for one in found] == [[[one]] for one in addresses]
            assert all([port["port"] for port in one["ports"]] == [80] for one in found)
            return True

        await space.api.create(space.core("endpoints"), endpoints("10.1.2.3"))
        await eventually(lambda: mirrored("10.1.2.3"))
        await space.api.update(space.core("endpoints/own"), endpoints("10.2.3.4"))
        await eventually(lambda: mirrored("10.2.3.4"))
        await space.api.delete(space.core("endpoints/own"))
        await eventually(mirrored)

    workloads.run(scenario)


def test_endpoints_of_many_services_come_soon(workloads: Workloads) -> None:
    """Service endpoints latency should not be very high: 200 services, fifteen at a time; here in a second each, where twenty are allowed for half of them."""

    async def scenario(space: Space) -> None:
        labels = {"name": "measured"}
        spec = {"replicas": 1, "selector": labels, "template": template(labels, PAUSE)}
        controller = {"metadata": {"name": "measured"}, "spec": spec}
        await space.api.create(space.core("replicationcontrollers"), controller)
        await space.running(1, **labels)
        made: dict[str, float] = {}
        seen: dict[str, float] = {}
        loop, places = asyncio.get_running_loop(), asyncio.Semaphore(15)
        arrived = {number: asyncio.Event() for number in range(200)}

        async def one(number: int) -> None:
            async with places:
                name = f"measured-{number}"
                made[name] = loop.time()
                await space.api.create(space.core("services"), service(name, "web", selector=labels))
                await arrived[number].wait()

        async with space.api.watch(space.core("endpoints")) as watch:
            trials = asyncio.gather(*map(one, arrived))
            while len(seen) < len(arrived):
                _, found = await watch.next()
                name = found["metadata"]["name"]
                if name in made and name not in seen and found.get("subsets", [{}])[0].get("addresses"):
                    seen[name] = loop.time()
                    arrived[int(name.rpartition("-")[2])].set()
            await trials
        took = sorted(seen[name] - made[name] for name in seen)
        assert took[len(took) // 2] < 1.0
        assert took[len(took) * 99 // 100] < 2.5

    workloads.run(scenario)
