"""A scheduler process over an API server of this process, which is asked to place one pod after the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bayplan.api.codec import decode, to_tree
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.api.types import core_v1
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.store.errors import Conflict
from bayplan.support.timestamps import rfc3339
from tests.apiserver.serving import ADMIN, TOKENS, client_of, served
from tests.differential.clusters import Tree

_DECISION_SECONDS: Final = 5.0
_SETTLING_SECONDS: Final = 0.15
"""How long the scheduler may take to hear of objects that no pod shows to have arrived."""
_SECONDS_PER_NODE: Final = 0.002
SENTINEL_NODE: Final = "zzz-sentinel"
_SENTINEL: Final = "differential"
"""Label of a node that only the sentinel may use, and the sentinel's name: it is placed once the nodes are known."""
_MODULES: Final = {kind.kind: kind for kind in DEFAULT_KINDS if kind.group != "events.k8s.io"}


@dataclass(slots=True)
class Outcome:
    """What a scheduler did with a pod."""

    node: str = ""
    reason: str = ""
    message: str = ""
    nominated: str = ""
    victims: set[str] = field(default_factory=set)
    """`namespace/name`"""
    waits: bool = False
    """It has its node, and waits there for volumes that nobody binds here."""


class Refused(Exception):
    """The API server refuses a request."""


