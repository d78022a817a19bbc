"""Deletions: finalizers hold objects back, pods are given time, namespaces go last."""

from __future__ import annotations

import asyncio
import tempfile

import msgspec
import pytest

from bayplan.api.codec import encode
from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import apps_v1, batch_v1, core_v1, meta_v1, policy_v1
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Request
from bayplan.client import Client
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import ADMIN, client_of, opened


async def pod(client: Client, name: str = "p", *, node_name: str = "n1", grace: int = 30) -> core_v1.Pod:
    metadata = meta_v1.ObjectMeta(name="default", namespace="default")
    await client.create(core_v1.ServiceAccount(metadata=metadata))
    spec = core_v1.PodSpec(
        node_name=node_name,
        termination_grace_period_seconds=grace,
        containers=(core_v1.Container(name="c", image="x"),),
    )
    return await client.create(core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), spec=spec))


async def is_gone(client: Client, cls: type, name: str, namespace: str = "default") -> bool:
    try:
        await client.get(cls, name, namespace)
    except ApiError as error:
        return error.code == 404
    return False


def test_a_pod_on_a_node_is_given_its_time_which_only_becomes_shorter() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await pod(client, grace=30)
            for wanted, expected in ((None, 30), (60, 30), (7, 7)):
                await client.delete(core_v1.Pod, "p", "default", grace_period_seconds=wanted)
                found = await client.get(core_v1.Pod, "p", "default")
                assert found.metadata.deletion_grace_period_seconds == expected
            await client.delete(core_v1.Pod, "p", "default", grace_period_seconds=0)
            assert await is_gone(client, core_v1.Pod, "p")

    asyncio.run(run())


@pytest.mark.parametrize("by_eviction", [False, True])
def test_a_pod_that_its_kubelet_removes_once_it_is_marked_was_deleted(
    by_eviction: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            made = await pod(client, grace=0)
            status = {"phase": "Running"}
            await client.patch(core_v1.Pod, "p", "default", {"status": status}, subresource="status")
            remove, names = api.context.objects.remove, []

            async def removed_by_another_first(kind: Kind, entry: Entry) -> int:
                names.append(entry.name)
                await remove(kind, entry)
                return await remove(kind, entry)

            monkeypatch.setattr(api.context.objects, "remove", removed_by_another_first)
            if by_eviction:
                metadata = meta_v1.ObjectMeta(name="p", namespace="default")
                path = "/api/v1/namespaces/default/pods/p/eviction"
                await client.raw("POST", path, {}, encode(policy_v1.Eviction(metadata=metadata)))
            else:
                body = await client.raw("DELETE", "/api/v1/namespaces/default/pods/p")
                assert msgspec.json.decode(body)["metadata"]["uid"] == made.metadata.uid
            assert names == ["p"]
            assert await is_gone(client, core_v1.Pod, "p")

    asyncio.run(run())


def test_a_config_map_that_another_client_removes_first_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="c", namespace="default")))
            remove = api.context.objects.remove

            async def removed_by_another_first(kind: Kind, entry: Entry) -> int:
                await remove(kind, entry)
                return await remove(kind, entry)

            monkeypatch.setattr(api.context.objects, "remove", removed_by_another_first)
            with pytest.raises(ApiError) as refused:
                await client.delete(core_v1.ConfigMap, "c", "default")
            assert refused.value.code == 404

    asyncio.run(run())


def test_a_pod_on_no_node_goes_at_once_and_watchers_see_it_marked_first() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            made = await pod(client, node_name="")
            stream = await client.watch(core_v1.Pod, "default", resource_version=made.metadata.resource_version)
            await client.delete(core_v1.Pod, "p", "default")
            assert [event for event, _ in await stream.next_batch()] == ["MODIFIED", "DELETED"]
            stream.close()

    asyncio.run(run())


