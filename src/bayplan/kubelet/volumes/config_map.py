"""configMap: the keys of a config map as files."""

from __future__ import annotations

from bayplan.api.types import core_v1
from bayplan.kubelet.objects import ConfigSource, ObjectNotFoundError
from bayplan.kubelet.volumes.interface import Mounted, SetUp, VolumeSpec
from bayplan.kubelet.volumes.written import (
    Payload,
    WrittenKind,
    config_map_values,
    keyed_payload,
    needed_mode,
    write_volume,
)


async def config_map_payload(
    objects: ConfigSource,
    namespace: str,
    source: core_v1.ConfigMapVolumeSource | core_v1.ConfigMapProjection,
    mode: int | None,
) -> Payload:
    """The files of a config map. Raises SetUpError, ObjectError."""
    optional = bool(source.optional)
    try:
        config_map = await objects.config_map(namespace, source.name)
    except ObjectNotFoundError:
        if not optional:
            raise
        config_map = core_v1.ConfigMap()
    missing = "configmap references non-existent config key"
    values = config_map_values(config_map)
    return keyed_payload(values, source.items, needed_mode(mode), optional=optional, missing=missing)


class ConfigMap(WrittenKind):
    """See the module."""

    name = "kubernetes.io/configmap"
    in_memory = False

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return spec.volume is not None and spec.volume.config_map is not None

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        source = context.spec.volume.config_map if context.spec.volume is not None else None
        assert source is not None
        payload = await config_map_payload(
            context.host.objects, context.pod.metadata.namespace, source, source.default_mode
        )
        return await write_volume(context, payload, in_memory=self.in_memory)
