"""The objects by which a cluster knows the local driver, as YAML."""

from __future__ import annotations

from typing import Any, Final

import yaml

from bayplan.csi_local.settings import DRIVER_NAME

DIRECTORY_CLASS: Final = "local-directory"
IMAGE_CLASS: Final = "local-image"
_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_DEFAULT_SNAPSHOTS: Final = "snapshot.storage.kubernetes.io/is-default-class"


def objects(name: str = DRIVER_NAME, *, default: bool = True) -> list[dict[str, Any]]:
    """CSIDriver and storage classes. default: whether claims that name no class get directories."""
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": name},
            "spec": {
                "attachRequired": False,
                "podInfoOnMount": True,  # or else a kubelet does not say which volumes are inline
                "fsGroupPolicy": "File",
                "storageCapacity": True,
                "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            },
        },
        _class(DIRECTORY_CLASS, name, {"type": "directory"}, default=default),
        _class(IMAGE_CLASS, name, {"type": "image", "csi.storage.k8s.io/fstype": "ext4"}, default=False),
    ]


def _class(class_name: str, driver: str, parameters: dict[str, str], *, default: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": class_name}
    if default:
        metadata["annotations"] = {_DEFAULT: "true"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": driver,
        "parameters": parameters,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }


def snapshot_class(name: str = DRIVER_NAME) -> dict[str, Any]:
    """The class of snapshots. Its kind comes from the definitions that `bayplan csi-controller manifests` prints."""
    return {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": "local", "annotations": {_DEFAULT_SNAPSHOTS: "true"}},
        "driver": name,
        "deletionPolicy": "Delete",
    }


def as_yaml(found: list[dict[str, Any]]) -> str:
    """One document for each object."""
    return yaml.safe_dump_all(found, sort_keys=False)