def test_finalizers_hold_an_object_back_until_the_last_is_taken_away() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            metadata = meta_v1.ObjectMeta(name="a", namespace="default", finalizers=("a.b/1", "a.b/2"))
            await client.create(core_v1.ConfigMap(metadata=metadata))
            await client.delete(core_v1.ConfigMap, "a", "default")
            marked = await client.get(core_v1.ConfigMap, "a", "default")
            assert marked.metadata.deletion_timestamp
            patch = {"metadata": {"finalizers": ["a.b/1", "a.b/2", "a.b/3"]}}
            with pytest.raises(ApiError, match="no new finalizers can be added"):
                await client.patch(core_v1.ConfigMap, "a", "default", patch)
            await client.patch(core_v1.ConfigMap, "a", "default", {"metadata": {"finalizers": ["a.b/2"]}})
            assert not await is_gone(client, core_v1.ConfigMap, "a")
            await client.patch(core_v1.ConfigMap, "a", "default", {"metadata": {"finalizers": None}})
            assert await is_gone(client, core_v1.ConfigMap, "a")

    asyncio.run(run())


def deployment() -> apps_v1.Deployment:
    template = core_v1.PodTemplateSpec(
        metadata=meta_v1.ObjectMeta(labels={"a": "b"}),
        spec=core_v1.PodSpec(containers=(core_v1.Container(name="c", image="x"),)),
    )
    spec = apps_v1.DeploymentSpec(selector=meta_v1.LabelSelector(match_labels={"a": "b"}), template=template)
    return apps_v1.Deployment(metadata=meta_v1.ObjectMeta(name="d", namespace="default"), spec=spec)


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [("Foreground", ("foregroundDeletion",)), ("Orphan", ("orphan",)), ("Background", None), (None, None)],
)
def test_the_propagation_policy_becomes_a_finalizer(policy: str | None, finalizers: tuple[str, ...] | None) -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(deployment())
            await client.delete(apps_v1.Deployment, "d", "default", propagation_policy=policy)
            if finalizers is None:
                assert await is_gone(client, apps_v1.Deployment, "d")
            else:
                assert (await client.get(apps_v1.Deployment, "d", "default")).metadata.finalizers == finalizers

    asyncio.run(run())


@pytest.mark.parametrize(
    ("before", "policy", "after"),
    [
        (("orphan", "a.b/c"), "Orphan", ("orphan", "a.b/c")),
        (("foregroundDeletion", "a.b/c"), "Orphan", ("a.b/c", "orphan")),
        (("orphan",), "Background", None),
    ],
)
def test_finalizers_keep_their_places_if_there_are_no_others_than_before(
    before: tuple[str, ...], policy: str, after: tuple[str, ...] | None
) -> None:
    """What has gone is shown as it was."""

    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            metadata = meta_v1.ObjectMeta(name="m", namespace="default", finalizers=before)
            await client.create(core_v1.ConfigMap(metadata=metadata))
            body = msgspec.json.encode({"propagationPolicy": policy})
            path = "/api/v1/namespaces/default/configmaps/m"
            answer = await api.handle(Request("DELETE", path, {}, ADMIN, body, "application/json"))
            shown = msgspec.json.decode(answer.body)
            if after is None:
                assert shown["status"] == "Success"
                assert await is_gone(client, core_v1.ConfigMap, "m")
            else:
                assert tuple(shown["metadata"]["finalizers"]) == after

    asyncio.run(run())


def test_an_object_that_has_gone_is_shown_as_it_was() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            metadata = meta_v1.ObjectMeta(name="q", namespace="default", finalizers=("orphan",))
            await client.create(core_v1.ResourceQuota(metadata=metadata))
            path = "/api/v1/namespaces/default/resourcequotas/q"
            body = b'{"propagationPolicy":"Background"}'
            answer = await api.handle(Request("DELETE", path, {}, ADMIN, body, "application/json"))
            assert msgspec.json.decode(answer.body)["metadata"]["finalizers"] == ["orphan"]
            assert await is_gone(client, core_v1.ResourceQuota, "q")

    asyncio.run(run())


