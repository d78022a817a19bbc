"""A cluster of two simulated nodes, as `bayplan up` makes it, for the tests of a module: each works in a namespace of its own, as conformance tests do."""

from __future__ import annotations

import itertools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import aiohttp

from bayplan.apiserver.http.server import HttpServer
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.cluster import eventually
from bayplan.testing.handle import LoopThread
from bayplan.testing.mutations import detect_mutations
from tests.apiserver.serving import TOKENS, Served
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object, Refused, Requests
from tests.integration.conformance.typed_requests import TypedRequests

T = TypeVar("T")
NODES = 2
SERVER_IMAGE, OTHER_IMAGE, PAUSE = "registry.example/web:2.4", "registry.example/web:2.5", "registry.k8s.io/pause:3.10"
MISSING_IMAGE = "registry.example/web:nonexistent"
CHANGES = ("ADDED", "MODIFIED")
_SECURITY = [f"pod-security.kubernetes.io/{mode}" for mode in ("enforce", "warn", "audit")]


class Space:
    """One namespace of the cluster, and requests to it: `api` talks as typed clients do, `dynamic` as clients that know no types."""

    def __init__(self, api: Requests, name: str) -> None:
        self.api, self.dynamic, self.name = api, Requests(api.server), name

    def core(self, resource: str) -> str:
        """The path of a collection, or of what follows it, in the core group."""
        return f"/api/v1/namespaces/{self.name}/{resource}"

    def apps(self, resource: str) -> str:
        """The same in the group apps."""
        return f"/apis/apps/v1/namespaces/{self.name}/{resource}"

    def batch(self, resource: str) -> str:
        """The same in the group batch."""
        return f"/apis/batch/v1/namespaces/{self.name}/{resource}"

    def policy(self, resource: str) -> str:
        """The same in the group policy."""
        return f"/apis/policy/v1/namespaces/{self.name}/{resource}"

    async def pods(self, **labels: str) -> list[Object]:
        """All pods with these labels, those on their way out, too."""
        chosen = ",".join(f"{key}={value}" for key, value in labels.items())
        found: list[Object] = (await self.api.get(self.core("pods"), labelSelector=chosen))["items"]
        return found

    async def created(self, number: int, **labels: str) -> list[Object]:
        """Wait until there are exactly so many pods with these labels, not counting those on their way out."""

        async def look() -> list[Object]:
            found = [one for one in await self.pods(**labels) if "deletionTimestamp" not in one["metadata"]]
            assert len(found) == number, found
            return found

        return await eventually(look)

    async def running(self, number: int, **labels: str) -> list[Object]:
        """Wait until exactly so many pods with these labels run, not counting those on their way out."""

        async def look() -> list[Object]:
            found = [one for one in await self.pods(**labels) if "deletionTimestamp" not in one["metadata"]]
            phases = [one["status"].get("phase") for one in found]
            assert phases == ["Running"] * number, phases
            return found

        return await eventually(look)

    async def until(self, path: str, condition: Callable[[Object], Any]) -> Object:
        """Read an object until it meets a condition; it must be there all the time."""

        async def look() -> Object:
            found: Object = await self.api.get(path)
            assert _meets(found, condition), found.get("status", found)
            return found

        return await eventually(look)

    async def seen(
        self, path: str, since: str, condition: Callable[[Object], Any], types: tuple[str, ...] = CHANGES, **query: str
    ) -> Object:
        """The object of the first event after a revision that meets a condition."""
        async with self.api.watch(path, resourceVersion=since, allowWatchBookmarks="true", **query) as watch:
            while True:
                kind, obj = await watch.next()
                assert kind != "ERROR", obj
                if kind in types and _meets(obj, condition):
                    return obj

    async def changed(self, path: str, change: Callable[[Object], None]) -> Object:
        """Read, change and write an object, again if somebody was faster. For a path of a status, the object is read whole."""
        while True:
            found = await self.api.get(path.removesuffix("/status"))
            change(found)
            try:
                return await self.api.update(path, found)
            except Refused as refusal:
                if refusal.reason != "Conflict":
                    raise

    async def remove_with_pods(self, path: str) -> None:
        """Delete an owner of pods in the background; return when a streaming list of those that it selects has seen all of them go."""
        selected = (await self.api.get(path))["spec"]["selector"]["matchLabels"]
        query = {
            "labelSelector": ",".join(f"{key}={value}" for key, value in selected.items()),
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
        }
        there: set[str] = set()
        async with self.api.watch(self.core("pods"), **query) as watch:
            while (event := await watch.next())[0] != "BOOKMARK":
                there.add(event[1]["metadata"]["name"])
            assert event[1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert there
            await self.api.delete(path, {"propagationPolicy": "Background"})
            while there:
                kind, pod = await watch.next()
                if kind != "BOOKMARK":
                    (there.discard if kind == "DELETED" else there.add)(pod["metadata"]["name"])
        assert await self.absent(path)

    async def gone(self, path: str) -> bool:
        """Wait until an object is not there."""
        return await eventually(lambda: self.absent(path))

    async def absent(self, path: str) -> bool:
        """Whether an object is not there."""
        try:
            await self.api.get(path)
        except Refused as refusal:
            return refusal.reason == "NotFound"
        return False


def _meets(obj: Object, condition: Callable[[Object], Any]) -> bool:
    """Whether an object meets a condition; it does not if a field that the condition reads is not set yet."""
    try:
        return bool(condition(obj))
    except KeyError:
        return False


def revision(answer: Object) -> str:
    """The resourceVersion of an object or a list."""
    return str(answer["metadata"]["resourceVersion"])


def template(
    labels: dict[str, str], image: str = SERVER_IMAGE, container: str = "web", grace: int | None = 0, **spec: Any
) -> Object:
    """A pod template of one container."""
    pod = {"containers": [{"name": container, "image": image}], **spec}
    if grace is not None:
        pod["terminationGracePeriodSeconds"] = grace
    return {"metadata": {"labels": labels}, "spec": pod}


def workload(name: str, labels: dict[str, str], pods: Object, **spec: Any) -> Object:
    """Anything that makes pods from a template, selecting them by their labels."""
    return {
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"selector": {"matchLabels": dict(labels)}, "template": pods, **spec},
    }


