"""How the kinds of `storage.k8s.io` look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import UNSET, object_age, printers
from bayplan.api.types import storage_v1

_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _storage_class(obj: storage_v1.StorageClass, now: float) -> list[Any]:
    is_default = any(obj.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        f"{obj.metadata.name} (default)" if is_default else obj.metadata.name,
        obj.provisioner,
        obj.reclaim_policy or "Delete",
        obj.volume_binding_mode or "Immediate",
        bool(obj.allow_volume_expansion),
        object_age(obj, now),
    ]


def _driver(obj: storage_v1.CSIDriver, now: float) -> list[Any]:
    spec = obj.spec
    return [
        obj.metadata.name,
        spec.attach_required is not False,
        bool(spec.pod_info_on_mount),
        bool(spec.storage_capacity),
        ",".join(request.audience for request in spec.token_requests) if spec.token_requests else UNSET,
        bool(spec.requires_republish),
        ",".join(spec.volume_lifecycle_modes) or "<none>",
        object_age(obj, now),
    ]


def _node(obj: storage_v1.CSINode, now: float) -> list[Any]:
    return [obj.metadata.name, len(obj.spec.drivers), object_age(obj, now)]


def _attachment(obj: storage_v1.VolumeAttachment, now: float) -> list[Any]:
    spec = obj.spec
    volume = spec.source.persistent_volume_name or ""
    return [obj.metadata.name, spec.attacher, volume, spec.node_name, obj.status.attached, object_age(obj, now)]


def _attributes_class(obj: storage_v1.VolumeAttributesClass, now: float) -> list[Any]:
    return [obj.metadata.name, obj.driver_name, object_age(obj, now)]


PRINTERS = printers(
    "storage",
    {
        "CSIDriver": _driver,
        "CSINode": _node,
        "StorageClass": _storage_class,
        "VolumeAttachment": _attachment,
        "VolumeAttributesClass": _attributes_class,
    },
)