def test_jobs_orphan_their_pods_unless_told_otherwise() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            spec = core_v1.PodSpec(restart_policy="Never", containers=(core_v1.Container(name="c", image="x"),))
            job = batch_v1.Job(
                metadata=meta_v1.ObjectMeta(name="j", namespace="default"),
                spec=batch_v1.JobSpec(template=core_v1.PodTemplateSpec(spec=spec)),
            )
            await client.create(job)
            await client.delete(batch_v1.Job, "j", "default")
            assert (await client.get(batch_v1.Job, "j", "default")).metadata.finalizers == ("orphan",)

    asyncio.run(run())


def test_a_namespace_terminates_and_takes_nothing_new_until_it_is_finalized() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="n")))
            await client.delete(core_v1.Namespace, "n")
            namespace = await client.get(core_v1.Namespace, "n")
            assert namespace.status.phase == "Terminating"
            with pytest.raises(ApiError, match="because it is being terminated") as caught:
                await client.create(core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="a", namespace="n")))
            assert caught.value.code == 403
            await client.patch(core_v1.Namespace, "n", "", {"metadata": {"labels": {"still": "there"}}})
            namespace = await client.get(core_v1.Namespace, "n")
            namespace.spec.finalizers = ()
            await client.finalize_namespace(namespace)
            assert await is_gone(client, core_v1.Namespace, "n", "")

    asyncio.run(run())


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_the_namespaces_of_the_system_stay(name: str) -> None:
    async def run() -> None:
        async with opened() as api:
            with pytest.raises(ApiError, match="this namespace may not be deleted"):
                await client_of(api).delete(core_v1.Namespace, name)

    asyncio.run(run())


def test_a_collection_is_deleted_by_selector() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
                metadata = meta_v1.ObjectMeta(name=name, namespace="default", labels={"colour": colour})
                await client.create(core_v1.ConfigMap(metadata=metadata))
            await client.raw("DELETE", "/api/v1/namespaces/default/configmaps", {"labelSelector": "colour=red"})
            left = await client.list(core_v1.ConfigMap, "default")
            assert [item.metadata.name for item in left.items] == ["b"]

    asyncio.run(run())


def test_a_collection_goes_whoever_deletes_at_the_same_time() -> None:
    async def run() -> None:
        async with opened(open_store(f"sqlite:{directory}/store.db", clock=SystemClock())) as api:
            client = client_of(api)
            names = [f"c-{number:03d}" for number in range(150)]
            made = [core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=name, namespace="default")) for name in names]
            await asyncio.gather(*map(client.create, made))
            path = "/api/v1/namespaces/default/configmaps"
            results = await asyncio.gather(
                client.raw("DELETE", path),
                *(client.delete(core_v1.ConfigMap, name, "default") for name in names[::3]),
                return_exceptions=True,
            )
            assert not isinstance(results[0], BaseException)
            assert {one.code for one in results if isinstance(one, ApiError)} <= {404}
            assert not {one.metadata.name for one in (await client.list(core_v1.ConfigMap, "default")).items} & {*names}

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run())


def test_objects_of_a_collection_are_committed_together() -> None:
    """A thousand objects, one after the other, would take as many commits."""

    async def run() -> None:
        async with opened(open_store(f"sqlite:{directory}/store.db", clock=SystemClock())) as api:
            client = client_of(api)
            made = [
                core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=f"c-{n}", namespace="default")) for n in range(640)
            ]
            await asyncio.gather(*map(client.create, made))
            revision = (await client.list(core_v1.ConfigMap, "default")).resource_version
            stream = await client.watch(core_v1.ConfigMap, "default", resource_version=revision)
            deleting = asyncio.create_task(client.raw("DELETE", "/api/v1/namespaces/default/configmaps"))
            sizes: list[int] = []
            while sum(sizes) < 640:
                sizes.append(len(await stream.next_batch()))
            await deleting
            stream.close()
            assert len(sizes) <= 64  # ten batches of 64, each in a few commits

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run())
