"""A kubelet follows what its pods refer to, object by object."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bayplan.api.types import core_v1
from bayplan.apiserver.requests import User
from bayplan.client import Client
from bayplan.kubelet.api_objects import ApiObjects
from bayplan.kubelet.objects import ObjectError, ObjectNotFoundError
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SeededRandomness
from bayplan.testing.builders import container, metadata, pod
from tests.apiserver.serving import AS_RECORDED, client_of, opened
from tests.client.doors import IN_PROCESS, door

Case = Callable[["Node"], Awaitable[None]]


class Node:
    """The objects of a node, and the paths that it asked for."""

    def __init__(self, client: Client, watchers: Callable[[], int]) -> None:
        """watchers: how many watch the server's config maps."""
        self.client = client
        self.watchers = watchers
        self.asked: list[str] = []
        self.changed: list[str] = []
        self._watch, self._request = client.transport.watch, client.transport.request
        client.transport.watch = self._watched  # type: ignore[method-assign]
        client.transport.request = self._requested  # type: ignore[method-assign]
        self.objects = ApiObjects(client, SystemClock(), SeededRandomness(1))
        self.objects.on_change(self.changed.append)

    async def _watched(self, kind, path, query, read):  # type: ignore[no-untyped-def]
        self.asked.append(f"watch {path} {query.get('fieldSelector', '')}")
        return await self._watch(kind, path, query, read)

    async def _requested(self, method, path, query, *rest, **more):  # type: ignore[no-untyped-def]
        self.asked.append(f"{method} {path} {query.get('fieldSelector', '')}")
        return await self._request(method, path, query, *rest, **more)


def run(case: Case) -> None:
    async def inner() -> None:
        async with asyncio.timeout(30), door(IN_PROCESS) as server:
            caches = server.api.context.objects
            kind = server.client.kinds.of_type(core_v1.ConfigMap)
            others = len(caches.cache(kind).watchers)
            node = Node(server.client, lambda: len(caches.cache(kind).watchers) - others)
            try:
                await case(node)
            finally:
                await node.objects.close()

    asyncio.run(inner())


async def eventually(condition: Callable[[], bool]) -> None:
    """Return when something holds that another task sees to; the case has a time limit."""
    while not condition():  # noqa: ASYNC110 - nobody says when
        await asyncio.sleep(0)


def config_map(name: str, *, immutable: bool | None = None, **data: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=metadata(name, "default"), data=data, immutable=immutable)


def user(uid: str, *, volume: str = "", env: str = "", secret: str = "") -> core_v1.Pod:
    """A pod that uses a config map as a volume or variables, or a secret to pull."""
    volumes = (core_v1.Volume(name="v", config_map=core_v1.ConfigMapVolumeSource(name=volume)),) if volume else ()
    source = core_v1.EnvFromSource(config_map_ref=core_v1.ConfigMapEnvSource(name=env))
    main = container(env_from=(source,) if env else ())
    secrets = (core_v1.LocalObjectReference(name=secret),) if secret else ()
    return pod("p", meta={"uid": uid}, volumes=volumes, containers=(main,), image_pull_secrets=secrets)


def test_objects_are_read_by_name_only() -> None:
    async def case(node: Node) -> None:
        await node.client.create(config_map("c", a="1"))
        node.asked.clear()
        node.objects.register(user("u", volume="c", secret="s"))
        assert (await node.objects.config_map("default", "c")).data == {"a": "1"}
        with pytest.raises(ObjectNotFoundError, match=r'^secret "s" not found$'):
            await node.objects.secret("default", "s")
        await eventually(lambda: len(node.asked) == 4)
        assert sorted(node.asked) == [
            "GET /api/v1/namespaces/default/configmaps metadata.name=c",
            "GET /api/v1/namespaces/default/secrets metadata.name=s",
            "watch /api/v1/namespaces/default/configmaps metadata.name=c",
            "watch /api/v1/namespaces/default/secrets metadata.name=s",
        ]

    run(case)


def test_what_nobody_registered_is_not_read() -> None:
    async def case(node: Node) -> None:
        await node.client.create(config_map("c"))
        with pytest.raises(ObjectError, match=r'^object "default"/"c" not registered$'):
            await node.objects.config_map("default", "c")
        node.objects.register(user("u", volume="c"))
        await node.objects.config_map("default", "c")
        node.objects.unregister("u")
        with pytest.raises(ObjectError, match="not registered"):
            await node.objects.config_map("default", "c")

    run(case)


