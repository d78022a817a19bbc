"""Pods that come from files of the node, and their mirror pods in the API (pkg/kubelet/config, pkg/kubelet/pod/mirror_client.go)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api.codec import DecodeError, decode, encode
from bayplan.api.errors import ApiError
from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.api.strategies import strategy_for
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.kubelet.core.pod_status import MIRROR, STATIC_SOURCE
from bayplan.support.clock import Clock
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

HASH = "kubernetes.io/config.hash"
SEEN = "kubernetes.io/config.seen"


class StaticPodError(Exception):
    """A file does not hold a pod that can run."""


def read_static_pod(tree: Any, source: str, node_name: str, now: float) -> core_v1.Pod:
    """The pod of a file as this node runs it: its name ends in the node's, and its uid follows from what the file says. Raises StaticPodError."""
    if not isinstance(tree, dict) or (tree.get("apiVersion"), tree.get("kind")) != ("v1", "Pod"):
        raise StaticPodError(f"{source}: not a Pod of v1")
    data = msgspec.json.encode(tree)
    strategy = strategy_for(next(each for each in DEFAULT_KINDS if each.type is core_v1.Pod))
    try:
        pod: core_v1.Pod = decode(core_v1.Pod, data)
        strategy.default(pod)
    except DecodeError as error:
        raise StaticPodError(f"{source}: {error}") from error
    if not pod.metadata.name:
        raise StaticPodError(f"{source}: invalid pod: name is needed for the pod")
    metadata, spec = pod.metadata, pod.spec
    if not metadata.uid:
        text = data + f"host:{node_name}file:{source}".encode()
        metadata.uid = hashlib.blake2b(text, digest_size=16).hexdigest()
    metadata.name = f"{metadata.name}-{node_name.lower()}"
    metadata.namespace = metadata.namespace or "default"
    metadata.annotations = {
        **metadata.annotations,
        HASH: metadata.uid,
        STATIC_SOURCE: "file",
        SEEN: rfc3339(now),
    }
    spec.node_name = node_name
    always = core_v1.Toleration(operator="Exists", effect="NoExecute")
    if always not in spec.tolerations:
        spec.tolerations = (*spec.tolerations, always)
    pod.status = core_v1.PodStatus(phase="Pending")
    problems = strategy.validate(pod)
    if problems:
        raise StaticPodError(f"{source}: invalid pod: {'; '.join(map(str, problems))}")
    reference = api_reference(spec)
    if reference:
        raise StaticPodError(f"{source}: static pods may not reference {reference}")
    return pod


def api_reference(spec: core_v1.PodSpec) -> str:
    """What a pod needs from the API, which static pods must not; empty if nothing."""
    if spec.service_account_name:
        return "serviceaccounts"
    if spec.resource_claims:
        return "resourceclaims"
    if spec.image_pull_secrets:
        return "secrets"
    for container in (*spec.init_containers, *spec.containers):
        for source in container.env_from:
            if source.config_map_ref is not None or source.secret_ref is not None:
                return "configmaps" if source.config_map_ref is not None else "secrets"
        for variable in container.env:
            value = variable.value_from
            if value is not None and (value.config_map_key_ref or value.secret_key_ref):
                return "configmaps" if value.config_map_key_ref else "secrets"
    for volume in spec.volumes:
        if volume.config_map is not None:
            return "configmaps"
        if volume.secret is not None:
            return "secrets"
        if volume.persistent_volume_claim is not None:
            return "persistentvolumeclaims"
        for projected in volume.projected.sources if volume.projected is not None else ():
            for name, kind in (
                ("config_map", "configmaps"),
                ("secret", "secrets"),
                ("service_account_token", "serviceaccounts"),
                ("cluster_trust_bundle", "clustertrustbundles"),
            ):
                if getattr(projected, name) is not None:
                    return kind
    return ""


class StaticPodFiles:
    """Reads the pods of a directory (or of one file) again and again, and tells what has come, changed and gone."""

    def __init__(
        self,
        path: Path,
        node_name: str,
        clock: Clock,
        seconds: float,
        add: Callable[[core_v1.Pod], None],
        delete: Callable[[core_v1.Pod], None],
    ) -> None:
        """seconds: between two looks."""
        self._path = path
        self._node_name = node_name
        self._clock = clock
        self._seconds = seconds
        self._add = add
        self._delete = delete
        self._pods: dict[str, core_v1.Pod] = {}
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look(await asyncio.to_thread(self._read))
            await self._clock.sleep(self._seconds)

    def look(self, trees: dict[str, Any]) -> None:
        """Take note of what files hold now, by their names; a pod whose file has changed is another pod."""
        found: dict[str, core_v1.Pod] = {}
        for source, tree in trees.items():
            try:
                pod = read_static_pod(tree, source, self._node_name, self._clock.now())
            except StaticPodError as error:
                if self._told.get(source) != str(error):
                    self._told[source] = str(error)
                    logger.error("%s", error)
                continue
            found[pod.metadata.uid] = self._pods.get(pod.metadata.uid, pod)
        for uid in self._pods.keys() - found.keys():
            self._delete(self._pods[uid])
        for uid in found.keys() - self._pods.keys():
            self._add(found[uid])
        self._pods = found

    def _read(self) -> dict[str, Any]:
        import yaml  # slow to import

        trees: dict[str, Any] = {}
        path = self._path
        files = sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
        for file in files:
            if not file.is_file() or file.name.startswith("."):
                continue
            try:
                trees[str(file)] = yaml.safe_load(file.read_text())
            except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
                trees[str(file)] = None
                logger.error("%s: %s", file, error)
        return trees


class MirrorPods:
    """Keeps one pod in the API for each static pod, so that users see it."""

    def __init__(
        self,
        client: Client,
        mirror_of: Callable[[core_v1.Pod], core_v1.Pod | None],
        node: Callable[[], core_v1.Node | None],
    ) -> None:
        self._client = client
        self._mirror_of = mirror_of
        self._node = node

    async def ensure(self, pod: core_v1.Pod) -> None:
        """See that a static pod has its mirror pod; what cannot be done now is done with the next sync."""
        wanted = pod.metadata.annotations.get(HASH, "")
        if not wanted or pod.metadata.annotations.get(STATIC_SOURCE, "api") == "api":
            return
        mirror, node = self._mirror_of(pod), self._node()
        if node is None or node.metadata.deletion_timestamp is not None:
            return
        try:
            if mirror is not None:
                if mirror.metadata.annotations.get(MIRROR) == wanted and mirror.metadata.deletion_timestamp is None:
                    return
                await self.delete(mirror)
            await self._create(pod, wanted, node)
        except (ApiError, TransportError) as error:
            if not (isinstance(error, ApiError) and error.code == 409):
                logger.warning("mirror pod of %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)

    async def delete(self, mirror: core_v1.Pod) -> None:
        """Remove a mirror pod at once. Raises ApiError, TransportError."""
        metadata = mirror.metadata
        await self._client.delete(
            core_v1.Pod, metadata.name, metadata.namespace, grace_period_seconds=0, uid=metadata.uid
        )

    async def _create(self, pod: core_v1.Pod, config_hash: str, node: core_v1.Node) -> None:
        copy: core_v1.Pod = decode(core_v1.Pod, encode(pod))
        copy.metadata.uid = ""
        copy.metadata.annotations[MIRROR] = config_hash
        copy.metadata.owner_references = (
            meta_v1.OwnerReference(
                api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid, controller=True
            ),
        )
        await self._client.create(copy)
