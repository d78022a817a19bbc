"""downwardAPI: fields of the pod, and amounts of its containers, as files."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.field_values import (
    FieldValueError,
    container_named,
    metadata_field,
    resource_value,
)
from bayplan.kubelet.volumes.atomic_writer import FileProjection
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import Mounted, SetUp, VolumeHost, VolumeSpec
from bayplan.kubelet.volumes.written import Payload, WrittenKind, needed_mode, write_volume


def downward_payload(
    host: VolumeHost, pod: core_v1.Pod, items: Sequence[core_v1.DownwardAPIVolumeFile], mode: int | None
) -> Payload:
    """The files of the pod's fields. Raises SetUpError with all that is wrong."""
    default_mode = needed_mode(mode)
    payload, errors = {}, []
    for item in items:
        try:
            text = _value(host, pod, item)
        except FieldValueError as error:
            errors.append(str(error))
            continue
        file_mode = default_mode if item.mode is None else item.mode
        payload[posixpath.normpath(item.path)] = FileProjection(text.encode(), file_mode)
    if errors:
        raise SetUpError(aggregate(errors))
    return payload


def _value(host: VolumeHost, pod: core_v1.Pod, item: core_v1.DownwardAPIVolumeFile) -> str:
    if item.field_ref is not None:
        return metadata_field(pod, item.field_ref.field_path)
    if item.resource_field_ref is not None:
        container = container_named(pod, item.resource_field_ref.container_name)
        return resource_value(item.resource_field_ref, container, host.allocatable())
    return ""


def aggregate(texts: Sequence[str]) -> str:
    """Several errors as one, each once."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


class DownwardApi(WrittenKind):
    """See the module."""

    name = "kubernetes.io/downward-api"

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return spec.volume is not None and spec.volume.downward_api is not None

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        source = context.spec.volume.downward_api if context.spec.volume is not None else None
        assert source is not None
        payload = downward_payload(context.host, context.pod, source.items, source.default_mode)
        return await write_volume(context, payload, in_memory=self.in_memory)
