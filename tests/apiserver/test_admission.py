"""Admission plugins, each through the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, scheduling_v1, storage_v1
from bayplan.apiserver.admission.chain import build_chain
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from tests.apiserver.serving import client_of, opened


def run(case: Callable[[Client], Awaitable[None]], *, disabled: tuple[str, ...] = ()) -> None:
    """Run a case against a fresh server with the service account `default`."""

    async def inner() -> None:
        async with opened(settings=ApiServerSettings(disable_admission_plugins=disabled)) as api:
            client = client_of(api)
            account = core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default"))
            await client.create(account)
            await case(client)

    asyncio.run(inner())


def pod(name: str = "p", **spec: object) -> core_v1.Pod:
    containers = (core_v1.Container(name="c", image="x"),)
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name=name, namespace="default"),
        spec=core_v1.PodSpec(containers=containers, **spec),  # type: ignore[arg-type]
    )


def priority_class(name: str, value: int, *, default: bool = False) -> scheduling_v1.PriorityClass:
    return scheduling_v1.PriorityClass(metadata=meta_v1.ObjectMeta(name=name), value=value, global_default=default)


def test_nothing_is_created_in_a_namespace_that_does_not_exist() -> None:
    async def case(client: Client) -> None:
        with pytest.raises(ApiError, match='namespaces "absent" not found') as caught:
            await client.create(core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="a", namespace="absent")))
        assert caught.value.code == 404

    run(case)


def test_a_pod_gets_account_token_priority_and_tolerations() -> None:
    async def case(client: Client) -> None:
        made = await client.create(pod())
        spec = made.spec
        assert (spec.service_account_name, spec.priority, spec.preemption_policy) == (
            "default",
            0,
            "PreemptLowerPriority",
        )
        assert [volume.name for volume in spec.volumes if volume.projected is not None]
        assert spec.containers[0].volume_mounts[0].mount_path == "/var/run/secrets/kubernetes.io/serviceaccount"
        tolerated = {(one.key, one.effect, one.toleration_seconds) for one in spec.tolerations}
        assert tolerated == {
            ("node.kubernetes.io/not-ready", "NoExecute", 300),
            ("node.kubernetes.io/unreachable", "NoExecute", 300),
        }

    run(case)


def test_a_pod_without_the_token_has_no_volume() -> None:
    async def case(client: Client) -> None:
        assert (await client.create(pod(automount_service_account_token=False))).spec.volumes == ()

    run(case)


def test_a_priority_class_decides_the_priority() -> None:
    async def case(client: Client) -> None:
        await client.create(priority_class("high", 1000))
        assert (await client.create(pod(priority_class_name="high"))).spec.priority == 1000
        with pytest.raises(ApiError, match="no PriorityClass with name absent was found"):
            await client.create(pod("q", priority_class_name="absent"))
        with pytest.raises(ApiError, match="must not be provided in pod spec"):
            await client.create(pod("q", priority_class_name="high", priority=5))

    run(case)


def test_there_is_one_global_default_class() -> None:
    async def case(client: Client) -> None:
        await client.create(priority_class("usual", 7, default=True))
        made = await client.create(pod())
        assert (made.spec.priority, made.spec.priority_class_name) == (7, "usual")
        with pytest.raises(ApiError, match="already marked as default"):
            await client.create(priority_class("other", 8, default=True))

    run(case)


def test_a_new_node_takes_no_pods_yet() -> None:
    async def case(client: Client) -> None:
        made = await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="n")))
        assert [(taint.key, taint.effect) for taint in made.spec.taints] == [
            ("node.kubernetes.io/not-ready", "NoSchedule")
        ]

    run(case)


def test_storage_is_protected_by_a_finalizer() -> None:
    async def case(client: Client) -> None:
        spec = core_v1.PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",), resources=core_v1.VolumeResourceRequirements(requests={"storage": "1Gi"})
        )
        metadata = meta_v1.ObjectMeta(name="c", namespace="default")
        claim = await client.create(core_v1.PersistentVolumeClaim(metadata=metadata, spec=spec))
        assert claim.metadata.finalizers == ("kubernetes.io/pvc-protection",)
        attributes = storage_v1.VolumeAttributesClass(
            metadata=meta_v1.ObjectMeta(name="v"), driver_name="d", parameters={"a": "b"}
        )
        assert (await client.create(attributes)).metadata.finalizers == ("kubernetes.io/vac-protection",)

    run(case)


def test_a_plugin_can_be_switched_off() -> None:
    async def case(client: Client) -> None:
        assert (await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="n")))).spec.taints == ()

    run(case, disabled=("TaintNodesByCondition",))


def test_an_unknown_plugin_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown admission plugin 'Nosuch'; known: .*Priority"):
        build_chain(("Nosuch",), ())
