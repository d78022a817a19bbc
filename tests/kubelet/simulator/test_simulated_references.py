"""Simulated pods wait for what they refer to: ConfigMaps, Secrets and claims."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import container, pod
from tests.client.transports import Spoiler

Case = Callable[[VirtualCluster], Awaitable[None]]
NODE = "node-1"


def play(case: Case, spoiler: Spoiler | None = None) -> None:
    async def main() -> None:
        spoil = spoiler.over if spoiler is not None else lambda sound: sound
        async with VirtualCluster(nodes=SimulatorSettings(nodes=1), transport=spoil) as cluster:
            await case(cluster)

    run(main())


def config_map(name: str, **data: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), data=data)


def secret(name: str, **data: str) -> core_v1.Secret:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return core_v1.Secret(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), data=encoded)


def from_config_map(name: str, key: str, optional: bool | None = None) -> core_v1.EnvVar:
    selector = core_v1.ConfigMapKeySelector(name=name, key=key, optional=optional)
    return core_v1.EnvVar(name="X", value_from=core_v1.EnvVarSource(config_map_key_ref=selector))


def all_of_secret(name: str, optional: bool | None = None) -> core_v1.EnvFromSource:
    return core_v1.EnvFromSource(secret_ref=core_v1.SecretEnvSource(name=name, optional=optional))


async def shown(cluster: VirtualCluster) -> core_v1.Pod:
    return await cluster.client.get(core_v1.Pod, "web", "default")


async def create(cluster: VirtualCluster, one: core_v1.Container, *volumes: core_v1.Volume) -> None:
    await cluster.client.create(pod("web", restart_policy="Always", node_name=NODE, containers=(one,), volumes=volumes))


async def runs(cluster: VirtualCluster) -> bool:
    return (await shown(cluster)).status.phase == "Running"


async def events(cluster: VirtualCluster, reason: str) -> list[core_v1.Event]:
    return [each for each in (await cluster.client.list(core_v1.Event, "default")).items if each.reason == reason]


@pytest.mark.parametrize(
    ("variables", "message", "objects"),
    [
        (
            {"env": (from_config_map("settings", "a"),)},
            'configmap "settings" not found',
            [config_map("settings", a="1")],
        ),
        ({"env_from": (all_of_secret("keys"),)}, 'secret "keys" not found', [secret("keys", a="1")]),
    ],
    ids=["a key of a ConfigMap", "all of a Secret"],
)
def test_a_container_waits_for_its_variables(variables: Any, message: str, objects: list[Any]) -> None:
    async def case(cluster: VirtualCluster) -> None:
        await create(cluster, container(**variables))
        await cluster.advance(seconds=5)
        one = await shown(cluster)
        waiting = one.status.container_statuses[0].state.waiting
        assert waiting == core_v1.ContainerStateWaiting(reason="CreateContainerConfigError", message=message)
        assert (one.status.phase, bool(one.status.pod_ip)) == ("Pending", True)
        [event] = await events(cluster, "Failed")
        assert (event.message, event.involved_object.field_path) == (f"Error: {message}", "spec.containers{main}")
        assert event.count == 1, "a look ahead of time tells nothing"
        for each in objects:
            await cluster.client.create(each)
        await cluster.eventually(lambda: runs(cluster), within=15)

    play(case)


def test_a_key_that_is_missing_is_named() -> None:
    async def case(cluster: VirtualCluster) -> None:
        await cluster.client.create(config_map("settings", b="1"))
        await create(cluster, container(env=(from_config_map("settings", "a"),)))
        await cluster.advance(seconds=5)
        waiting = (await shown(cluster)).status.container_statuses[0].state.waiting
        assert waiting is not None
        assert waiting.message == "couldn't find key a in ConfigMap default/settings"

    play(case)


def test_what_is_optional_is_not_waited_for() -> None:
    volume = core_v1.Volume(name="v", secret=core_v1.SecretVolumeSource(secret_name="keys", optional=True))

    async def case(cluster: VirtualCluster) -> None:
        one = container(
            env=(from_config_map("settings", "a", optional=True),),
            env_from=(all_of_secret("keys", optional=True),),
            volume_mounts=(core_v1.VolumeMount(name="v", mount_path="/v"),),
        )
        await create(cluster, one, volume)
        await cluster.advance(seconds=5)
        assert await runs(cluster)
        assert await events(cluster, "Failed") == await events(cluster, "FailedMount") == []

    play(case)


@pytest.mark.parametrize("by", ["settings", "annotation"])
def test_a_pod_starts_without_what_is_missing_where_that_is_wanted(by: str) -> None:
    volume = core_v1.Volume(name="v", secret=core_v1.SecretVolumeSource(secret_name="keys"))
    one = container(
        env=(from_config_map("settings", "a"),),
        env_from=(all_of_secret("keys"),),
        volume_mounts=(core_v1.VolumeMount(name="v", mount_path="/v"),),
    )
    annotations = {"bayplan.dev/missing-config": "ignore"} if by == "annotation" else {}

    async def main() -> None:
        policy = "ignore" if by == "settings" else "wait"
        async with VirtualCluster(nodes=SimulatorSettings(nodes=1, missing_config=policy)) as cluster:
            made = pod("web", restart_policy="Always", node_name=NODE, containers=(one,), volumes=(volume,))
            made.metadata.annotations = annotations
            await cluster.client.create(made)
            await cluster.advance(seconds=5)
            assert await runs(cluster)
            assert await events(cluster, "Failed") == await events(cluster, "FailedMount") == []

    run(main())


def test_an_annotation_makes_a_pod_wait_where_others_do_not() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=SimulatorSettings(nodes=1, missing_config="ignore")) as cluster:
            made = pod("web", node_name=NODE, containers=(container(env_from=(all_of_secret("keys"),)),))
            made.metadata.annotations = {"bayplan.dev/missing-config": "wait"}
            await cluster.client.create(made)
            await cluster.advance(seconds=5)
            assert not await runs(cluster)
            assert [one.message for one in await events(cluster, "Failed")] == ['Error: secret "keys" not found']

    run(main())


def test_a_claim_is_waited_for_in_any_case() -> None:
    source = core_v1.PersistentVolumeClaimVolumeSource(claim_name="data")
    one = container(volume_mounts=(core_v1.VolumeMount(name="v", mount_path="/v"),))

    async def main() -> None:
        async with VirtualCluster(nodes=SimulatorSettings(nodes=1, missing_config="ignore")) as cluster:
            await create(cluster, one, core_v1.Volume(name="v", persistent_volume_claim=source))
            await cluster.advance(seconds=5)
            assert not await runs(cluster)
            assert await events(cluster, "FailedMount")

    run(main())


VOLUMES = [
    pytest.param(
        core_v1.Volume(name="v", config_map=core_v1.ConfigMapVolumeSource(name="settings")),
        'MountVolume.SetUp failed for volume "v" : configmap "settings" not found',
        id="a ConfigMap",
    ),
    pytest.param(
        core_v1.Volume(
            name="v",
            projected=core_v1.ProjectedVolumeSource(
                sources=(core_v1.VolumeProjection(config_map=core_v1.ConfigMapProjection(name="settings")),)
            ),
        ),
        'MountVolume.SetUp failed for volume "v" : configmap "settings" not found',
        id="a projected ConfigMap",
    ),
]


@pytest.mark.parametrize(("volume", "message"), VOLUMES)
def test_a_pod_waits_for_its_volumes(volume: core_v1.Volume, message: str) -> None:
    async def case(cluster: VirtualCluster) -> None:
        await create(cluster, container(volume_mounts=(core_v1.VolumeMount(name="v", mount_path="/v"),)), volume)
        await cluster.advance(seconds=5)
        one = await shown(cluster)
        waiting = one.status.container_statuses[0].state.waiting
        assert waiting == core_v1.ContainerStateWaiting(reason="ContainerCreating")
        assert not one.status.pod_ip
        [event] = await events(cluster, "FailedMount")
        assert (event.message, event.type) == (message, "Warning")
        assert 3 <= (event.count or 0) <= 6, "after half a second, one, two, four"
        await cluster.client.create(config_map("settings", a="1"))
        await cluster.eventually(lambda: runs(cluster), within=20)

    play(case)


def test_a_pod_waits_for_a_claim_that_is_not_bound() -> None:
    source = core_v1.PersistentVolumeClaimVolumeSource(claim_name="data")
    volume = core_v1.Volume(name="v", persistent_volume_claim=source)

    async def case(cluster: VirtualCluster) -> None:
        await create(cluster, container(volume_mounts=(core_v1.VolumeMount(name="v", mount_path="/v"),)), volume)
        await cluster.advance(seconds=5)
        assert (await shown(cluster)).status.phase == "Pending"
        [event] = await events(cluster, "FailedMount")
        assert event.message == (
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process "
            "volumes=[v]: error processing PVC default/data: failed to fetch PVC from API server: "
            'persistentvolumeclaims "data" not found'
        )

    play(case)


def test_pods_that_refer_to_nothing_cost_no_requests() -> None:
    refused = ApiError(meta_v1.Status(status="Failure", code=500, reason="InternalError", message="not expected"))
    spoiler = Spoiler("GET", "/configmaps/kube-root-ca.crt", refused)

    async def case(cluster: VirtualCluster) -> None:
        await create(cluster, container(volume_mounts=(core_v1.VolumeMount(name="v", mount_path="/v"),)), token())
        await cluster.eventually(lambda: runs(cluster), within=5)
        assert spoiler.seen == 0

    play(case, spoiler)


def token() -> core_v1.Volume:
    """The volume that the ServiceAccount admission gives every pod."""
    sources = (
        core_v1.VolumeProjection(service_account_token=core_v1.ServiceAccountTokenProjection(path="token")),
        core_v1.VolumeProjection(config_map=core_v1.ConfigMapProjection(name="kube-root-ca.crt")),
    )
    return core_v1.Volume(name="v", projected=core_v1.ProjectedVolumeSource(sources=sources))