def test_changes_are_told_to_the_pods_that_use_the_object() -> None:
    async def case(node: Node) -> None:
        await node.client.create(config_map("c", a="1"))
        await node.client.create(config_map("d", a="1"))
        node.objects.register(user("u1", volume="c"))
        node.objects.register(user("u2", env="c"))
        node.objects.register(user("u3", env="d"))
        await node.objects.config_map("default", "c")
        await node.objects.config_map("default", "d")
        await eventually(lambda: sum(each.startswith("watch") for each in node.asked) == 2)
        node.changed.clear()
        await node.client.patch(core_v1.ConfigMap, "c", "default", {"data": {"a": "2"}})
        await eventually(lambda: len(node.changed) >= 2)
        assert node.changed == ["u1", "u2"]
        assert (await node.objects.config_map("default", "c")).data == {"a": "2"}
        node.changed.clear()
        await node.client.delete(core_v1.ConfigMap, "c", "default")
        await eventually(lambda: len(node.changed) >= 2)
        with pytest.raises(ObjectNotFoundError):
            await node.objects.config_map("default", "c")

    run(case)


def test_an_object_is_followed_until_the_last_pod_has_gone() -> None:
    async def case(node: Node) -> None:
        await node.client.create(config_map("c", a="1"))
        node.objects.register(user("u1", volume="c"))
        node.objects.register(user("u2", volume="c"))
        node.objects.unregister("u1")
        node.objects.unregister("u1")
        assert (await node.objects.config_map("default", "c")).data == {"a": "1"}
        node.objects.register(user("u2", volume="d"))
        await eventually(lambda: node.watchers() == 1)
        with pytest.raises(ObjectError, match="not registered"):
            await node.objects.config_map("default", "c")

    run(case)


def test_what_never_changes_is_read_once() -> None:
    async def case(node: Node) -> None:
        await node.client.create(config_map("c", a="1", immutable=True))
        await node.client.create(config_map("d"))
        node.objects.register(user("u", volume="c"))
        node.objects.register(user("v", volume="d"))
        assert (await node.objects.config_map("default", "c")).data == {"a": "1"}
        await eventually(lambda: node.watchers() == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert node.watchers() == 1, "the one that never changes is watched as well"
        assert (await node.objects.config_map("default", "c")).data == {"a": "1"}

    run(case)


def test_a_server_that_does_not_answer_is_waited_for_no_longer_than_a_second() -> None:
    async def case(node: Node) -> None:
        async def hang(*_: object, **__: object) -> bytes:
            await asyncio.Event().wait()
            raise AssertionError("nothing sets it")

        node.client.transport.request = hang  # type: ignore[method-assign]
        node.objects.register(user("u", volume="c"))
        before = asyncio.get_running_loop().time()
        with pytest.raises(ObjectError) as error:
            await node.objects.config_map("default", "c")
        assert str(error.value) == "failed to sync configmap cache: timed out waiting for the condition"
        assert 0.9 < asyncio.get_running_loop().time() - before < 10

    run(case)


def test_claims_and_volumes_are_as_the_server_has_them_now() -> None:
    async def case(node: Node) -> None:
        with pytest.raises(ObjectNotFoundError, match=r'^persistentvolumeclaims "c" not found$'):
            await node.objects.claim("default", "c")
        with pytest.raises(ObjectNotFoundError, match=r'^persistentvolumes "v" not found$'):
            await node.objects.volume("v")
        claim = core_v1.PersistentVolumeClaim(
            metadata=metadata("c", "default"),
            spec=core_v1.PersistentVolumeClaimSpec(
                access_modes=("ReadWriteOnce",),
                resources=core_v1.VolumeResourceRequirements(requests={"storage": "1Gi"}),
            ),
        )
        await node.client.create(claim)
        assert (await node.objects.claim("default", "c")).metadata.name == "c"

    run(case)


def test_a_token_is_the_pods_own() -> None:
    async def case(node: Node) -> None:
        with pytest.raises(ObjectError, match=r'^failed to fetch token: serviceaccounts "missing" not found$'):
            await node.objects.token(pod("p", meta={"uid": "u"}, service_account_name="missing"), "", None)

    run(case)


def test_the_node_authorizer_lets_a_kubelet_read_what_its_pods_refer_to_and_nothing_else() -> None:
    async def case() -> None:
        async with asyncio.timeout(30), opened(settings=AS_RECORDED) as api:
            admin = client_of(api)
            me = User("system:node:n1", ("system:nodes", "system:authenticated"), "node-uid")
            kubelet = client_of(api, me)
            objects = ApiObjects(kubelet, SystemClock(), SeededRandomness(1))
            await admin.create(core_v1.Node(metadata=metadata("n1")))
            await admin.create(core_v1.ServiceAccount(metadata=metadata("default", "default")))
            for name in ("mine", "other"):
                await admin.create(config_map(name, a=name))
            asked = user("ignored", volume="mine")
            asked.spec.node_name, asked.spec.service_account_name = "n1", "default"
            mine = await admin.create(asked)
            objects.register(mine)
            assert (await objects.config_map("default", "mine")).data == {"a": "mine"}
            assert (await objects.token(mine, "", 600)).text.count(".") == 2
            elsewhere = user("elsewhere", volume="other")
            objects.register(elsewhere)
            with pytest.raises(ObjectError, match="failed to sync configmap cache"):
                await objects.config_map("default", "other")
            with pytest.raises(ObjectError, match="failed to fetch token"):
                await objects.token(elsewhere, "", 600)
            await objects.close()

    asyncio.run(case())
