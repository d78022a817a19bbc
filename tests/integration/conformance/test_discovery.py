"""What the server says that it serves, and where it is found. Conformance: Discovery, AggregatedDiscovery, server version, API Server."""

from __future__ import annotations

import re

import pytest

from bayplan.api.kinds import DEFAULT_KINDS
from tests.integration.conformance.requests import Object, Requests, conformance

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
RESOURCES = [
    "admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "apiextensions.k8s.io/v1/customresourcedefinitions",
    "apiregistration.k8s.io/v1/apiservices",
    "apps/v1/deployments",
    "authentication.k8s.io/v1/tokenreviews",
    "authorization.k8s.io/v1/selfsubjectaccessreviews",
    "autoscaling/v1/horizontalpodautoscalers",
    "autoscaling/v2/horizontalpodautoscalers",
    "batch/v1/jobs",
    "certificates.k8s.io/v1/certificatesigningrequests",
    "coordination.k8s.io/v1/leases",
    "discovery.k8s.io/v1/endpointslices",
    "events.k8s.io/v1/events",
    "networking.k8s.io/v1/ingresses",
    "node.k8s.io/v1/runtimeclasses",
    "policy/v1/poddisruptionbudgets",
    "scheduling.k8s.io/v1/priorityclasses",
    "storage.k8s.io/v1/csinodes",
]


def _named(discovery: Object) -> set[str]:
    """Every `group/version/resource` of an aggregated discovery document."""
    return {
        f"{group['metadata'].get('name', '')}/{version['version']}/{resource['resource']}"
        for group in discovery["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }


def test_every_group_prefers_a_version_that_it_has() -> None:
    """Discovery should validate PreferredVersion for each APIGroup."""

    async def scenario(api: Requests) -> None:
        groups = (await api.get("/apis"))["groups"]
        assert {one["name"] for one in groups} == {kind.group for kind in DEFAULT_KINDS if kind.group}
        for listed in groups:
            group = await api.get(f"/apis/{listed['name']}/")
            assert group["preferredVersion"]["groupVersion"]
            assert group["preferredVersion"] in group["versions"]

    conformance(scenario)


def test_every_group_version_lists_its_resources() -> None:
    """Discovery should locate the groupVersion and a resource within each APIGroup."""

    async def scenario(api: Requests) -> None:
        wanted = {path.rpartition("/")[0]: path.rpartition("/")[2] for path in RESOURCES}
        groups = {one["name"]: one["versions"] for one in (await api.get("/apis"))["groups"]}
        for group_version, resource in wanted.items():
            group = group_version.partition("/")[0]
            assert group_version in [one["groupVersion"] for one in groups[group]]
            found = await api.get(f"/apis/{group_version}")
            assert found["groupVersion"] == group_version
            assert resource in [one["name"] for one in found["resources"]]

    conformance(scenario)


def test_all_resources_are_in_the_aggregated_documents() -> None:
    """AggregatedDiscovery should support raw aggregated discovery endpoint Accept headers, and the aggregated discovery interface."""

    async def scenario(api: Requests) -> None:
        assert set(RESOURCES) <= _named(await api.send("GET", "/apis", accept=AGGREGATED))
        assert "/v1/namespaces" in _named(await api.send("GET", "/api", accept=AGGREGATED))

    conformance(scenario)


def test_the_version_is_told() -> None:
    """server version should find the server version."""

    async def scenario(api: Requests) -> None:
        version = await api.get("/version")
        assert re.fullmatch("[1-9]", version["major"])
        assert re.fullmatch("([0-9]+).*", re.sub("[^0-9]", "", version["minor"]))

    conformance(scenario)


@pytest.mark.parametrize("path", ["endpoints", "endpointslices"])
def test_the_server_publishes_its_own_address(path: str) -> None:
    """API Server should have Endpoints and EndpointSlices pointing to API Server; should provide secure master service."""

    async def scenario(api: Requests) -> None:
        service = await api.get("/api/v1/namespaces/default/services/kubernetes")
        assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [("https", 443)]
        endpoints = await api.get("/api/v1/namespaces/default/endpoints/kubernetes")
        addresses = {one["ip"] for subset in endpoints["subsets"] for one in subset["addresses"]}
        assert addresses
        if path == "endpointslices":
            found = await api.get(
                "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
                labelSelector="kubernetes.io/service-name=kubernetes",
            )
            (one,) = found["items"]
            assert {address for endpoint in one["endpoints"] for address in endpoint["addresses"]} == addresses
            assert [port["name"] for port in one["ports"]] == ["https"]

    conformance(scenario)
