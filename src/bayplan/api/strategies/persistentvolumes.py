"""Persistent volumes."""

from __future__ import annotations

import msgspec

from bayplan.api import quantity
from bayplan.api.defaults.quantities import canonical_list
from bayplan.api.defaults.volumes import default_volume_source
from bayplan.api.errors import FieldError, forbidden, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation import formats
from bayplan.api.validation.claims import check_access_modes, check_storage_amount
from bayplan.api.validation.fields import Errors, check_format, check_unchanged, null_if_empty
from bayplan.api.validation.paths import check_no_backsteps
from bayplan.api.validation.pod_update import difference
from bayplan.api.validation.scheduling import check_node_selector
from bayplan.api.validation.storage import check_csi_driver_name
from bayplan.api.validation.volume_sources import (
    LONG_PORTAL,
    MAX_PORTAL,
    NAMES_OF_FURTHER_SOURCES,
    NAMES_OF_SOURCES,
    SHARED_SOURCES,
)

_POLICIES = ("Delete", "Recycle", "Retain")
_SOURCES = tuple(
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


class PersistentVolumeStrategy(Strategy):
    """Rules of persistent volumes."""

    has_status = True
    returns_object_on_delete = True

    def default(self, obj: core_v1.PersistentVolume) -> None:
        spec = obj.spec
        obj.status.phase = obj.status.phase or "Pending"
        spec.persistent_volume_reclaim_policy = spec.persistent_volume_reclaim_policy or "Retain"
        if spec.volume_mode is None:
            spec.volume_mode = "Filesystem"
        canonical_list(spec.capacity)
        default_volume_source(spec)

    def prepare_create(self, obj: core_v1.PersistentVolume) -> None:
        obj.status = core_v1.PersistentVolumeStatus(
            phase="Pending", last_phase_transition_time=obj.metadata.creation_timestamp
        )

    def validate(self, obj: core_v1.PersistentVolume) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        if not spec.access_modes:
            errors.append(required("spec.accessModes"))
        check_access_modes(errors, "spec.accessModes", spec.access_modes)
        _check_capacity(errors, spec.capacity)
        policy = spec.persistent_volume_reclaim_policy
        if policy not in _POLICIES:
            errors.append(unsupported("spec.persistentVolumeReclaimPolicy", policy, _POLICIES))
        if spec.node_affinity is not None:
            if spec.node_affinity.required is None:
                errors.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
            else:
                check_node_selector(errors, "spec.nodeAffinity.required", spec.node_affinity.required)
        _check_source(errors, spec, obj.metadata.name)
        if policy == "Recycle" and spec.host_path is not None and _is_root(spec.host_path.path):
            errors.append(
                forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
            )
        if spec.storage_class_name:
            check_format(errors, "spec.storageClassName", spec.storage_class_name, formats.dns_subdomain)
        if spec.volume_mode not in (None, "Block", "Filesystem"):
            errors.append(unsupported("spec.volumeMode", spec.volume_mode, ("Block", "Filesystem")))
        name = spec.volume_attributes_class_name
        if name is not None:
            if not name:
                errors.append(required("spec.volumeAttributesClassName", "an empty string is disallowed"))
            else:
                check_format(errors, "spec.volumeAttributesClassName", name, formats.dns_subdomain)
            if spec.csi is None:
                errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
        return errors

    def validate_update(self, obj: core_v1.PersistentVolume, old: core_v1.PersistentVolume) -> list[FieldError]:
        errors: list[FieldError] = []
        new = _without_new_expansion_secret(obj.spec, old.spec)
        if any(getattr(new, attribute) != getattr(old.spec, attribute) for attribute, _ in _SOURCES):
            text = f"spec.persistentvolumesource is immutable after creation\n{difference(old.spec, new)}"
            errors.append(forbidden("spec.persistentvolumesource", text))
        check_unchanged(errors, "volumeMode", obj.spec.volume_mode, old.spec.volume_mode)
        affinity, before = obj.spec.node_affinity, old.spec.node_affinity
        if before is not None and affinity != before and not _only_renamed_labels(affinity, before):
            text = "field is immutable, except for updating from beta label to GA"
            errors.append(invalid("nodeAffinity", affinity, text))
        if old.spec.volume_attributes_class_name is not None and obj.spec.volume_attributes_class_name is None:
            text = "update from non-nil value to nil is forbidden"
            errors.append(forbidden("spec.volumeAttributesClassName", text))
        return errors

    def validate_status_update(self, obj: core_v1.PersistentVolume, old: core_v1.PersistentVolume) -> list[FieldError]:
        return [] if obj.metadata.resource_version else [required("resourceVersion")]


def _without_new_expansion_secret(
    spec: core_v1.PersistentVolumeSpec, old: core_v1.PersistentVolumeSpec
) -> core_v1.PersistentVolumeSpec:
    """The spec without a secret for expansion that it got only now, which is allowed."""
    if old.csi is None or old.csi.controller_expand_secret_ref is not None or spec.csi is None:
        return spec
    return msgspec.structs.replace(spec, csi=msgspec.structs.replace(spec.csi, controller_expand_secret_ref=None))


_GA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def _only_renamed_labels(new: core_v1.VolumeNodeAffinity | None, old: core_v1.VolumeNodeAffinity) -> bool:
    """Whether the affinities differ at most in beta labels that became general ones."""
    if new is None or new.required is None or old.required is None:
        return new == old
    terms, former = new.required.node_selector_terms, old.required.node_selector_terms
    if len(terms) != len(former):
        return False
    return all(
        _same_requirements(term.match_expressions, before.match_expressions)
        and _same_requirements(term.match_fields, before.match_fields)
        for term, before in zip(terms, former, strict=True)
    )


def _same_requirements(
    new: tuple[core_v1.NodeSelectorRequirement, ...], old: tuple[core_v1.NodeSelectorRequirement, ...]
) -> bool:
    return len(new) == len(old) and all(
        (one.operator, one.values) == (other.operator, other.values)
        and one.key in (other.key, _GA_LABELS.get(other.key))
        for one, other in zip(new, old, strict=True)
    )


def _is_root(path: str) -> bool:
    return not path.strip("/") and path.startswith("/")


def _check_capacity(errors: Errors, capacity: dict[str, str | int | float]) -> None:
    if not capacity:
        errors.append(required("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(unsupported("spec.capacity", null_if_empty(capacity), ("storage",)))
    for name in sorted(capacity):
        amount = quantity.parse(capacity[name])
        if amount.value() < 0:
            errors.append(invalid(f"spec.capacity[{name}]", amount.value(), "must be a valid resource quantity"))
        check_storage_amount(errors, f"spec.capacity[{name}]", capacity[name])


def _check_source(errors: Errors, spec: core_v1.PersistentVolumeSpec, volume_name: str) -> None:
    names = dict(_SOURCES)
    count = 0
    for attribute in _ORDER:
        source = getattr(spec, attribute)
        if source is None:
            continue
        count += 1
        where = f"spec.{names[attribute]}"
        if count > 1 and attribute != "flex_volume":
            shown = NAMES_OF_FURTHER_SOURCES.get(attribute, names[attribute])
            errors.append(forbidden(f"spec.{shown}", "may not specify more than 1 volume type"))
        elif attribute == "local":
            _check_local(errors, spec, source)
        elif attribute == "csi":
            _check_csi(errors, where, source)
        else:
            if isinstance(source, core_v1.ISCSIPersistentVolumeSource):
                _check_portal(errors, source, volume_name)
            SHARED_SOURCES[attribute](errors, f"spec.{NAMES_OF_SOURCES.get(attribute, names[attribute])}", source)
    if not count:
        errors.append(required("spec", "must specify a volume type"))


def _check_portal(errors: Errors, source: core_v1.ISCSIPersistentVolumeSource, volume_name: str) -> None:
    if source.initiator_name is not None and len(f"{volume_name}:{source.target_portal}") > MAX_PORTAL:
        errors.append(invalid("spec.iscsi.targetportal", source.target_portal, LONG_PORTAL))


def _check_local(errors: Errors, spec: core_v1.PersistentVolumeSpec, source: core_v1.LocalVolumeSource) -> None:
    if not source.path:
        errors.append(required("spec.local.path"))
    else:
        check_no_backsteps(errors, "spec.local.path", source.path)
    if spec.node_affinity is None:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))


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


STRATEGY = PersistentVolumeStrategy()