class Site:
    """The API server with its scheduler."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self._endpoint = InProcessEndpoint(api, ADMIN)
        self._changed: dict[str, Callable[[core_v1.Pod | None], None]] = {}
        self._deleted: set[str] = set()
        self._started = 0
        self._round = 0

    async def follow(self) -> None:
        """Hear of pods until cancelled. A watch ends after half an hour or more, as watches of kube-apiserver do; the next one begins where it was."""
        client = client_of(self.api)
        version = (await client.list(core_v1.Pod)).resource_version
        while True:
            watch = await client.watch(core_v1.Pod, resource_version=version)
            while batch := await watch.next_batch():
                for kind, pod in batch:
                    version = pod.metadata.resource_version
                    self._hear(kind, pod)

    def _hear(self, kind: str, pod: core_v1.Pod) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if kind == "DELETED" and pod.spec.node_name and pod.metadata.name != _SENTINEL:
            self._deleted.add(key)
        elif (changed := self._changed.get(key)) is not None:
            changed(pod)
        if kind == "DELETED":
            for other in self._changed.values():
                other(None)

    async def ask(self, method: str, path: str, tree: Any = None, content_type: str = "application/json") -> Tree:
        """A request as the administrator. Raises Refused."""
        code, body = await self._endpoint.call(
            method, path, {}, json.dumps(tree).encode() if tree is not None else b"", content_type
        )
        if code >= 300:
            raise Refused(f"{method} {path}: {body.decode()}")
        found: Tree = json.loads(body)
        return found

    async def fill(self, objects: Sequence[tuple[str, Tree]]) -> list[tuple[str, Tree]]:
        """Begin anew with these objects. Returns them as they are now, with what the sentinel needs."""
        await self._clear()
        self._round += 1
        made = [await self._insert(kind, tree) for kind, tree in _namespaces(objects)]
        made += [await self._insert(kind, tree) for kind, tree in objects if kind not in ("Namespace", "Node", "Pod")]
        await asyncio.sleep(_SETTLING_SECONDS)
        made += [await self._insert(kind, tree) for kind, tree in objects if kind == "Node"]
        labels = {_SENTINEL: str(self._round)}
        taints = [{"key": _SENTINEL, "effect": "NoSchedule"}]
        status = {
            "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"},
            "capacity": {"cpu": "1", "memory": "1Gi", "pods": "9"},
        }
        made.append(
            await self._insert(
                "Node",
                {"metadata": {"name": SENTINEL_NODE, "labels": labels}, "spec": {"taints": taints}, "status": status},
            )
        )
        # kube-scheduler counts the nodes that have an image when it first looks at a node, and not again until that node changes: it is to know all nodes by then.
        await asyncio.sleep(_SETTLING_SECONDS + _SECONDS_PER_NODE * len(made))
        made += [await self._insert(kind, tree) for kind, tree in objects if kind == "Pod"]
        spec = {
            "containers": [{"name": "a", "image": "a"}], "nodeSelector": labels, "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        }  # fmt: skip
        outcome, _ = await self.submit(
            {"metadata": {"name": _SENTINEL, "namespace": "default"}, "spec": spec}, lambda _: set()
        )
        assert outcome.node == SENTINEL_NODE, outcome
        await self.remove(f"default/{_SENTINEL}")
        return made

    async def _clear(self) -> None:
        objects = self.api.context.objects
        for kind in ("Pod", "Node", *(name for name in reversed(_MODULES) if name in _CLEARED)):
            row = _MODULES[kind]
            for entry in list(objects.cache(row).all()):
                if entry.name not in _KEPT:
                    await objects.remove(row, entry)

    async def _insert(self, kind: str, tree: Tree) -> tuple[str, Tree]:
        """Write an object as it is given, status and all, whatever admission would say of it."""
        row = _MODULES[kind]
        metadata = {
            "uid": str(self.api.context.randomness.uuid4()),
            "creationTimestamp": rfc3339(self.api.context.clock.now()),
            **tree["metadata"],
        }
        if kind == "Pod":
            tree = {**tree, "spec": {**tree["spec"], "terminationGracePeriodSeconds": 0}}
        obj = decode(row.type, json.dumps({**tree, "metadata": metadata}).encode())
        if (known := self._entry(row, obj.metadata.namespace, obj.metadata.name)) is not None:
            await self.api.context.objects.replace(row, obj, known.revision)
            return kind, to_tree(obj)
        await self.api.context.objects.insert(row, obj)
        return kind, to_tree(obj)

    def _entry(self, row: Kind, namespace: str, name: str) -> Any:
        return self.api.context.objects.cache(row).get(namespace, name)

    async def create(self, pod: Tree) -> Tree:
        """Create a pod; returns it as the scheduler sees it. Raises Refused."""
        return await self.ask("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)

    async def submit(
        self, pod: Tree, victims: Callable[[str], set[str]], created: Callable[[Tree], None] = lambda _: None
    ) -> tuple[Outcome, Tree]:
        """Create a pod and wait for what comes of it. victims: of each node that may be nominated. created: is told the pod before it is decided about."""
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        done = asyncio.get_running_loop().create_future()
        self._deleted.clear()
        seen: core_v1.Pod | None = None

        def changed(now: core_v1.Pod | None) -> None:
            nonlocal seen
            seen = now or seen
            if seen is not None and not done.done() and (outcome := self._outcome(seen, victims)) is not None:
                done.set_result(outcome)

        self._changed[key] = changed
        try:
            stored = await self.create(pod)
            created(stored)
            changed(None)
            async with asyncio.timeout(_DECISION_SECONDS):
                return await done, stored
        except TimeoutError:
            if seen is not None and (outcome := self._outcome(seen, lambda _: set())) is not None:
                return outcome, stored
            return Outcome(reason="no decision in time"), stored
        finally:
            del self._changed[key]

    def _outcome(self, pod: core_v1.Pod, victims: Callable[[str], set[str]]) -> Outcome | None:
        """None if it is not known yet."""
        if pod.spec.node_name:
            return Outcome(node=pod.spec.node_name)
        if pod.metadata.name == _SENTINEL:  # it waits for its node
            return None
        if pod.status.nominated_node_name and not pod.status.conditions:
            return Outcome(node=pod.status.nominated_node_name, waits=True)
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                nominated = pod.status.nominated_node_name
                if nominated and not victims(nominated) <= self._deleted:
                    return None
                return Outcome("", condition.reason, condition.message, nominated, set(self._deleted))
        return None

    async def run(self, key: str) -> Tree:
        """A pod that has a node starts there."""
        self._started += 1
        namespace, _, name = key.partition("/")
        status = {"phase": "Running", "startTime": rfc3339(1_767_225_600 + self._started)}
        return await self.ask(
            "PATCH",
            f"/api/v1/namespaces/{namespace}/pods/{name}/status",
            {"status": status},
            "application/merge-patch+json",
        )

    async def change_node(self, node: Tree) -> None:
        """Give a node other labels, taints or amounts."""
        row = _MODULES["Node"]
        known = self._entry(row, "", node["metadata"]["name"])
        await self.api.context.objects.replace(row, decode(row.type, json.dumps(node).encode()), known.revision)
        await asyncio.sleep(_SETTLING_SECONDS / 5)

    async def remove(self, key: str) -> None:
        """Delete a pod at once, if it is there."""
        row = _MODULES["Pod"]
        while (entry := self._entry(row, *key.split("/"))) is not None:
            with contextlib.suppress(Conflict):  # the scheduler has written to it just now
                await self.api.context.objects.remove(row, entry)


def _namespaces(objects: Sequence[tuple[str, Tree]]) -> list[tuple[str, Tree]]:
    """Those of the objects, those of namespaced ones, and those that are always there."""
    found: dict[str, Tree] = {each: {} for each in sorted(_KEPT - {"kubernetes"})}
    found |= {tree["metadata"]["namespace"]: {} for _, tree in objects if tree["metadata"].get("namespace")}
    found |= {
        tree["metadata"]["name"]: tree["metadata"].get("labels") or {} for kind, tree in objects if kind == "Namespace"
    }
    return [
        (
            "Namespace",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}},
                "status": {"phase": "Active"},
            },
        )
        for name, labels in found.items()
    ]


_KEPT: Final = frozenset(("default", "kube-system", "kube-public", "kube-node-lease", "kubernetes"))
_CLEARED: Final = frozenset((
    "Namespace", "PriorityClass", "Service", "ReplicaSet", "StatefulSet", "ReplicationController", "StorageClass", "PersistentVolume", "PersistentVolumeClaim",
    "CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment", "PodDisruptionBudget",
))  # fmt: skip


@contextlib.asynccontextmanager
async def running(program: list[str], directory: Path, configuration: Tree, **more: Any) -> AsyncIterator[Site]:
    """A site with a scheduler, of which the first words are given. more: settings of the API server."""
    settings = ApiServerSettings(
        authorization_modes=("AlwaysAllow",),
        enable_priority_and_fairness=False,
        disable_admission_plugins=("ServiceAccount",),
        **more,
    )
    async with served(settings) as server:
        path = directory / "kubeconfig"
        path.write_text(kubeconfig(server.url))
        configured = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(path), "qps": 10000, "burst": 10000},
            "leaderElection": {"leaderElect": False},
            "percentageOfNodesToScore": 100,
            **configuration,
        }
        (directory / "configuration.yaml").write_text(json.dumps(configured))
        with (directory / "log").open("wb") as log:
            words = [*program, f"--config={directory / 'configuration.yaml'}", "--secure-port=0"]
            process = await asyncio.create_subprocess_exec(*words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        site = Site(server.api)
        following = asyncio.create_task(site.follow())
        try:
            yield site
        finally:
            following.cancel()
            process.kill()
            await process.wait()


def kubeconfig(url: str) -> str:
    """That of the administrator of a server."""
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "a", "user": {"token": TOKENS["admin"][0]}}],
    })  # fmt: skip
