"""Services, endpoints, addresses and leases as objects. Conformance: Services, Endpoints, EndpointSlice, ServiceCIDR and IPAddress API, Lease, Ingress API."""

from __future__ import annotations

from tests.integration.conformance.requests import MERGE_PATCH, STRATEGIC_PATCH, Object, Requests, conformance

NETWORKING = "/apis/networking.k8s.io/v1"


def _service(name: str, label: str = "", **spec: object) -> Object:
    ports = [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80}]
    return {
        "metadata": {"name": name, "labels": {"test-service-static": label or "true"}},
        "spec": {"ports": ports, **spec},
    }


def test_the_status_of_a_service_has_a_life_of_its_own() -> None:
    """Services should complete a service status lifecycle."""

    async def scenario(api: Requests) -> None:
        services = f"{await api.namespace()}/services"
        selector = {"labelSelector": "test-service-static=true"}
        async with api.watch("/api/v1/services", **selector) as watch:
            await api.create(
                services, _service("test", type="LoadBalancer", loadBalancerClass="example.com/internal-vip")
            )
            await watch.until("ADDED")
            own = f"{services}/test/status"
            assert (await api.get(own))["status"] == {"loadBalancer": {}}
            balancer = {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}
            body = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": balancer}
            patched = await api.patch(own, body, MERGE_PATCH)
            assert patched["status"]["loadBalancer"]["ingress"] == [{"ip": "203.0.113.1", "ipMode": "VIP"}]
            await watch.until("MODIFIED", lambda one: one["metadata"]["annotations"].get("patchedstatus") == "true")
            patched["status"]["conditions"] = [
                {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "x", "lastTransitionTime": None}
            ]
            patched["status"]["conditions"][0]["lastTransitionTime"] = "2020-01-01T00:00:00Z"
            updated = await api.update(own, patched)
            assert [one["type"] for one in updated["status"]["conditions"]] == ["StatusUpdate"]
            await watch.until("MODIFIED", lambda one: bool(one["status"].get("conditions")))
            await api.patch(f"{services}/test", {"metadata": {"labels": {"test-service": "patched"}}}, STRATEGIC_PATCH)
            await watch.until("MODIFIED", lambda one: one["metadata"]["labels"].get("test-service") == "patched")
            await api.delete(f"{services}/test")
            await watch.until("DELETED")

    conformance(scenario)


def test_services_are_found_in_all_namespaces_and_deleted_by_label() -> None:
    """Services should find a service from listing all namespaces; should delete a collection of services."""

    async def scenario(api: Requests) -> None:
        services = f"{await api.namespace()}/services"
        assert "kubernetes" in await api.names("/api/v1/services")
        for index in range(3):
            await api.create(services, _service(f"e2e-{index}", "collection" if index < 2 else "other"))
        await api.delete(services, labelSelector="test-service-static=collection")
        assert await api.names(services) == ["e2e-2"]

    conformance(scenario)


def test_endpoints_have_a_life_of_their_own() -> None:
    """Endpoints should test the lifecycle of an Endpoint."""

    async def scenario(api: Requests) -> None:
        endpoints = f"{await api.namespace()}/endpoints"
        selector = {"labelSelector": "test-endpoint-static=true"}
        subset = {"addresses": [{"ip": "10.0.0.24"}], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}
        body = {"metadata": {"name": "testservice", "labels": {"test-endpoint-static": "true"}}, "subsets": [subset]}
        async with api.watch("/api/v1/endpoints", **selector) as watch:
            created = await api.create(endpoints, body)
            await watch.until("ADDED")
            assert await api.names("/api/v1/endpoints", **selector) == ["testservice"]
            created["metadata"]["labels"]["test-service"] = "updated"
            await api.update(f"{endpoints}/testservice", created)
            await watch.until("MODIFIED", lambda one: one["metadata"]["labels"].get("test-service") == "updated")
            subset = {"addresses": [{"ip": "10.0.0.25"}], "ports": [{"name": "http-test", "port": 8080}]}
            patch = {"metadata": {"labels": {"test-service": "patched"}}, "subsets": [subset]}
            patched = await api.patch(f"{endpoints}/testservice", patch, STRATEGIC_PATCH)
            assert patched["subsets"][0]["addresses"] == [{"ip": "10.0.0.25"}]
            assert patched["subsets"][0]["ports"] == [{"name": "http-test", "port": 8080, "protocol": "TCP"}]
            await watch.until("MODIFIED", lambda one: one["metadata"]["labels"].get("test-service") == "patched")
            await api.delete(endpoints, **selector)
            await watch.until("DELETED")
        assert await api.gone(f"{endpoints}/testservice")

    conformance(scenario)


