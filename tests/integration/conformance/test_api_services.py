"""Services, endpoints, address ranges and addresses, in a cluster whose controllers are at work.

Conformance: Services, Endpoints, ServiceCIDR and IPAddress API, API Server.
"""

from __future__ import annotations

from tests.integration.conformance.requests import MERGE_PATCH, STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import CHANGES, Space, Workloads, condition, revision

NETWORKING = "/apis/networking.k8s.io/v1"


def service(name: str, labels: dict[str, str], **spec: object) -> Object:
    """A service of one port that selects nothing."""
    ports = [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"ports": ports, **spec}}


def test_a_service_is_followed_from_its_creation_through_its_status_to_its_end(workloads: Workloads) -> None:
    """Services should complete a service status lifecycle."""

    async def scenario(space: Space) -> None:
        api, services, query = space.api, space.core("services"), {"labelSelector": f"fleet={space.name}"}
        since = revision(await api.get("/api/v1/services", **query))
        balanced = {"type": "LoadBalancer", "loadBalancerClass": "example.com/nobody"}
        await api.create(services, service("tug", {"fleet": space.name}, **balanced))
        await space.seen(services, since, lambda obj: obj["metadata"]["name"] == "tug", CHANGES, **query)
        own = f"{services}/tug"
        assert (await space.dynamic.get(f"{own}/status"))["status"] == {"loadBalancer": {}}
        ingress = {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}}
        body = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": ingress}
        await api.patch(f"{own}/status", body, MERGE_PATCH)
        annotated = await space.seen(
            services, since, lambda obj: obj["metadata"]["annotations"]["patchedstatus"] == "true", CHANGES, **query
        )
        assert [one["ip"] for one in annotated["status"]["loadBalancer"]["ingress"]] == ["198.51.100.7"]
        said = {"type": "Updated", "status": "True", "reason": "Said", "message": "by a client"}
        await space.changed(f"{own}/status", lambda obj: obj["status"].setdefault("conditions", []).append(said))
        await space.seen(
            services, since, lambda obj: said.items() <= condition(obj, "Updated").items(), CHANGES, **query
        )
        await api.patch(
            own, {"metadata": {"labels": {"hull": "patched"}}, "spec": {}, "status": ingress}, STRATEGIC_PATCH
        )
        await space.seen(services, since, lambda obj: obj["metadata"]["labels"]["hull"] == "patched", CHANGES, **query)
        await api.delete(own)
        await space.seen(services, since, lambda obj: obj["metadata"]["name"] == "tug", ("DELETED",), **query)

    workloads.run(scenario)


def test_services_of_a_label_go_and_others_stay(workloads: Workloads) -> None:
    """Services should delete a collection of services; should find a service from listing all namespaces."""

    async def scenario(space: Space) -> None:
        api, services = space.api, space.core("services")
        found = (await api.get("/api/v1/services"))["items"]
        assert ("default", "kubernetes") in [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found]
        for name, label in (("tug-0", "collection"), ("tug-1", "collection"), ("tug-2", "other")):
            await api.create(services, service(name, {"group": label}, type="ClusterIP"))
        for label, number in (("collection", 2), ("other", 1)):
            assert len(await api.names(services, labelSelector=f"group={label}")) == number
        await api.delete(services, labelSelector="group=collection")
        assert await api.names(services) == ["tug-2"]

    workloads.run(scenario)


def test_endpoints_that_a_client_made_are_left_to_it(workloads: Workloads) -> None:
    """Endpoints should test the lifecycle of an Endpoint."""

    async def scenario(space: Space) -> None:
        api, endpoints, query = space.api, space.core("endpoints"), {"labelSelector": f"pier={space.name}"}
        own = f"{endpoints}/pier"
        since = revision(await api.get("/api/v1/endpoints", **query))
        subsets = [{"addresses": [{"ip": "10.0.0.24"}], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}]
        created = await api.create(
            endpoints, {"metadata": {"name": "pier", "labels": {"pier": space.name}}, "subsets": subsets}
        )
        await space.seen(endpoints, since, lambda obj: obj["subsets"] == subsets, ("ADDED",), **query)
        listed = await api.get("/api/v1/endpoints", **query)
        (found,) = listed["items"]
        found["metadata"]["labels"]["state"] = "updated"
        updated = await api.update(own, found)
        await space.seen(endpoints, revision(listed), lambda _: True, ("MODIFIED",), **query)
        changed = [{"addresses": [{"ip": "10.0.0.25"}], "ports": [{"name": "http-new", "port": 8080}]}]
        body = {"metadata": {"labels": {"state": "patched"}}, "subsets": changed}
        patched = await api.patch(own, body, STRATEGIC_PATCH)
        assert int(revision(patched)) > int(revision(created))
        await space.seen(endpoints, revision(updated), lambda _: True, ("MODIFIED",), **query)
        shown = await api.get(own)
        assert shown["metadata"]["labels"]["state"] == "patched"
        assert shown["subsets"][0]["addresses"] == [{"ip": "10.0.0.25"}]
        assert shown["subsets"][0]["ports"] == [{"name": "http-new", "port": 8080, "protocol": "TCP"}]
        await api.delete(endpoints, **query)
        await space.seen(endpoints, revision(shown), lambda _: True, ("DELETED",), **query)
        assert await space.absent(own)

    workloads.run(scenario)


