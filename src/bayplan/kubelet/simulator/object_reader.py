"""Reads what simulated pods refer to, for those pods only: a cluster whose pods refer to nothing costs nothing.

Objects are read when a pod is about to start, and kept for a moment, since pods of one template refer to the same ones and start together.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.kubelet.core.containers.environment import needs
from bayplan.kubelet.core.containers.field_values import every_container
from bayplan.kubelet.objects import ObjectError, ObjectNotFoundError
from bayplan.kubelet.simulator.references import ROOT_CERTIFICATES, Found
from bayplan.support.clock import Clock

_KEPT_SECONDS = 1.0
_WORDS: Final[dict[type[Any], str]] = {core_v1.ConfigMap: "configmap", core_v1.Secret: "secret"}


class ObjectReader:
    """Implements `ConfigSource` and `ClaimSource` for simulated pods."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: OrderedDict[tuple[type, str, str], tuple[float, Any]] = OrderedDict()
        """(class, namespace, name) -> when an object was read (monotonic seconds), and the object; those read longest ago first."""

    async def find(self, pod: core_v1.Pod, *, needs_config: bool) -> Found:
        """What a pod refers to. needs_config: whether it waits for ConfigMaps and Secrets, which are not read otherwise. Raises ApiError, TransportError."""
        if not needs_config:
            return Found(mount_errors=await self._mount_errors(pod, needs_config=False), needs_config=False)
        namespace = pod.metadata.namespace
        config_maps: dict[str, core_v1.ConfigMap | None] = {}
        secrets: dict[str, core_v1.Secret | None] = {}
        for container in every_container(pod.spec):
            wanted = needs(container)
            for name in wanted.config_maps:
                config_maps[name] = await self._read(core_v1.ConfigMap, namespace, name)
            for name in wanted.secrets:
                secrets[name] = await self._read(core_v1.Secret, namespace, name)
        return Found(config_maps, secrets, await self._mount_errors(pod, needs_config=True))

    async def config_map(self, namespace: str, name: str) -> core_v1.ConfigMap:
        """See ConfigSource."""
        found: core_v1.ConfigMap = await self._needed(core_v1.ConfigMap, namespace, name)
        return found

    async def secret(self, namespace: str, name: str) -> core_v1.Secret:
        """See ConfigSource."""
        found: core_v1.Secret = await self._needed(core_v1.Secret, namespace, name)
        return found

    async def claim(self, namespace: str, name: str) -> core_v1.PersistentVolumeClaim:
        """See ClaimSource."""
        found: core_v1.PersistentVolumeClaim = await self._needed(core_v1.PersistentVolumeClaim, namespace, name)
        return found

    async def volume(self, name: str) -> core_v1.PersistentVolume:
        """See ClaimSource."""
        found: core_v1.PersistentVolume = await self._needed(core_v1.PersistentVolume, "", name)
        return found

    async def _mount_errors(self, pod: core_v1.Pod, *, needs_config: bool) -> tuple[str, ...]:
        """Why volumes that containers use cannot be mounted, in the words of events."""
        from bayplan.kubelet.volumes.claims import used_volumes, volume_spec
        from bayplan.kubelet.volumes.errors import SetUpError

        mounts, devices = used_volumes(pod)
        unknown, found = {}, []
        for volume in pod.spec.volumes:
            name = volume.name
            if name not in mounts and name not in devices:
                continue
            try:
                if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
                    await volume_spec(self, pod, volume, is_mount=name in mounts, is_device=name in devices)
            except SetUpError as error:
                unknown[name] = str(error)
                continue
            if needs_config and (text := await self._file_error(pod, volume)):
                found.append(f'MountVolume.SetUp failed for volume "{name}" : {text}')
        if unknown:
            names = f"[{' '.join(sorted(unknown))}]"
            text = f"unmounted volumes={names}, unattached volumes=[], failed to process volumes={names}"
            found.append(f"Unable to attach or mount volumes: {text}: {'; '.join(unknown.values())}")
        return tuple(found)

    async def _file_error(self, pod: core_v1.Pod, volume: core_v1.Volume) -> str:
        """Why the files of a volume cannot be written; empty if they can, or if the volume has none."""
        from bayplan.kubelet.volumes.config_map import config_map_payload
        from bayplan.kubelet.volumes.errors import SetUpError
        from bayplan.kubelet.volumes.secret import secret_payload

        namespace = pod.metadata.namespace
        projections = volume.projected.sources if volume.projected is not None else ()
        config_maps = (volume.config_map, *(one.config_map for one in projections))
        secrets = ((one.name, one.items, one.optional) for one in (each.secret for each in projections) if one)
        named = ((one.secret_name, one.items, one.optional) for one in (volume.secret,) if one)
        try:
            for source in config_maps:
                if source is not None and source.name != ROOT_CERTIFICATES:
                    await config_map_payload(self, namespace, source, 0)
            for name, items, optional in (*named, *secrets):
                await secret_payload(self, namespace, name, items, 0, optional=bool(optional))
        except (ObjectError, SetUpError) as error:
            return str(error)
        return ""

    async def _needed(self, cls: type[Any], namespace: str, name: str) -> Any:
        try:
            found = await self._read(cls, namespace, name)
        except (ApiError, TransportError) as error:
            raise ObjectError(str(error)) from error
        if found is None:
            word = _WORDS.get(cls)
            kind = self._client.kinds.of_type(cls)
            raise ObjectNotFoundError(f'{word or kind.plural} "{name}" not found')
        return found

    async def _read(self, cls: type[Any], namespace: str, name: str) -> Any:
        """An object, None if it does not exist. Raises ApiError, TransportError."""
        key, now = (cls, namespace, name), self._clock.monotonic()
        known = self._known.get(key)
        if known is not None and now - known[0] < _KEPT_SECONDS:
            return known[1]
        try:
            found = await self._client.get(cls, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            found = None
        self._known.pop(key, None)
        self._known[key] = (now, found)
        while now - next(iter(self._known.values()))[0] >= _KEPT_SECONDS:
            self._known.popitem(last=False)
        return found
