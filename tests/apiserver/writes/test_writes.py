"""Writes under concurrency: nothing is lost, no address is given out twice, and a dry run keeps nothing."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, rbac_v1
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from bayplan.client.client import JSON_PATCH
from tests.apiserver.serving import client_of, opened


def config_map(name: str = "", *, generate_name: str = "", **data: str) -> core_v1.ConfigMap:
    metadata = meta_v1.ObjectMeta(name=name, generate_name=generate_name, namespace="default")
    return core_v1.ConfigMap(metadata=metadata, data=data)


def service(name: str, kind: str = "ClusterIP", cluster_ip: str = "") -> core_v1.Service:
    spec = core_v1.ServiceSpec(type=kind, cluster_ip=cluster_ip, ports=(core_v1.ServicePort(port=80),))
    return core_v1.Service(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), spec=spec)


def test_two_hundred_concurrent_updates_of_one_object_lose_nothing() -> None:
    async def increment(client: Client) -> int:
        """Count up by one, again after each conflict. Returns the number of conflicts."""
        conflicts = 0
        while True:
            found = await client.get(core_v1.ConfigMap, "counter", "default")
            found.data = {"n": str(int(found.data["n"]) + 1)}
            await asyncio.sleep(0)
            try:
                await client.update(found)
                return conflicts
            except ApiError as error:
                if error.reason != "Conflict":
                    raise
                conflicts += 1

    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(config_map("counter", n="0"))
            conflicts = await asyncio.gather(*(increment(client) for _ in range(200)))
            assert (await client.get(core_v1.ConfigMap, "counter", "default")).data == {"n": "200"}
            assert sum(conflicts) > 0

    asyncio.run(run())


def test_concurrent_patches_without_a_revision_all_take_effect() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(config_map("a"))
            patches = ({"data": {f"k{index}": "v"}} for index in range(200))
            await asyncio.gather(*(client.patch(core_v1.ConfigMap, "a", "default", patch) for patch in patches))
            assert len((await client.get(core_v1.ConfigMap, "a", "default")).data) == 200

    asyncio.run(run())


def test_of_concurrent_creates_of_one_name_one_wins() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            results = await asyncio.gather(*(client.create(config_map("a")) for _ in range(20)), return_exceptions=True)
            errors = [result for result in results if isinstance(result, ApiError)]
            assert len(errors) == 19
            assert {error.reason for error in errors} == {"AlreadyExists"}

    asyncio.run(run())


def test_generated_names_are_all_different() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            made = await asyncio.gather(*(client.create(config_map(generate_name="g-")) for _ in range(300)))
            assert len({one.metadata.name for one in made}) == 300
            assert all(one.metadata.name.startswith("g-") and len(one.metadata.name) == 7 for one in made)

    asyncio.run(run())


def test_no_address_and_no_port_is_given_out_twice() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            made = await asyncio.gather(*(client.create(service(f"s{index}", "NodePort")) for index in range(200)))
            assert len({one.spec.cluster_ip for one in made}) == 200
            assert len({one.spec.ports[0].node_port for one in made}) == 200

    asyncio.run(run())


def test_addresses_come_back_when_a_service_goes_and_an_exhausted_range_says_so() -> None:
    async def run() -> None:
        async with opened(settings=ApiServerSettings(service_cluster_ip_range="10.0.0.0/29")) as api:
            client = client_of(api)
            names = [f"s{index}" for index in range(10)]
            made = await asyncio.gather(*(client.create(service(name)) for name in names), return_exceptions=True)
            errors = [one for one in made if isinstance(one, ApiError)]
            assert 4 <= len(errors) <= 6
            assert all("range is full" in error.message for error in errors)
            await client.delete(core_v1.Service, "s0", "default")
            await client.create(service("again"))

    asyncio.run(run())


def test_a_refused_or_dry_run_service_keeps_no_address() -> None:
    async def run() -> None:
        async with opened() as api:
            client, wanted = client_of(api), "10.0.0.77"
            with pytest.raises(ApiError):
                await client.create(service("Not-A-Name", cluster_ip=wanted))
            shown = await client.create(service("a", cluster_ip=wanted), dry_run=True)
            assert shown.spec.cluster_ip == wanted
            await client.create(service("a", cluster_ip=wanted))
            with pytest.raises(ApiError, match="already allocated"):
                await client.create(service("b", cluster_ip=wanted))

    asyncio.run(run())


def test_a_write_that_changes_nothing_keeps_the_revision() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            made = await client.create(config_map("a", x="1"))
            again = await client.patch(core_v1.ConfigMap, "a", "default", {"data": {"x": "1"}})
            assert again.metadata.resource_version == made.metadata.resource_version

    asyncio.run(run())


def test_a_failed_json_patch_test_changes_nothing() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(config_map("a", x="1"))
            patch = [
                {"op": "replace", "path": "/data/x", "value": "2"},
                {"op": "test", "path": "/data/x", "value": "3"},
            ]
            with pytest.raises(ApiError) as caught:
                await client.patch(core_v1.ConfigMap, "a", "default", patch, patch_type=JSON_PATCH)
            assert caught.value.code == 422
            assert (await client.get(core_v1.ConfigMap, "a", "default")).data == {"x": "1"}

    asyncio.run(run())


def test_an_owner_that_is_named_twice_is_kept_once() -> None:
    async def run() -> None:
        async with opened() as api:
            owner = meta_v1.OwnerReference(api_version="v1", kind="ConfigMap", name="o", uid="u")
            obj = config_map("a")
            obj.metadata.owner_references = (owner, owner)
            made = await client_of(api).create(obj)
            assert made.metadata.owner_references == (owner,)

    asyncio.run(run())


def test_a_generation_that_nobody_counts_is_kept() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            made = config_map("a")
            made.metadata.generation = 77
            assert (await client.create(made)).metadata.generation == 77

    asyncio.run(run())


def test_lists_that_were_never_made_are_null_and_read_as_empty() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(rbac_v1.Role(metadata=meta_v1.ObjectMeta(name="r", namespace="default")))
            shown = await client.raw("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/r")
            assert b'"rules":null' in shown
            assert (await client.get(rbac_v1.Role, "r", "default")).rules == ()

    asyncio.run(run())


def test_binding_leaves_the_object_before_it_as_it_was() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(
                core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default"))
            )
            containers = (core_v1.Container(name="c", image="i"),)
            pod = core_v1.Pod(
                metadata=meta_v1.ObjectMeta(name="p", namespace="default"), spec=core_v1.PodSpec(containers=containers)
            )
            made = await client.create(pod)
            kind = api.context.kinds.of_kind("v1", "Pod")
            assert kind is not None
            cache = api.context.objects.cache(kind)
            entry = cache.get("default", "p")
            assert entry is not None
            before = cache.shared(entry)
            await client.bind("default", "p", made.metadata.uid, "n")
            assert before == cache.decode(entry)
            after = await client.get(core_v1.Pod, "p", "default")
            assert after.spec.node_name == "n"
            now = cache.get("default", "p")
            assert now is not None
            assert cache.shared(now) == cache.decode(now)

    asyncio.run(run())
