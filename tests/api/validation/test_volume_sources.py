"""Sources of volumes, in pods and in persistent volumes. Expected values are those of `pkg/apis/core/validation`."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.errors import FieldError
from bayplan.api.types import core_v1
from bayplan.api.validation.persistent_volumes import check_volume_spec
from tests.api.validation.pods import pod, problems

IQN = "iqn.2001-04.com.example:storage.disk1"
TARGET = {"targetPortal": "10.0.0.1:3260", "iqn": IQN}
DISK = {"diskName": "d", "diskURI": "https://a.blob.core.windows.net/b/c.vhd"}
MANAGED = "/subscriptions/a/resourcegroups/b/providers/microsoft.compute/disks/c"
QUOBYTE = {"registry": "a:1,b:2", "volume": "v"}


def in_pod(source: dict[str, Any]) -> list[str]:
    found = problems(pod({"volumes": [{"name": "v", **source}]}))
    return [one.removeprefix("spec.volumes[0].") for one in found]


def persistent(source: dict[str, Any], name: str = "v", *, inline: bool = False, **spec: Any) -> list[str]:
    tree = {"accessModes": ["ReadWriteOnce"], **({} if inline else {"capacity": {"storage": "1"}}), **source, **spec}
    errors: list[FieldError] = []
    check_volume_spec(errors, "spec", codec.from_tree(core_v1.PersistentVolumeSpec, tree), name, inline=inline)
    return [f"{error.field.removeprefix('spec.')} {error.type.name}" for error in errors]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"hostPath": {"path": "/a"}}, []),
        ({"hostPath": {"path": "/a", "type": "Socket"}}, []),
        ({"hostPath": {"path": "/a", "type": "Else"}}, ["hostPath.type NOT_SUPPORTED"]),
        ({"gcePersistentDisk": {"pdName": "d", "partition": 255}}, []),
        ({"gcePersistentDisk": {"pdName": "d", "partition": 0}}, []),
        ({"gcePersistentDisk": {"pdName": "d", "partition": 256}}, ["persistentDisk.partition INVALID"]),
        ({"gcePersistentDisk": {"pdName": "d", "partition": -1}}, ["persistentDisk.partition INVALID"]),
        ({"iscsi": {**TARGET, "lun": 255}}, []),
        ({"iscsi": {**TARGET, "lun": 256}}, ["iscsi.lun INVALID"]),
        ({"iscsi": {**TARGET, "lun": -1}}, ["iscsi.lun INVALID"]),
        ({"iscsi": {**TARGET, "chapAuthDiscovery": True}}, ["iscsi.secretRef REQUIRED"]),
        ({"iscsi": {**TARGET, "chapAuthSession": True}}, ["iscsi.secretRef REQUIRED"]),
        ({"iscsi": {**TARGET, "chapAuthSession": True, "secretRef": {"name": "s"}}}, []),
        ({"flocker": {"datasetName": "a"}}, []),
        ({"flocker": {"datasetUUID": "a"}}, []),
        ({"flocker": {}}, ["flocker REQUIRED"]),
        ({"flocker": {"datasetName": "a", "datasetUUID": "b"}}, ["flocker INVALID"]),
        ({"flocker": {"datasetName": "a/b"}}, ["flocker.datasetName INVALID"]),
        ({"quobyte": QUOBYTE}, []),
        ({"quobyte": {**QUOBYTE, "tenant": "t" * 64}}, []),
        ({"quobyte": {**QUOBYTE, "tenant": "t" * 65}}, ["quobyte.tenant REQUIRED"]),
        ({"quobyte": {**QUOBYTE, "registry": "a:1,b"}}, ["quobyte.registry INVALID"]),
        ({"fc": {"targetWWNs": ["a"], "lun": 0}}, []),
        ({"fc": {"targetWWNs": ["a"], "lun": 255}}, []),
        ({"fc": {"targetWWNs": ["a"], "lun": 256}}, ["fc.lun INVALID"]),
        ({"fc": {"targetWWNs": ["a"], "lun": -1}}, ["fc.lun INVALID"]),
        ({"fc": {"targetWWNs": ["a"]}}, ["fc.lun REQUIRED"]),
        ({"fc": {"wwids": ["a"]}}, []),
        ({"fc": {}}, ["fc.targetWWNs REQUIRED"]),
        ({"fc": {"targetWWNs": ["a"], "lun": 1, "wwids": ["b"]}}, ["fc.targetWWNs INVALID"]),
        ({"azureDisk": DISK}, []),
        ({"azureDisk": {**DISK, "kind": "Shared"}}, []),
        ({"azureDisk": {**DISK, "kind": "Managed"}}, ["azureDisk.diskURI NOT_SUPPORTED"]),
        ({"azureDisk": {**DISK, "kind": "Managed", "diskURI": MANAGED}}, []),
        ({"azureDisk": {**DISK, "kind": "Dedicated", "diskURI": MANAGED}}, ["azureDisk.diskURI NOT_SUPPORTED"]),
        ({"azureDisk": {**DISK, "kind": "Else"}}, ["azureDisk.kind NOT_SUPPORTED"]),
    ],
)
def test_sources(source: dict[str, Any], expected: list[str]) -> None:
    assert in_pod(source) == expected


@pytest.mark.parametrize(
    ("source", "for_pods", "for_persistent"),
    [
        ({"cinder": {"volumeID": "v"}}, [], []),
        ({"cinder": {"volumeID": "v", "secretRef": {"name": "s"}}}, [], ["cinder.secretRef.namespace REQUIRED"]),
        ({"cinder": {"volumeID": "v", "secretRef": {"name": "s", "namespace": "n"}}}, [], []),
        ({"cinder": {"volumeID": "v", "secretRef": {"namespace": "n"}}}, ["cinder.secretRef.name REQUIRED"], ["cinder.secretRef.name REQUIRED"]),
        ({"storageos": {"volumeName": "v", "secretRef": {"name": "s"}}}, [], ["storageos.secretRef.namespace REQUIRED"]),
        ({"storageos": {"volumeName": "v", "secretRef": {"name": "s", "namespace": "n"}}}, [], []),
        ({"azureFile": {"secretName": "s", "shareName": "h"}}, [], []),
        ({"azureFile": {"secretName": "s", "shareName": "h", "secretNamespace": "n"}}, [], []),
        ({"azureFile": {"secretName": "s", "shareName": "h", "secretNamespace": ""}}, [], ["azureFile.secretNamespace REQUIRED"]),
    ],
)  # fmt: skip
def test_secrets_of_persistent_volumes_have_a_namespace(
    source: dict[str, Any], for_pods: list[str], for_persistent: list[str]
) -> None:
    assert in_pod(source) == for_pods
    assert persistent(source) == for_persistent


CSI = {"csi": {"driver": "d", "volumeHandle": "h"}}
ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}


@pytest.mark.parametrize(
    ("spec", "own", "inline"),
    [
        ({}, [], []),
        ({"volumeMode": "Filesystem"}, [], []),
        ({"volumeMode": "Block"}, [], ["volumeMode FORBIDDEN"]),
        ({"volumeMode": "Else"}, ["volumeMode NOT_SUPPORTED"], ["volumeMode FORBIDDEN"]),
        ({"persistentVolumeReclaimPolicy": "Retain"}, [], []),
        ({"persistentVolumeReclaimPolicy": "Delete"}, [], ["persistentVolumeReclaimPolicy FORBIDDEN"]),
        ({"persistentVolumeReclaimPolicy": "Recycle"}, [], ["persistentVolumeReclaimPolicy FORBIDDEN"]),
        ({"storageClassName": "s"}, [], ["storageClassName FORBIDDEN"]),
        ({"claimRef": {"name": "c"}}, [], ["claimRef FORBIDDEN"]),
        ({"nodeAffinity": {"required": ZONE}}, [], ["nodeAffinity FORBIDDEN"]),
        ({"nodeAffinity": {}}, ["nodeAffinity.required REQUIRED"], ["nodeAffinity FORBIDDEN"]),
        ({"volumeAttributesClassName": "g"}, [], []),
        ({"volumeAttributesClassName": ""}, ["volumeAttributesClassName REQUIRED"], []),
    ],
)
def test_volumes_of_their_own_and_in_attachments(spec: dict[str, Any], own: list[str], inline: list[str]) -> None:
    assert persistent(CSI, **spec) == own
    assert persistent(CSI, **spec, inline=True) == inline


def test_volumes_without_csi() -> None:
    nfs = {"nfs": {"server": "s", "path": "/"}}
    assert persistent(nfs, inline=True) == ["csi REQUIRED"]
    assert persistent(nfs, volumeAttributesClassName="g") == ["csi REQUIRED"]


@pytest.mark.parametrize(
    ("path", "policy", "is_allowed"),
    [
        ("/", "Recycle", False),
        ("//", "Recycle", False),
        ("/a", "Recycle", True),
        ("/", "Retain", True),
        ("/a", "Retain", True),
    ],
)
def test_the_root_of_a_host_is_not_recycled(path: str, policy: str, is_allowed: bool) -> None:
    found = persistent({"hostPath": {"path": path}}, persistentVolumeReclaimPolicy=policy)
    assert found == ([] if is_allowed else ["persistentVolumeReclaimPolicy FORBIDDEN"])


@pytest.mark.parametrize(
    ("initiator", "portal", "is_allowed"),
    [(IQN, 62, True), (IQN, 63, False), (None, 63, True), (None, 62, True)],
)
def test_portals_beside_the_name_of_a_volume(initiator: str | None, portal: int, is_allowed: bool) -> None:
    source = {**TARGET, "targetPortal": "p" * portal, **({"initiatorName": initiator} if initiator else {})}
    found = persistent({"iscsi": source}, "v")
    assert found == ([] if is_allowed else ["iscsi.targetportal INVALID"])