def test_the_range_of_service_addresses_is_an_object(workloads: Workloads) -> None:
    """ServiceCIDR and IPAddress API should support ServiceCIDR API operations."""

    async def scenario(space: Space) -> None:
        path = f"{NETWORKING}/servicecidrs"
        found = await space.api.get(f"{path}/kubernetes")
        shown = await space.dynamic.get(f"{path}/kubernetes/status")
        assert (shown["apiVersion"], shown["kind"]) == ("networking.k8s.io/v1", "ServiceCIDR")
        assert shown["metadata"]["uid"] == found["metadata"]["uid"]
        assert condition(found, "Ready")["status"] == "True"
        assert "kubernetes" in await space.api.names(path)
        async with space.api.watch(path) as watch:
            assert (await watch.next())[0] == "ADDED"

    workloads.run(scenario)


def test_addresses_of_other_owners_stay_until_they_are_deleted(workloads: Workloads) -> None:
    """ServiceCIDR and IPAddress API should support IPAddress API operations."""

    async def scenario(space: Space) -> None:
        api, path = space.api, f"{NETWORKING}/ipaddresses"
        parent = {"group": "boats.example.com", "resource": "boats", "namespace": "harbour", "name": "tug"}
        for name, kind in (("255.255.255.255", "broadcast"), ("fe80::42:1dff:fe84:f9e2", "link-local")):
            metadata = {"name": name, "labels": {"type": kind}}
            created = await api.create(path, {"metadata": metadata, "spec": {"parentRef": parent}})
        own = f"{path}/255.255.255.255"
        patched = await api.patch(own, {"metadata": {"annotations": {"patched": "true"}}}, MERGE_PATCH)
        assert patched["metadata"]["annotations"]["patched"] == "true"
        assert int(revision(patched)) > int(revision(created))
        updated = await space.changed(own, lambda obj: obj["metadata"]["annotations"].update(updated="true"))
        assert updated["metadata"]["annotations"]["updated"] == "true"
        assert await api.names(path, labelSelector="type=broadcast") == ["255.255.255.255"]
        async with api.watch(path, labelSelector="type=broadcast") as watch:
            assert (await watch.next())[0] == "ADDED"
        await api.delete(own)
        await api.delete(path, labelSelector="type=link-local")
        assert await api.names(path, labelSelector="type in (broadcast,link-local)") == []

    workloads.run(scenario)


def test_endpoints_and_slices_of_the_server_agree(workloads: Workloads) -> None:
    """API Server should provide secure master service; should have Endpoints and EndpointSlices pointing to API Server."""

    async def scenario(space: Space) -> None:
        assert await space.api.get("/api/v1/namespaces/default/services/kubernetes")
        subsets = (await space.api.get("/api/v1/namespaces/default/endpoints/kubernetes"))["subsets"]
        assert subsets
        by_endpoints = {one["ip"] for each in subsets for one in each.get("addresses", [])}
        ports = {one["port"] for each in subsets for one in each["ports"]}
        listed = await space.api.get(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            labelSelector="kubernetes.io/service-name=kubernetes",
        )
        slices = [one for one in listed["items"] if one["addressType"] == "IPv4"]
        assert slices
        assert {ip for one in slices for each in one["endpoints"] for ip in each["addresses"]} == by_endpoints
        assert {port["port"] for one in slices for port in one["ports"]} == ports

    workloads.run(scenario)
