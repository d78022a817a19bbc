"""`ObjectSource` over an API server.

A node may list and watch config maps and secrets by name only. So each one that a pod of this node refers to is followed by an informer of its own, from the
pod's registration until the last pod that refers to it has gone. Immutable objects are read once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bayplan.api.errors import ApiError
from bayplan.api.pods.references import config_map_names, secret_names
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.informers.informer import Informer
from bayplan.kubelet.objects import ObjectError, ObjectNotFoundError, Token
from bayplan.kubelet.tokens import TokenManager
from bayplan.kubelet.trust_bundles import TrustBundles
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

T = TypeVar("T")
Followed = core_v1.ConfigMap | core_v1.Secret
_Key = tuple[type[Followed], str, str]
"""Class, namespace, name."""

SYNC_SECONDS = 1.0
"""How long a reader waits for the first answer of the API server."""
_NAMES = {core_v1.ConfigMap: "configmap", core_v1.Secret: "secret"}


class _Object:
    """One object that is followed, and the pods that refer to it."""

    def __init__(self, informer: Informer[Any]) -> None:
        self.informer = informer
        self.pods: set[str] = set()
        self.task: asyncio.Task[None] | None = None


class ApiObjects:
    """See the module."""

    def __init__(self, client: Client, clock: Clock, randomness: Randomness) -> None:
        self._client = client
        self._clock = clock
        self._randomness = randomness
        self._tokens = TokenManager(client, clock, randomness)
        self._bundles = TrustBundles(client, clock, randomness)
        self._objects: dict[_Key, _Object] = {}
        self._pods: dict[str, frozenset[_Key]] = {}
        self._when_changed: list[Callable[[str], None]] = []

    def register(self, pod: core_v1.Pod) -> None:
        """See ObjectSource."""
        uid, namespace = pod.metadata.uid, pod.metadata.namespace
        wanted = frozenset(
            [(core_v1.ConfigMap, namespace, name) for name in config_map_names(pod)]
            + [(core_v1.Secret, namespace, name) for name in secret_names(pod)]
        )
        before = self._pods.get(uid, frozenset())
        self._pods[uid] = wanted
        for key in sorted(wanted - before, key=_order):
            self._follow(key).pods.add(uid)
        self._release(uid, before - wanted)

    def unregister(self, pod_uid: str) -> None:
        """See ObjectSource."""
        self._release(pod_uid, self._pods.pop(pod_uid, frozenset()))
        self._tokens.forget(pod_uid)

    def on_change(self, changed: Callable[[str], None]) -> None:
        """See ObjectSource."""
        self._when_changed.append(changed)

    async def config_map(self, namespace: str, name: str) -> core_v1.ConfigMap:
        """See ObjectSource."""
        return await self._get(core_v1.ConfigMap, namespace, name)

    async def secret(self, namespace: str, name: str) -> core_v1.Secret:
        """See ObjectSource."""
        return await self._get(core_v1.Secret, namespace, name)

    async def token(self, pod: core_v1.Pod, audience: str, seconds: int | None) -> Token:
        """See ObjectSource."""
        return await self._tokens.token(pod, audience, seconds)

    async def claim(self, namespace: str, name: str) -> core_v1.PersistentVolumeClaim:
        """See ObjectSource."""
        return await self._read(core_v1.PersistentVolumeClaim, namespace, name)

    async def volume(self, name: str) -> core_v1.PersistentVolume:
        """See ObjectSource."""
        return await self._read(core_v1.PersistentVolume, "", name)

    async def change_claim_status(self, claim: core_v1.PersistentVolumeClaim, status: Mapping[str, Any]) -> None:
        """See ObjectSource."""
        metadata = claim.metadata
        patch = {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}, "status": status}
        cls = core_v1.PersistentVolumeClaim
        try:
            await self._client.patch(cls, metadata.name, metadata.namespace, patch, subresource="status")
        except (ApiError, TransportError) as error:
            raise ObjectError(str(error)) from error

    async def trust_anchors(
        self, *, name: str | None, signer: str | None, selector: meta_v1.LabelSelector | None, optional: bool
    ) -> bytes:
        """See ObjectSource."""
        return await self._bundles.anchors(name=name, signer=signer, selector=selector, optional=optional)

    async def pod_certificate(self, pod: core_v1.Pod, volume: str, index: int) -> tuple[bytes, bytes]:
        """See ObjectSource. PodCertificateRequests are off by default in Kubernetes 1.36; what a kubelet says then."""
        raise ObjectError("unimplemented")

    async def close(self) -> None:
        """Follow nothing any more."""
        tasks = [each.task for each in self._objects.values() if each.task is not None]
        self._objects.clear()
        self._pods.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _follow(self, key: _Key) -> _Object:
        found = self._objects.get(key)
        if found is not None:
            return found
        cls, namespace, name = key
        informer: Informer[Any] = Informer(
            self._client,
            cls,
            clock=self._clock,
            randomness=self._randomness,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
        )
        found = self._objects[key] = _Object(informer)
        informer.on_change(
            add=lambda obj: self._changed(key, obj),
            update=lambda _, obj: self._changed(key, obj),
            delete=lambda obj: self._changed(key, None),
        )
        found.task = asyncio.create_task(informer.run(), name=f"{_NAMES[cls]} {namespace}/{name}")
        return found

    def _changed(self, key: _Key, obj: Followed | None) -> None:
        found = self._objects.get(key)
        if found is None:
            return
        for uid in sorted(found.pods):
            for changed in self._when_changed:
                changed(uid)
        if obj is not None and obj.immutable and found.task is not None:
            found.task.cancel()  # it will not change; if it is made anew under its name, pods that run keep what they have

    def _release(self, pod_uid: str, keys: frozenset[_Key]) -> None:
        for key in sorted(keys, key=_order):
            found = self._objects[key]
            found.pods.discard(pod_uid)
            if not found.pods:
                del self._objects[key]
                if found.task is not None:
                    found.task.cancel()

    async def _get(self, cls: type[T], namespace: str, name: str) -> T:
        kind = _NAMES[cls]  # type: ignore[index]
        found = self._objects.get((cls, namespace, name))  # type: ignore[arg-type]
        if found is None:
            raise ObjectError(f'object "{namespace}"/"{name}" not registered')
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await found.informer.wait_for_sync()
        except TimeoutError:
            text = f"failed to sync {kind} cache: timed out waiting for the condition"
            raise ObjectError(text) from None
        obj: T | None = found.informer.cache.get(namespace, name)
        if obj is None:
            raise ObjectNotFoundError(f'{kind} "{name}" not found')
        return obj

    async def _read(self, cls: type[T], namespace: str, name: str) -> T:
        try:
            return await self._client.get(cls, name, namespace)
        except ApiError as error:
            if error.code == 404:
                raise ObjectNotFoundError(str(error)) from error
            raise ObjectError(str(error)) from error
        except TransportError as error:
            raise ObjectError(str(error)) from error


def _order(key: _Key) -> tuple[str, str, str]:
    return key[0].__name__, key[1], key[2]
