"""Conditions that the API server writes into flow schemas and API services."""

from __future__ import annotations

import asyncio
from typing import Any

from bayplan.apiserver.server import ApiServer
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SystemRandomness
from tests.apiserver.serving import client_of
from tests.integration.conformance.requests import MERGE_PATCH, Object, Requests, conformance

SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def _schema(level: str) -> Object:
    return {"metadata": {"name": "mine"}, "spec": {"priorityLevelConfiguration": {"name": level}}}


def _level(name: str) -> Object:
    limited = {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}


async def _condition(api: Requests, collection: str, name: str, **wanted: str) -> Object:
    """The first condition of an object once it is as wanted."""
    found = await api.get(collection, fieldSelector=f"metadata.name={name}")
    conditions = [one["status"].get("conditions", [{}])[0] for one in found["items"]]
    version = found["metadata"]["resourceVersion"]
    if conditions and wanted.items() <= conditions[0].items():
        return conditions[0]  # type: ignore[no-any-return]
    async with api.watch(collection, fieldSelector=f"metadata.name={name}", resourceVersion=version) as watch:
        while True:
            _, obj = await watch.next()
            condition: Any = obj["status"].get("conditions", [{}])[0]
            if wanted.items() <= condition.items():
                return condition  # type: ignore[no-any-return]


def test_a_flow_schema_dangles_while_its_level_does_not_exist() -> None:
    async def scenario(api: Requests) -> None:
        await api.create(SCHEMAS, _schema("own"))
        text = 'This FlowSchema references the PriorityLevelConfiguration object named "own"'
        missing = await _condition(api, SCHEMAS, "mine", type="Dangling", status="True")
        assert (missing["reason"], missing["message"]) == ("NotFound", f"{text} but there is no such object")
        await api.create(LEVELS, _level("own"))
        found = await _condition(api, SCHEMAS, "mine", type="Dangling", status="False")
        assert (found["reason"], found["message"]) == ("Found", f"{text} and it exists")
        managers = (await api.get(f"{SCHEMAS}/mine"))["metadata"]["managedFields"]
        consumer = next(one for one in managers if one["manager"] == "api-priority-and-fairness-config-consumer-v1")
        assert (consumer["operation"], consumer["subresource"]) == ("Apply", "status")
        await api.delete(f"{LEVELS}/own")
        await _condition(api, SCHEMAS, "mine", status="True")

    conformance(scenario)


def test_an_api_service_says_what_is_missing_behind_it() -> None:
    def slice_of(**more: object) -> Object:
        metadata = {"name": "behind", "labels": {"kubernetes.io/service-name": "backend"}}
        return {"metadata": metadata, "addressType": "IPv4", "endpoints": [], **more}

    async def scenario(api: Requests) -> None:
        core = await api.namespace("remote")
        backend = {"namespace": "remote", "name": "backend", "port": 443}
        spec = {"group": "example.org", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10}
        await api.create(API_SERVICES, {"metadata": {"name": "v1.example.org"}, "spec": {**spec, "service": backend}})

        async def says(reason: str, message: str) -> None:
            found = await _condition(api, API_SERVICES, "v1.example.org", status="False", reason=reason)
            assert found["message"] == message

        await says("ServiceNotFound", 'service/backend in "remote" is not present')
        await api.create(f"{core}/services", {"metadata": {"name": "backend"}, "spec": {"ports": [{"port": 80}]}})
        await says("ServicePortError", 'service/backend in "remote" is not listening on port 443')
        await api.patch(f"{core}/services/backend", {"spec": {"ports": [{"port": 443, "name": "https"}]}}, MERGE_PATCH)
        await says("EndpointsNotFound", 'cannot find endpointslices for service/backend in "remote"')
        await api.create("/apis/discovery.k8s.io/v1/namespaces/remote/endpointslices", slice_of())
        text = 'endpointslices for service/backend in "remote" have no addresses with port name "https"'
        await says("MissingEndpoints", text)

    conformance(scenario)


def test_an_api_service_without_a_service_is_always_available() -> None:
    async def scenario(api: Requests) -> None:
        spec = {"group": "example.org", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10}
        await api.create(API_SERVICES, {"metadata": {"name": "v1.example.org"}, "spec": spec})
        found = await _condition(api, API_SERVICES, "v1.example.org", status="True")
        assert found["reason"] == "Local"
        built_in = await asyncio.gather(
            *(_condition(api, API_SERVICES, name, status="True", reason="Local") for name in ("v1.", "v1.apps"))
        )
        assert {one["message"] for one in built_in} == {"Local APIServices are always available"}

    conformance(scenario)


class _HurriedClock(SystemClock):
    """Minutes pass in milliseconds for whoever sleeps."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 10_000)


def test_what_every_cluster_has_comes_back_when_it_is_deleted() -> None:
    async def run() -> None:
        clock = _HurriedClock()
        store = open_store("memory:", clock=SystemClock())
        server = ApiServer(store, clock=clock, randomness=SystemRandomness())
        await server.open()
        await server.publish_address("192.0.2.1", 6443)
        client = client_of(server)
        lost = (
            ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "exempt", ""),
            ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", "global-default", ""),
            ("v1", "Service", "kubernetes", "default"),
        )
        for api_version, kind_name, name, namespace in lost:
            kind = server.context.kinds.of_kind(api_version, kind_name)
            assert kind is not None
            assert kind.type is not None
            cache = server.context.objects.cache(kind)
            before = cache.get(namespace, name)
            assert before is not None
            await client.delete(kind.type, name, namespace)
            while (now := cache.get(namespace, name)) is None:
                await clock.sleep(1)
            assert now.uid != before.uid
        await server.close()

    asyncio.run(asyncio.wait_for(run(), 10))
