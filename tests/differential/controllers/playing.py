"""One side: an API server, requests to it, and the part of the kubelets."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

import aiohttp

from tests.apiserver.serving import TOKENS

Tree = dict[str, Any]

_QUIET_SECONDS: Final = 1.8
"""Without a write: longer than controllers gather changes before they write (a second for jobs)."""
_PATIENCE: Final = 40.0
_PATCH: Final = "application/merge-patch+json"

PATHS: Final = {
    "Namespace": "/api/v1/namespaces", "Node": "/api/v1/nodes", "Pod": "/api/v1/pods", "Service": "/api/v1/services", "Endpoints": "/api/v1/endpoints",
    "ConfigMap": "/api/v1/configmaps", "Secret": "/api/v1/secrets", "ServiceAccount": "/api/v1/serviceaccounts",
    "ReplicationController": "/api/v1/replicationcontrollers", "ResourceQuota": "/api/v1/resourcequotas", "Event": "/api/v1/events",
    "PersistentVolume": "/api/v1/persistentvolumes", "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "Deployment": "/apis/apps/v1/deployments", "ReplicaSet": "/apis/apps/v1/replicasets", "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets", "ControllerRevision": "/apis/apps/v1/controllerrevisions",
    "Job": "/apis/batch/v1/jobs", "CronJob": "/apis/batch/v1/cronjobs",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/endpointslices", "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/horizontalpodautoscalers",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses", "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "CertificateSigningRequest": "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims", "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
}  # fmt: skip
"""Kind -> where all of it are listed; what is not in a namespace is compared as well."""
_WHEN_READY: Final = ("Initialized", "ContainersReady", "Ready")
CLUSTER_WIDE: Final = frozenset((
    "Namespace", "Node", "PersistentVolume", "StorageClass", "VolumeAttachment", "ClusterRole", "CertificateSigningRequest", "ValidatingAdmissionPolicy",
))  # fmt: skip


class Refused(Exception):
    """The API server refuses a request."""


class Side:
    """An API server with a controller manager."""

    def __init__(self, name: str, url: str, session: aiohttp.ClientSession) -> None:
        self.name = name
        self.url = url
        self._session = session
        self.problem: Callable[[], str] = str
        """What the controller manager said when it ended; "" while it runs."""
        self._addresses: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
        """By namespace."""

    async def ask(
        self, method: str, path: str, tree: Tree | None = None, content_type: str = "application/json"
    ) -> Tree:
        """A request as the administrator. Raises Refused."""
        headers = {"Authorization": f"Bearer {TOKENS['admin'][0]}", "Content-Type": content_type}
        async with self._session.request(method, f"{self.url}{path}", json=tree, headers=headers) as response:
            found: Tree = await response.json()
        if response.status >= 300:
            raise Refused(f"{self.name}: {method} {path}: {found.get('message')}")
        return found

    async def all_of(self, kind: str) -> list[Tree]:
        """All objects of a kind."""
        items: list[Tree] = (await self.ask("GET", PATHS[kind]))["items"]
        return items

    async def settle(self, least: float = 0.0) -> None:
        """Return when nothing is written any more, and not before so many seconds have gone."""
        if problem := self.problem():
            raise RuntimeError(f"{self.name} ended: {problem}")
        began = changed = time.monotonic()
        revision = ""
        while time.monotonic() < max(changed + _QUIET_SECONDS, began + least):
            if time.monotonic() > began + _PATIENCE + least:
                print(f"{self.name} does not come to rest", flush=True)
                return
            await asyncio.sleep(0.1)
            now = (await self.ask("GET", "/api/v1/namespaces?limit=1"))["metadata"]["resourceVersion"]
            if now != revision:
                revision, changed = now, time.monotonic()

    def _path(self, kind: str, namespace: str, name: str = "") -> str:
        root, _, plural = PATHS[kind].rpartition("/")
        where = root if kind in CLUSTER_WIDE else f"{root}/namespaces/{namespace}"
        return f"{where}/{plural}" + (f"/{name}" if name else "")

    async def create(self, namespace: str, tree: Tree) -> None:
        """Create an object, with its status where it has one."""
        kind = tree["kind"]
        made = await self.ask("POST", self._path(kind, namespace), {**tree, "apiVersion": _version(kind)})
        if "status" in tree:
            path = f"{self._path(kind, namespace, made['metadata']['name'])}/status"
            await self.ask("PATCH", path, {"status": tree["status"]}, _PATCH)

    async def patch(self, namespace: str, kind: str, name: str, change: Tree, subresource: str = "") -> None:
        """Change an object by a merge patch."""
        path = self._path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        await self.ask("PATCH", path, change, _PATCH)

    async def delete(self, namespace: str, kind: str, name: str, propagation: str | None = None) -> None:
        """Delete an object."""
        options = {"propagationPolicy": propagation} if propagation else {}
        await self.ask("DELETE", self._path(kind, namespace, name), options)

    async def pods(self, namespace: str, prefix: str = "") -> list[Tree]:
        """Pods whose names begin so, in an order that is the same on both sides: by ordinal or index, else by age."""
        found = (await self.ask("GET", f"/api/v1/namespaces/{namespace}/pods"))["items"]
        return sorted((pod for pod in found if pod["metadata"]["name"].startswith(prefix)), key=_order)

    async def run(self, namespace: str, prefix: str = "", most: int = 1000) -> None:
        """Pods that wait get a node, run and are ready."""
        waiting = [
            pod
            for pod in await self.pods(namespace, prefix)
            if pod["status"]["phase"] == "Pending"
            and not pod["metadata"].get("deletionTimestamp")
            and not pod["spec"].get("schedulingGates")
        ]
        for number, pod in enumerate(waiting[:most]):
            path = self._path("Pod", namespace, pod["metadata"]["name"])
            if not pod["spec"].get("nodeName"):
                node = _wanted_node(pod) or f"node-{number % 3}"
                binding = {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": pod["metadata"]["name"]},
                    "target": {"kind": "Node", "name": node},
                }
                await self.ask("POST", f"{path}/binding", binding)
                pod = await self.ask("GET", path)
            await self.ask("PATCH", f"{path}/status", {"status": self._running(pod)}, _PATCH)

    def _running(self, pod: Tree) -> Tree:
        number = next(self._addresses[pod["metadata"]["namespace"]])
        address = f"10.1.{number >> 8}.{number & 255}"
        now = _now()
        return {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": "192.0.2.9", "startTime": now,
            "conditions": [
                *(each for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"),
                *({"type": each, "status": "True", "lastTransitionTime": now} for each in _WHEN_READY),
            ],
            "containerStatuses": [
                {
                    "name": each["name"], "ready": True, "started": True, "restartCount": 0, "image": each["image"], "imageID": "i",
                    "state": {"running": {"startedAt": now}},
                }
                for each in pod["spec"]["containers"]
            ],
        }  # fmt: skip

    async def end(self, namespace: str, prefix: str = "", most: int = 1000, *, code: int = 0, reason: str = "") -> None:
        """Pods that run end with an exit code."""
        running = [pod for pod in await self.pods(namespace, prefix) if pod["status"]["phase"] == "Running"]
        for pod in running[:most]:
            now = _now()
            terminated = {
                "exitCode": code,
                "reason": "Error" if code else "Completed",
                "startedAt": now,
                "finishedAt": now,
            }
            status = {
                "phase": "Failed" if code or reason else "Succeeded",
                "reason": reason or None,
                "conditions": [
                    {"type": each, "status": "False" if "eady" in each else "True", "lastTransitionTime": now}
                    for each in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
                ],
                "containerStatuses": [
                    {"name": each["name"], "ready": False, "restartCount": 0, "image": each["image"], "imageID": "i", "state": {"terminated": terminated}}
                    for each in pod["spec"]["containers"]
                ],
            }  # fmt: skip
            await self.ask(
                "PATCH", f"{self._path('Pod', namespace, pod['metadata']['name'])}/status", {"status": status}, _PATCH
            )

    async def unready(self, namespace: str, prefix: str = "", most: int = 1000) -> None:
        """Pods that run are not ready any more."""
        for pod in [pod for pod in await self.pods(namespace, prefix) if pod["status"]["phase"] == "Running"][:most]:
            conditions = [
                {**each, "status": "False" if "eady" in each["type"] else "True"}
                for each in pod["status"]["conditions"]
            ]
            path = f"{self._path('Pod', namespace, pod['metadata']['name'])}/status"
            await self.ask("PATCH", path, {"status": {"conditions": conditions}}, _PATCH)

    async def reap(self, namespace: str) -> None:
        """Pods that are being deleted have ended, and go."""
        for pod in await self.pods(namespace):
            if pod["metadata"].get("deletionTimestamp"):
                path = self._path("Pod", namespace, pod["metadata"]["name"])
                await self.ask("DELETE", path, {"gracePeriodSeconds": 0})


def _version(kind: str) -> str:
    parts = PATHS[kind].split("/")
    return "v1" if parts[1] == "api" else f"{parts[2]}/{parts[3]}"


def _order(pod: Tree) -> tuple[Any, ...]:
    metadata = pod["metadata"]
    index = metadata.get("annotations", {}).get("batch.kubernetes.io/job-completion-index", "0")
    return (
        metadata.get("generateName", metadata["name"]),
        int(index),
        _wanted_node(pod),
        metadata["creationTimestamp"],
        metadata["name"],
    )


def _wanted_node(pod: Tree) -> str:
    """The node that a DaemonSet has made a pod for."""
    required = (
        pod["spec"]
        .get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    for term in required.get("nodeSelectorTerms", ()):
        for field in term.get("matchFields", ()):
            return str(field["values"][0])
    return ""


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
