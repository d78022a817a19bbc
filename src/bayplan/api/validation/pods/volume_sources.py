"""Rules for the volume sources that pods and persistent volumes share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bayplan.api.errors import invalid, required, unsupported, unsupported_text
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors, check_format
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.paths import check_no_backsteps

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")


def _check_host_path(errors: Errors, path: str, source: core_v1.HostPathVolumeSource) -> None:
    if not source.path:
        errors.append(required(f"{path}.path"))
        return
    check_no_backsteps(errors, f"{path}.path", source.path)
    if source.type is not None and source.type not in _HOST_PATH_TYPES:
        errors.append(unsupported(f"{path}.type", source.type, _HOST_PATH_TYPES))


def _check_gce(errors: Errors, path: str, source: core_v1.GCEPersistentDiskVolumeSource) -> None:
    if not source.pd_name:
        errors.append(required(f"{path}.pdName"))
    _check_partition(errors, path, source.partition)


def _check_aws(errors: Errors, path: str, source: core_v1.AWSElasticBlockStoreVolumeSource) -> None:
    if not source.volume_id:
        errors.append(required(f"{path}.volumeID"))
    _check_partition(errors, path, source.partition)


def _check_partition(errors: Errors, path: str, partition: int) -> None:
    if not 0 <= partition <= 255:
        errors.append(invalid(f"{path}.partition", partition, "must be between 1 and 255, inclusive"))


def _check_nfs(errors: Errors, path: str, source: core_v1.NFSVolumeSource) -> None:
    if not source.server:
        errors.append(required(f"{path}.server"))
    if not source.path:
        errors.append(required(f"{path}.path"))
    if not source.path.startswith("/"):
        errors.append(invalid(f"{path}.path", source.path, "must be an absolute path"))


def _check_iscsi(
    errors: Errors, path: str, source: core_v1.ISCSIVolumeSource | core_v1.ISCSIPersistentVolumeSource
) -> None:
    in_pod = isinstance(source, core_v1.ISCSIVolumeSource)
    if not source.target_portal:
        errors.append(required(f"{path}.targetPortal"))
    if not source.iqn:
        errors.append(required(f"{path}.iqn"))
    else:
        _check_initiator(errors, f"{path}.iqn", source.iqn, in_pod=in_pod)
    if not 0 <= source.lun <= 255:
        errors.append(invalid(f"{path}.lun", source.lun, "must be between 0 and 255, inclusive"))
    if (source.chap_auth_discovery or source.chap_auth_session) and source.secret_ref is None:
        errors.append(required(f"{path}.secretRef"))
    if not in_pod and source.secret_ref is not None and not source.secret_ref.name:
        errors.append(required(f"{path}.secretRef.name"))
    if source.initiator_name is not None:
        _check_initiator(errors, f"{path}.initiatorname", source.initiator_name, in_pod=in_pod)


_INITIATORS = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)$", re.ASCII).search,
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}").fullmatch,
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}").fullmatch,
}
MAX_PORTAL = 64
LONG_PORTAL = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."


def _check_initiator(errors: Errors, path: str, name: str, *, in_pod: bool) -> None:
    """The name of an iSCSI target or initiator."""
    matches = _INITIATORS.get(name[:3])
    if matches is None:
        text = "must be valid format starting with iqn, eui, or naa" if in_pod else "must be valid format"
        errors.append(invalid(path, name, text))
    elif not matches(name):
        errors.append(invalid(path, name, "must be valid format"))


def _check_glusterfs(
    errors: Errors, path: str, source: core_v1.GlusterfsVolumeSource | core_v1.GlusterfsPersistentVolumeSource
) -> None:
    if not source.endpoints:
        errors.append(required(f"{path}.endpoints"))
    if not source.path:
        errors.append(required(f"{path}.path"))
    namespace = source.endpoints_namespace if isinstance(source, core_v1.GlusterfsPersistentVolumeSource) else None
    if namespace is not None:
        where = f"{path}.endpointsNamespace"
        if not namespace:
            errors.append(invalid(where, "", "if the endpointnamespace is set, it must be a valid namespace name"))
        else:
            check_format(errors, where, namespace, formats.dns_label)


def _check_flocker(errors: Errors, path: str, source: core_v1.FlockerVolumeSource) -> None:
    if not source.dataset_name and not source.dataset_uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if source.dataset_name and source.dataset_uuid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in source.dataset_name:
        errors.append(invalid(f"{path}.datasetName", source.dataset_name, "must not contain '/'"))


def _check_rbd(errors: Errors, path: str, source: core_v1.RBDVolumeSource | core_v1.RBDPersistentVolumeSource) -> None:
    if not source.monitors:
        errors.append(required(f"{path}.monitors"))
    if not source.image:
        errors.append(required(f"{path}.image"))


def _check_cinder(
    errors: Errors, path: str, source: core_v1.CinderVolumeSource | core_v1.CinderPersistentVolumeSource
) -> None:
    if not source.volume_id:
        errors.append(required(f"{path}.volumeID"))
    secret = source.secret_ref
    if secret is not None:
        if not secret.name:
            errors.append(required(f"{path}.secretRef.name"))
        if isinstance(secret, core_v1.SecretReference) and not secret.namespace:
            errors.append(required(f"{path}.secretRef.namespace"))


def _check_cephfs(
    errors: Errors, path: str, source: core_v1.CephFSVolumeSource | core_v1.CephFSPersistentVolumeSource
) -> None:
    if not source.monitors:
        errors.append(required(f"{path}.monitors"))


def _check_quobyte(errors: Errors, path: str, source: core_v1.QuobyteVolumeSource) -> None:
    if not source.registry:
        errors.append(required(f"{path}.registry", "must be a host:port pair or multiple pairs separated by commas"))
    elif len(source.tenant) >= 65:
        errors.append(required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        for pair in source.registry.split(","):
            if ":" not in pair:
                errors.append(
                    invalid(
                        f"{path}.registry",
                        source.registry,
                        "must be a host:port pair or multiple pairs separated by commas",
                    )
                )
    if not source.volume:
        errors.append(required(f"{path}.volume"))


def _check_fc(errors: Errors, path: str, source: core_v1.FCVolumeSource) -> None:
    if not source.target_wwns and not source.wwids:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if source.target_wwns and source.wwids:
        errors.append(
            invalid(
                f"{path}.targetWWNs", source.target_wwns, "targetWWNs and wwids can not be specified simultaneously"
            )
        )
    if source.target_wwns:
        if source.lun is None:
            errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
        elif not 0 <= source.lun <= 255:
            errors.append(invalid(f"{path}.lun", source.lun, "must be between 0 and 255, inclusive"))


def _check_flex(
    errors: Errors, path: str, source: core_v1.FlexVolumeSource | core_v1.FlexPersistentVolumeSource
) -> None:
    if not source.driver:
        errors.append(required(f"{path}.driver"))
    for key in source.options:
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            errors.append(invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved"))


def _check_azure_file(
    errors: Errors, path: str, source: core_v1.AzureFileVolumeSource | core_v1.AzureFilePersistentVolumeSource
) -> None:
    if not source.secret_name:
        errors.append(required(f"{path}.secretName"))
    if not source.share_name:
        errors.append(required(f"{path}.shareName"))
    if isinstance(source, core_v1.AzureFilePersistentVolumeSource) and source.secret_namespace == "":
        errors.append(required(f"{path}.secretNamespace"))


def _check_vsphere(errors: Errors, path: str, source: core_v1.VsphereVirtualDiskVolumeSource) -> None:
    if not source.volume_path:
        errors.append(required(f"{path}.volumePath"))


def _check_photon(errors: Errors, path: str, source: core_v1.PhotonPersistentDiskVolumeSource) -> None:
    if not source.pd_id:
        errors.append(required(f"{path}.pdID"))


def _check_portworx(errors: Errors, path: str, source: core_v1.PortworxVolumeSource) -> None:
    if not source.volume_id:
        errors.append(required(f"{path}.volumeID"))


def _check_azure_disk(errors: Errors, path: str, source: core_v1.AzureDiskVolumeSource) -> None:
    if not source.disk_name:
        errors.append(required(f"{path}.diskName"))
    if not source.disk_uri:
        errors.append(required(f"{path}.diskURI"))
    if source.caching_mode not in (None, "None", "ReadOnly", "ReadWrite"):
        errors.append(unsupported(f"{path}.cachingMode", source.caching_mode, ("None", "ReadOnly", "ReadWrite")))
    if source.kind not in (None, "Dedicated", "Managed", "Shared"):
        errors.append(unsupported(f"{path}.kind", source.kind, ("Dedicated", "Managed", "Shared")))
    if source.kind == "Managed" and not source.disk_uri.startswith("/subscriptions/"):
        errors.append(
            unsupported_text(
                f"{path}.diskURI",
                source.disk_uri,
                ("/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",),
            )
        )
    elif source.kind not in (None, "Managed") and not source.disk_uri.startswith("https://"):
        errors.append(
            unsupported_text(
                f"{path}.diskURI",
                source.disk_uri,
                ("https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",),
            )
        )


def _check_storageos(
    errors: Errors, path: str, source: core_v1.StorageOSVolumeSource | core_v1.StorageOSPersistentVolumeSource
) -> None:
    if not source.volume_name:
        errors.append(required(f"{path}.volumeName"))
    else:
        check_format(errors, f"{path}.volumeName", source.volume_name, formats.dns_label)
    if source.volume_namespace:
        check_format(errors, f"{path}.volumeNamespace", source.volume_namespace, formats.dns_label)
    secret = source.secret_ref
    if secret is not None:
        if not secret.name:
            errors.append(required(f"{path}.secretRef.name"))
        if isinstance(secret, core_v1.ObjectReference) and not secret.namespace:
            errors.append(required(f"{path}.secretRef.namespace"))


def _check_scale_io(
    errors: Errors, path: str, source: core_v1.ScaleIOVolumeSource | core_v1.ScaleIOPersistentVolumeSource
) -> None:
    for name, value in (("gateway", source.gateway), ("system", source.system), ("volumeName", source.volume_name)):
        if not value:
            errors.append(required(f"{path}.{name}"))


NAMES_OF_SOURCES = {"gce_persistent_disk": "persistentDisk"}
"""How errors name what is in a source, where that is not the name of its field."""
NAMES_OF_FURTHER_SOURCES = {"cephfs": "cephFS", "downward_api": "downwarAPI"}
"""How errors name a source that is one too many, where that is not the name of its field."""
Check = Callable[[Errors, str, Any], None]
SHARED_SOURCES: dict[str, Check] = {
    "host_path": _check_host_path,
    "gce_persistent_disk": _check_gce,
    "aws_elastic_block_store": _check_aws,
    "nfs": _check_nfs,
    "iscsi": _check_iscsi,
    "glusterfs": _check_glusterfs,
    "flocker": _check_flocker,
    "rbd": _check_rbd,
    "cinder": _check_cinder,
    "cephfs": _check_cephfs,
    "quobyte": _check_quobyte,
    "fc": _check_fc,
    "flex_volume": _check_flex,
    "azure_file": _check_azure_file,
    "vsphere_volume": _check_vsphere,
    "photon_persistent_disk": _check_photon,
    "portworx_volume": _check_portworx,
    "azure_disk": _check_azure_disk,
    "storageos": _check_storageos,
    "scale_io": _check_scale_io,
}
"""Attribute of the source -> its rules; the same for volumes and persistent volumes but for the type of secret
references."""