def controller(obj: Object) -> Object | None:
    """The reference to an object's controller."""
    return next((one for one in obj["metadata"].get("ownerReferences", ()) if one.get("controller")), None)


def condition(obj: Object, kind: str) -> Object:
    """A condition of an object's status; empty if there is none of this type."""
    return next((one for one in obj.get("status", {}).get("conditions", ()) if one["type"] == kind), {})


def is_ready(pod: Object) -> bool:
    """Whether a pod is ready."""
    return condition(pod, "Ready").get("status") == "True"


async def check_status_endpoints(space: Space, path: str, name: str, since: str, patch: Object, labels: str) -> None:
    """An object's status can be read, updated and patched, and a watch of objects with these labels shows each change."""
    own = f"{path}/{name}"
    shown = await space.dynamic.get(f"{own}/status")
    assert shown["metadata"]["name"] == name
    mine = {"type": "StatusUpdate", "status": "True", "reason": "Checked", "message": "written by a client"}
    await space.changed(f"{own}/status", lambda obj: obj["status"].setdefault("conditions", []).append(mine))
    await space.seen(
        path, since, lambda obj: mine.items() <= condition(obj, "StatusUpdate").items(), labelSelector=labels
    )
    patched = await space.api.patch(f"{own}/status", patch)
    assert condition(patched, "StatusPatched")["status"] == "True"
    await space.seen(path, since, lambda obj: condition(obj, "StatusPatched"), labelSelector=labels)


async def check_scale(space: Space, own: str) -> None:
    """An object of one replica can be scaled by writing and by patching its scale."""
    api = space.api
    scale = await api.get(f"{own}/scale")
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (1, 1)
    del scale["metadata"]["resourceVersion"]
    scale["spec"]["replicas"] = 2
    assert (await api.update(f"{own}/scale", scale))["spec"]["replicas"] == 2
    assert (await api.get(own))["spec"]["replicas"] == 2
    patch = {"metadata": {"creationTimestamp": None}, "spec": {"replicas": 4}, "status": {"replicas": 0}}
    await api.patch(f"{own}/scale", patch, STRATEGIC_PATCH)
    assert (await api.get(own))["spec"]["replicas"] == 4


class Workloads:
    """Runs scenarios, each in a new namespace that is emptied and removed afterwards."""

    def __init__(self, thread: LoopThread, api: Requests) -> None:
        self._thread, self._api = thread, api
        self._numbers = itertools.count(1)

    def run(self, scenario: Callable[[Space], Awaitable[None]]) -> None:
        """Run one; the namespace must be as every new namespace, and it must be possible to delete it with all that is left in it."""
        self._thread.run(self._run(scenario))

    async def _run(self, scenario: Callable[[Space], Awaitable[None]]) -> None:
        space = Space(self._api, f"workloads-{next(self._numbers)}")
        labels = {"suite": "workloads", "run": space.name, **dict.fromkeys(_SECURITY, "baseline")}
        await self._api.create("/api/v1/namespaces", {"metadata": {"name": space.name, "labels": labels}})
        await eventually(lambda: self._api.get(space.core("serviceaccounts/default")))
        await eventually(lambda: self._api.get(space.core("configmaps/kube-root-ca.crt")))
        try:
            await scenario(space)
        finally:
            await self._api.delete(f"/api/v1/namespaces/{space.name}")
            await space.gone(f"/api/v1/namespaces/{space.name}")


@asynccontextmanager
async def _served() -> AsyncIterator[Requests]:
    """Requests of an administrator to a new cluster whose nodes are ready."""
    cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=NODES), tokens=(TOKENS["admin"],)))
    await cluster.start()
    trust = ssl.create_default_context(cadata=cluster.credentials.authority.certificate.decode())
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0)) as session:
            api = TypedRequests(
                Served(
                    cluster.api, cluster.server_url, session, HttpServer(cluster.api, cluster.api.context.authenticator)
                )
            )
            await eventually(lambda: _is_up(api))
            yield api
    finally:
        await cluster.stop()


async def _is_up(api: Requests) -> bool:
    nodes = (await api.get("/api/v1/nodes"))["items"]
    return len(nodes) == NODES and all(is_ready(one) and not one["spec"].get("taints") for one in nodes)


@contextmanager
def two_nodes() -> Iterator[Workloads]:
    """The cluster, on a loop of its own; nobody may change what all share in it."""
    thread = LoopThread()
    served = _served()
    try:
        with detect_mutations():
            api = thread.run(_await(served.__aenter__()))
            try:
                yield Workloads(thread, api)
            finally:
                thread.run(_await(served.__aexit__(None, None, None)))
    finally:
        thread.close()


async def _await(what: Awaitable[T]) -> T:
    return await what
