"""secret: the keys of a secret as files in memory."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.secret_data import secret_bytes
from bayplan.api.types import core_v1
from bayplan.kubelet.objects import ConfigSource, ObjectNotFoundError
from bayplan.kubelet.volumes.interface import Mounted, SetUp, VolumeSpec
from bayplan.kubelet.volumes.written import (
    Payload,
    WrittenKind,
    keyed_payload,
    needed_mode,
    write_volume,
)


async def secret_payload(
    objects: ConfigSource,
    namespace: str,
    name: str,
    items: Sequence[core_v1.KeyToPath],
    mode: int | None,
    *,
    optional: bool,
) -> Payload:
    """The files of a secret. Raises SetUpError, ObjectError."""
    try:
        secret = await objects.secret(namespace, name)
    except ObjectNotFoundError:
        if not optional:
            raise
        secret = core_v1.Secret()
    missing = "references non-existent secret key"
    return keyed_payload(secret_bytes(secret), items, needed_mode(mode), optional=optional, missing=missing)


class Secret(WrittenKind):
    """See the module."""

    name = "kubernetes.io/secret"

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return spec.volume is not None and spec.volume.secret is not None

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        source = context.spec.volume.secret if context.spec.volume is not None else None
        assert source is not None
        payload = await secret_payload(
            context.host.objects,
            context.pod.metadata.namespace,
            source.secret_name,
            source.items,
            source.default_mode,
            optional=bool(source.optional),
        )
        return await write_volume(context, payload, in_memory=self.in_memory)