def test_the_default_service_cidr_is_served() -> None:
    """ServiceCIDR and IPAddress API should support ServiceCIDR API operations."""

    async def scenario(api: Requests) -> None:
        cidrs = f"{NETWORKING}/servicecidrs"
        default, status = await api.get(f"{cidrs}/kubernetes"), await api.get(f"{cidrs}/kubernetes/status")
        assert (status["kind"], status["apiVersion"]) == ("ServiceCIDR", "networking.k8s.io/v1")
        assert status["metadata"]["uid"] == default["metadata"]["uid"]
        assert await api.names(cidrs) == ["kubernetes"]
        async with api.watch(cidrs) as watch:
            assert (await watch.until("ADDED"))["metadata"]["name"] == "kubernetes"

    conformance(scenario)


def test_addresses_of_both_families_are_objects() -> None:
    """ServiceCIDR and IPAddress API should support IPAddress API operations."""

    async def scenario(api: Requests) -> None:
        addresses = f"{NETWORKING}/ipaddresses"
        parent = {"group": "mygroup", "resource": "myresources", "namespace": "foo", "name": "bar"}
        for name, type_ in (("255.255.255.255", "broadcast"), ("fe80::42:1dff:fe84:f9e2", "link-local")):
            await api.create(
                addresses, {"metadata": {"name": name, "labels": {"type": type_}}, "spec": {"parentRef": parent}}
            )
        own = f"{addresses}/255.255.255.255"
        patched = await api.patch(own, {"metadata": {"annotations": {"patched": "true"}}}, MERGE_PATCH)
        patched["metadata"]["annotations"]["updated"] = "true"
        assert (await api.update(own, patched))["metadata"]["annotations"] == {"patched": "true", "updated": "true"}
        assert await api.names(addresses, labelSelector="type=broadcast") == ["255.255.255.255"]
        await api.delete(own)
        await api.delete(addresses, labelSelector="type=link-local")
        assert await api.names(addresses, labelSelector="type") == []

    conformance(scenario)


def test_a_lease_is_taken_over_renewed_and_given_back() -> None:
    """Lease lease API should be available."""

    async def scenario(api: Requests) -> None:
        leases = (await api.namespace()).replace("/api/v1", "/apis/coordination.k8s.io/v1") + "/leases"
        spec = {
            "holderIdentity": "holder",
            "leaseDurationSeconds": 30,
            "acquireTime": "2020-01-01T00:00:00.000000Z",
            "renewTime": "2020-01-01T00:00:05.000000Z",
            "leaseTransitions": 0,
        }
        created = await api.create(leases, {"metadata": {"name": "lease"}, "spec": spec})
        assert created["spec"] == spec
        created["spec"] = {**spec, "holderIdentity": "holder2", "leaseTransitions": 1}
        assert (await api.update(f"{leases}/lease", created))["spec"] == created["spec"]
        patch = {"spec": {"holderIdentity": "holder3", "leaseDurationSeconds": 60}}
        patched = await api.patch(f"{leases}/lease", patch, STRATEGIC_PATCH)
        assert patched["spec"] == {**created["spec"], **patch["spec"]}
        await api.create(leases, {"metadata": {"name": "lease2", "labels": {"deletecollection": "true"}}, "spec": spec})
        assert len(await api.names(leases)) == 2
        await api.delete(leases, labelSelector="deletecollection=true")
        assert await api.names(leases) == ["lease"]
        await api.delete(f"{leases}/lease")
        assert await api.gone(f"{leases}/lease")

    conformance(scenario)


def test_an_ingress_gets_an_address_through_its_status() -> None:
    """Ingress API should support creating Ingress API operations."""

    async def scenario(api: Requests) -> None:
        ingresses = f"{NETWORKING}/namespaces/conformance/ingresses"
        await api.namespace()
        backend = {"service": {"name": "default-backend", "port": {"number": 80}}}
        created = await api.create(
            ingresses, {"metadata": {"generateName": "e2e-example-ing-"}, "spec": {"defaultBackend": backend}}
        )
        own = f"{ingresses}/{created['metadata']['name']}/status"
        status = {"loadBalancer": {"ingress": [{"ip": "169.1.1.1"}]}}
        patched = await api.patch(own, {"status": status}, MERGE_PATCH)
        assert patched["status"] == status
        patched["status"] = {"loadBalancer": {"ingress": [{"ip": "169.1.1.2"}]}}
        assert (await api.update(own, patched))["status"] == patched["status"]
        assert (await api.get(own))["status"] == patched["status"]

    conformance(scenario)
