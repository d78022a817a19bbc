"""Rules for the spec of a persistent volume, also inside volume attachments."""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.api.errors import forbidden, invalid, required, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.devices.claims import check_access_modes, check_storage_amount
from bayplan.api.validation.fields import Errors, check_format, null_if_empty
from bayplan.api.validation.label_warnings import term_warnings
from bayplan.api.validation.pods.scheduling import check_node_selector
from bayplan.api.validation.pods.volume_sources import (
    LONG_PORTAL,
    MAX_PORTAL,
    NAMES_OF_FURTHER_SOURCES,
    NAMES_OF_SOURCES,
    SHARED_SOURCES,
)
from bayplan.api.validation.storage import check_csi_driver_name
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.paths import check_no_backsteps

_POLICIES = ("Delete", "Recycle", "Retain")
SOURCES = tuple(
    (attribute, name)
    for attribute, name in zip(
        core_v1.PersistentVolumeSpec.__struct_fields__,
        core_v1.PersistentVolumeSpec.__struct_encode_fields__,
        strict=True,
    )
    if attribute in SHARED_SOURCES or attribute in ("local", "csi")
)
_ORDER = (
    "host_path",
    "gce_persistent_disk",
    "aws_elastic_block_store",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flex_volume",
    "azure_file",
    "vsphere_volume",
    "photon_persistent_disk",
    "portworx_volume",
    "azure_disk",
    "scale_io",
    "local",
    "storageos",
    "csi",
)
MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_MOUNTED = (
    "gce_persistent_disk",
    "aws_elastic_block_store",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azure_file",
    "vsphere_volume",
    "azure_disk",
    "photon_persistent_disk",
)
"""Sources that take options in an annotation."""
_DEPRECATED_ANNOTATIONS = (
    ("volume.beta.kubernetes.io/storage-class", 'deprecated since v1.8; use "storageClassName" attribute instead'),
    (MOUNT_OPTIONS, 'deprecated since v1.31; use "mountOptions" attribute instead'),
)
_DEPRECATED_SOURCES = (
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photon_persistent_disk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scale_io", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
_RECYCLE_TEXT = (
    "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
)
_INLINE = "in the context of inline volumes"


def volume_warnings(spec: core_v1.PersistentVolumeSpec, annotations: dict[str, str]) -> list[str]:
    """Warnings about what a volume should not use any more."""
    found = [f"metadata.annotations[{key}]: {text}" for key, text in _DEPRECATED_ANNOTATIONS if key in annotations]
    if spec.persistent_volume_reclaim_policy == "Recycle":
        found.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLE_TEXT}")
    if spec.node_affinity is not None and spec.node_affinity.required is not None:
        for index, term in enumerate(spec.node_affinity.required.node_selector_terms):
            found.extend(term_warnings(f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]", term))
    found += [
        f"spec.{field}: {text}"
        for attribute, field, text in _DEPRECATED_SOURCES
        if getattr(spec, attribute) is not None
    ]
    return found


def takes_mount_options(spec: core_v1.PersistentVolumeSpec) -> bool:
    """Whether the annotation with options means something."""
    return any(getattr(spec, attribute) is not None for attribute in _MOUNTED)


def check_volume_spec(
    errors: Errors, path: str, spec: core_v1.PersistentVolumeSpec, name: str, *, inline: bool = False
) -> None:
    """The spec of the volume of that name, or one that stands inline in an attachment (without a name)."""
    if inline:
        _check_inline(errors, path, spec)
    if not spec.access_modes:
        errors.append(required(f"{path}.accessModes"))
    check_access_modes(errors, f"{path}.accessModes", spec.access_modes)
    if not inline:
        _check_capacity(errors, f"{path}.capacity", spec.capacity)
    _check_policy(errors, f"{path}.persistentVolumeReclaimPolicy", spec, inline=inline)
    _check_affinity(errors, f"{path}.nodeAffinity", spec.node_affinity, inline=inline)
    _check_source(errors, path, spec, name)
    if (
        spec.persistent_volume_reclaim_policy == "Recycle"
        and spec.host_path is not None
        and _is_root(spec.host_path.path)
    ):
        errors.append(
            forbidden(f"{path}.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
        )
    if spec.storage_class_name and inline:
        errors.append(forbidden(f"{path}.storageClassName", f"may not be specified {_INLINE}"))
    elif spec.storage_class_name:
        check_format(errors, f"{path}.storageClassName", spec.storage_class_name, formats.dns_subdomain)
    if inline and spec.volume_mode not in (None, "Filesystem"):
        errors.append(forbidden(f"{path}.volumeMode", f"may not specify volumeMode other than Filesystem {_INLINE}"))
    elif spec.volume_mode not in (None, "Block", "Filesystem"):
        errors.append(unsupported(f"{path}.volumeMode", spec.volume_mode, ("Block", "Filesystem")))
    if not inline and spec.volume_attributes_class_name is not None:
        _check_attributes_class(errors, path, spec, spec.volume_attributes_class_name)


def _check_inline(errors: Errors, path: str, spec: core_v1.PersistentVolumeSpec) -> None:
    if spec.claim_ref is not None:
        errors.append(forbidden(f"{path}.claimRef", f"may not be specified {_INLINE}"))
    if spec.capacity:
        errors.append(forbidden(f"{path}.capacity", f"may not be specified {_INLINE}"))
    if spec.csi is None:
        errors.append(required(f"{path}.csi", f"has to be specified {_INLINE}"))


def _check_policy(errors: Errors, path: str, spec: core_v1.PersistentVolumeSpec, *, inline: bool) -> None:
    policy = spec.persistent_volume_reclaim_policy
    if inline and policy not in ("", "Retain"):
        errors.append(forbidden(path, f"may only be Retain {_INLINE}"))
    elif policy and not inline and policy not in _POLICIES:
        errors.append(unsupported(path, policy, _POLICIES))


def _check_affinity(errors: Errors, path: str, affinity: core_v1.VolumeNodeAffinity | None, *, inline: bool) -> None:
    if affinity is None:
        return
    if inline:
        errors.append(forbidden(path, f"may not be specified {_INLINE}"))
    elif affinity.required is None:
        errors.append(required(f"{path}.required", "must specify required node constraints"))
    else:
        check_node_selector(errors, f"{path}.required", affinity.required)


def _check_attributes_class(errors: Errors, path: str, spec: core_v1.PersistentVolumeSpec, name: str) -> None:
    if not name:
        errors.append(required(f"{path}.volumeAttributesClassName", "an empty string is disallowed"))
    else:
        check_format(errors, f"{path}.volumeAttributesClassName", name, formats.dns_subdomain)
    if spec.csi is None:
        errors.append(required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))


def _is_root(path: str) -> bool:
    return not path.strip("/") and path.startswith("/")


def _check_capacity(errors: Errors, path: str, capacity: dict[str, str | int | float]) -> None:
    if not capacity:
        errors.append(required(path))
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(unsupported(path, null_if_empty(capacity), ("storage",)))
    for name in sorted(capacity):
        amount = quantity.parse(capacity[name])
        if amount.value() < 0:
            errors.append(invalid(f"{path}[{name}]", amount.value(), "must be a valid resource quantity"))
        check_storage_amount(errors, f"{path}[{name}]", capacity[name])


def _check_source(errors: Errors, path: str, spec: core_v1.PersistentVolumeSpec, volume_name: str) -> None:
    names = dict(SOURCES)
    count = 0
    for attribute in _ORDER:
        source = getattr(spec, attribute)
        if source is None:
            continue
        count += 1
        where = f"{path}.{names[attribute]}"
        if count > 1 and attribute != "flex_volume":
            shown = NAMES_OF_FURTHER_SOURCES.get(attribute, names[attribute])
            errors.append(forbidden(f"{path}.{shown}", "may not specify more than 1 volume type"))
        elif attribute == "local":
            _check_local(errors, path, spec, source)
        elif attribute == "csi":
            _check_csi(errors, where, source)
        else:
            if isinstance(source, core_v1.ISCSIPersistentVolumeSource):
                _check_portal(errors, path, source, volume_name)
            SHARED_SOURCES[attribute](errors, f"{path}.{NAMES_OF_SOURCES.get(attribute, names[attribute])}", source)
    if not count:
        errors.append(required(path, "must specify a volume type"))


def _check_portal(errors: Errors, path: str, source: core_v1.ISCSIPersistentVolumeSource, volume_name: str) -> None:
    if source.initiator_name is not None and formats.size(f"{volume_name}:{source.target_portal}") > MAX_PORTAL:
        errors.append(invalid(f"{path}.iscsi.targetportal", source.target_portal, LONG_PORTAL))


def _check_local(
    errors: Errors, path: str, spec: core_v1.PersistentVolumeSpec, source: core_v1.LocalVolumeSource
) -> None:
    if not source.path:
        errors.append(required(f"{path}.local.path"))
    else:
        check_no_backsteps(errors, f"{path}.local.path", source.path)
    if spec.node_affinity is None:
        errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))


def _check_csi(errors: Errors, path: str, source: core_v1.CSIPersistentVolumeSource) -> None:
    check_csi_driver_name(errors, f"{path}.driver", source.driver)
    if not source.volume_handle:
        errors.append(required(f"{path}.volumeHandle"))
    for name, secret in (
        ("controllerPublishSecretRef", source.controller_publish_secret_ref),
        ("controllerExpandSecretRef", source.controller_expand_secret_ref),
        ("nodePublishSecretRef", source.node_publish_secret_ref),
        ("nodeExpandSecretRef", source.node_expand_secret_ref),
    ):
        if secret is not None:
            for part, value, rule in (
                ("name", secret.name, formats.dns_subdomain),
                ("namespace", secret.namespace, formats.dns_label),
            ):
                if not value:
                    errors.append(required(f"{path}.{name}.{part}"))
                else:
                    check_format(errors, f"{path}.{name}.{part}", value, rule)
