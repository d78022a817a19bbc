"""ResourceQuota."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from tests.apiserver.admission.running import container, named, pod, run


async def quota(client: Client, name: str = "rq", hard: dict[str, Any] | None = None, **spec: Any) -> None:
    """A quota whose status says that nothing is used yet."""
    made = await client.create(
        core_v1.ResourceQuota(metadata=named(name), spec=core_v1.ResourceQuotaSpec(hard=hard or {}, **spec))
    )
    status = core_v1.ResourceQuotaStatus(hard=made.spec.hard, used=dict.fromkeys(made.spec.hard, "0"))
    await client.update_status(msgspec.structs.replace(made, status=status))


async def used(client: Client, name: str = "rq") -> dict[str, Any]:
    return dict((await client.get(core_v1.ResourceQuota, name, "default")).status.used)


def config_map(name: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=named(name))


def test_two_hundred_creates_at_once_do_not_exceed_the_quota() -> None:
    async def case(client: Client) -> None:
        await quota(client, hard={"count/configmaps": "50"})
        answers = await asyncio.gather(
            *(client.create(config_map(f"c{index}")) for index in range(200)), return_exceptions=True
        )
        made = [one for one in answers if isinstance(one, core_v1.ConfigMap)]
        refused = [one for one in answers if isinstance(one, ApiError)]
        assert (len(made), len(refused)) == (50, 150)
        assert {error.code for error in refused} == {403}
        assert len((await client.list(core_v1.ConfigMap, "default")).items) == 50
        assert await used(client) == {"count/configmaps": "50"}

    run(case)


def test_a_quota_changed_by_somebody_else_meanwhile_is_checked_again() -> None:
    async def case(client: Client) -> None:
        await quota(client, hard={"count/configmaps": "10"})

        async def touch(index: int) -> None:
            patch = msgspec.json.encode({"metadata": {"labels": {"n": str(index)}}})
            path = "/api/v1/namespaces/default/resourcequotas/rq"
            await client.raw("PATCH", path, body=patch, content_type="application/merge-patch+json")

        creates = [client.create(config_map(f"c{index}")) for index in range(20)]
        answers = await asyncio.gather(*creates, *(touch(index) for index in range(20)), return_exceptions=True)
        assert sum(isinstance(one, core_v1.ConfigMap) for one in answers) == 10
        assert await used(client) == {"count/configmaps": "10"}

    run(case)


def test_an_exceeded_quota_says_what_was_asked_used_and_allowed() -> None:
    async def case(client: Client) -> None:
        await quota(client, hard={"pods": "2", "requests.cpu": "1"})
        asking = container(resources={"requests": {"cpu": "600m"}})
        await client.create(pod("a", containers=(asking,)))
        message = "exceeded quota: rq, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"
        with pytest.raises(ApiError, match=message):
            await client.create(pod("b", containers=(asking,)))

    run(case)


def test_a_pod_must_say_what_the_quota_counts() -> None:
    async def case(client: Client) -> None:
        await quota(client, hard={"limits.memory": "1Gi", "requests.cpu": "1"})
        with pytest.raises(
            ApiError, match=r"failed quota: rq: must specify limits.memory for: c,d; requests.cpu for: c"
        ):
            await client.create(pod(containers=(container("c"), container("d", resources={"requests": {"cpu": "1m"}}))))

    run(case)


def test_sidecars_and_overlapping_init_containers_count_as_the_largest_moment() -> None:
    async def case(client: Client) -> None:
        await quota(client, hard={"requests.cpu": "10"})
        sidecar = container("s", restart_policy="Always", resources={"requests": {"cpu": "1"}})
        init = container("i", resources={"requests": {"cpu": "3"}})
        await client.create(
            pod(init_containers=(sidecar, init), containers=(container(resources={"requests": {"cpu": "2"}}),))
        )
        assert await used(client) == {"requests.cpu": "4"}

    run(case)


def test_a_dry_run_is_checked_and_charges_nothing() -> None:
    async def case(client: Client) -> None:
        await quota(client, hard={"count/configmaps": "1"})
        await client.create(config_map("a"), dry_run=True)
        assert await used(client) == {"count/configmaps": "0"}
        await client.create(config_map("a"))
        with pytest.raises(ApiError, match="exceeded quota"):
            await client.create(config_map("b"), dry_run=True)

    run(case)


def test_a_quota_without_status_limits_nothing() -> None:
    async def case(client: Client) -> None:
        spec = core_v1.ResourceQuotaSpec(hard={"configmaps": "0"})
        await client.create(core_v1.ResourceQuota(metadata=named("rq"), spec=spec))
        made = await client.create(config_map("a"))
        assert await client.get(core_v1.ConfigMap, "a", namespace="default") == made
        assert await used(client) == {}

    run(case)


def test_a_quota_with_limits_but_no_usage_yet_lets_nothing_pass() -> None:
    async def case(client: Client) -> None:
        spec = core_v1.ResourceQuotaSpec(hard={"configmaps": "5"})
        made = await client.create(core_v1.ResourceQuota(metadata=named("rq"), spec=spec))
        status = core_v1.ResourceQuotaStatus(hard={"configmaps": "5"})
        await client.update_status(msgspec.structs.replace(made, status=status))
        with pytest.raises(ApiError, match="status unknown for quota: rq, resources: configmaps"):
            await client.create(config_map("a"))

    run(case)


def test_an_update_is_charged_for_what_it_adds() -> None:
    async def case(client: Client) -> None:
        await quota(client, hard={"services.nodeports": "2"})
        ports = (core_v1.ServicePort(port=80),)
        service = core_v1.Service(metadata=named("s"), spec=core_v1.ServiceSpec(ports=ports))
        made = await client.create(service)
        assert await used(client) == {"services.nodeports": "0"}
        more = (core_v1.ServicePort(name="a", port=80), core_v1.ServicePort(name="b", port=81))
        spec = msgspec.structs.replace(made.spec, type="NodePort", ports=more)
        made = await client.update(msgspec.structs.replace(made, spec=spec))
        assert await used(client) == {"services.nodeports": "2"}
        spec = msgspec.structs.replace(made.spec, ports=(*made.spec.ports, core_v1.ServicePort(name="c", port=82)))
        with pytest.raises(ApiError, match=r"exceeded quota: rq, requested: services.nodeports=1"):
            await client.update(msgspec.structs.replace(made, spec=spec))

    run(case)


def test_a_resize_is_charged() -> None:
    async def case(client: Client) -> None:
        await quota(client, hard={"requests.cpu": "1"})
        await client.create(pod(containers=(container(resources={"requests": {"cpu": "500m"}}),)))

        async def resize(cpu: str) -> None:
            patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
            await client.raw(
                "PATCH",
                "/api/v1/namespaces/default/pods/p/resize",
                body=msgspec.json.encode(patch),
                content_type="application/strategic-merge-patch+json",
            )

        await resize("800m")
        assert await used(client) == {"requests.cpu": "800m"}
        with pytest.raises(ApiError, match=r"exceeded quota: rq, requested: requests.cpu=400m"):
            await resize("1200m")

    run(case)


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("BestEffort", pod(), pod(containers=(container(resources={"requests": {"cpu": "1m"}}),))),
        ("NotBestEffort", pod(containers=(container(resources={"requests": {"cpu": "1m"}}),)), pod()),
        ("Terminating", pod(active_deadline_seconds=5), pod()),
        ("NotTerminating", pod(), pod(active_deadline_seconds=5)),
    ],
)
def test_scopes_narrow_what_is_counted(scope: str, inside: core_v1.Pod, outside: core_v1.Pod) -> None:
    async def case(client: Client) -> None:
        await quota(client, hard={"pods": "0"}, scopes=(scope,))
        await client.create(outside)
        with pytest.raises(ApiError, match="exceeded quota: rq, requested: pods=1, used: pods=0, limited: pods=0"):
            await client.create(inside)

    run(case)


def test_storage_is_counted_per_class_too() -> None:
    async def case(client: Client) -> None:
        per_class = "gold.storageclass.storage.k8s.io/requests.storage"
        await quota(client, hard={"requests.storage": "10Gi", per_class: "2Gi"})

        def claim(name: str, storage_class: str) -> core_v1.PersistentVolumeClaim:
            resources = core_v1.VolumeResourceRequirements(requests={"storage": "2Gi"})
            spec = core_v1.PersistentVolumeClaimSpec(
                access_modes=("ReadWriteOnce",), resources=resources, storage_class_name=storage_class
            )
            return core_v1.PersistentVolumeClaim(metadata=named(name), spec=spec)

        await client.create(claim("a", "gold"))
        await client.create(claim("b", "silver"))
        assert await used(client) == {"requests.storage": "4Gi", per_class: "2Gi"}
        with pytest.raises(ApiError, match=f"requested: {per_class}=2Gi"):
            await client.create(claim("c", "gold"))

    run(case)


def test_a_pod_that_gets_a_deadline_is_charged_where_it_comes_to() -> None:
    async def case(client: Client) -> None:
        await quota(client, "short", {"pods": "1"}, scopes=("Terminating",))
        await quota(client, "long", {"pods": "2"}, scopes=("NotTerminating",))
        made = await client.create(pod("a"))
        assert (await used(client, "short"), await used(client, "long")) == ({"pods": "0"}, {"pods": "1"})
        made.spec.active_deadline_seconds = 60
        await client.update(made)
        assert await used(client, "short") == {"pods": "1"}
        with pytest.raises(ApiError, match="exceeded quota: short, requested: pods=1, used: pods=1, limited: pods=1"):
            await client.create(pod("b", active_deadline_seconds=60))
        other = await client.create(pod("c"))
        other.spec.active_deadline_seconds = 60
        with pytest.raises(ApiError, match="exceeded quota: short"):
            await client.update(other)

    run(case)
