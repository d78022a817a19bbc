"""Endpoints written by hand are shown as slices."""

from __future__ import annotations

import asyncio

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, discovery_v1
from bayplan.testing.builders import service
from bayplan.testing.cluster import running_cluster


def test_endpoints_of_a_service_without_selector_are_mirrored_and_follow() -> None:
    async def run() -> None:
        async with running_cluster(nodes=0) as cluster:
            client = cluster.client
            subsets = [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"name": "http", "port": 80}]}]
            metadata = {"name": "mine", "namespace": "default", "labels": {"made": "by-hand"}}
            await client.create(from_tree(core_v1.Endpoints, {"metadata": metadata, "subsets": subsets}))
            await client.create(service("mine", select={}))

            async def addresses(*wanted: str) -> discovery_v1.EndpointSlice | bool:
                selector = "kubernetes.io/service-name=mine"
                found = (await client.list(discovery_v1.EndpointSlice, "default", label_selector=selector)).items
                shown = [one.addresses[0] for each in found for one in each.endpoints]
                return (found[0] if found else True) if sorted(shown) == sorted(wanted) else False

            made = await cluster.eventually(lambda: addresses("10.9.9.9"))
            assert isinstance(made, discovery_v1.EndpointSlice)
            assert made.metadata.owner_references[0].kind == "Endpoints"
            labels = made.metadata.labels
            assert labels["endpointslice.kubernetes.io/managed-by"] == "endpointslicemirroring-controller.k8s.io"
            assert labels["made"] == "by-hand"
            more = [{"addresses": [{"ip": "10.9.9.9"}, {"ip": "10.9.9.8"}], "ports": [{"name": "http", "port": 80}]}]
            await client.patch(core_v1.Endpoints, "mine", "default", {"subsets": more})
            await cluster.eventually(lambda: addresses("10.9.9.8", "10.9.9.9"))
            skip = {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
            await client.patch(core_v1.Endpoints, "mine", "default", skip)
            await cluster.eventually(lambda: addresses())

    asyncio.run(run())
