"""Persistent volumes."""

from __future__ import annotations

import msgspec

from bayplan.api.defaults.quantities import canonical_list
from bayplan.api.defaults.volumes import default_volume_source
from bayplan.api.errors import FieldError, forbidden, invalid, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.differences import difference
from bayplan.api.validation.fields import (
    check_unchanged,
)
from bayplan.api.validation.go_structs import go_part, go_struct
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.persistent_volumes import (
    MOUNT_OPTIONS,
    SOURCES,
    check_volume_spec,
    takes_mount_options,
    volume_warnings,
)
from bayplan.support.timestamps import rfc3339


class PersistentVolumeStrategy(Strategy):
    """Rules of persistent volumes."""

    update_checks = UpdateChecks(whole=2, change=0)
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

    def prepare_status_update(self, obj: core_v1.PersistentVolume, old: core_v1.PersistentVolume) -> None:
        super().prepare_status_update(obj, old)
        if obj.status.phase == old.status.phase and obj.status.last_phase_transition_time is None:
            obj.status.last_phase_transition_time = old.status.last_phase_transition_time

    def renew_status_times(self, obj: core_v1.PersistentVolume, old: core_v1.PersistentVolume, now: float) -> None:
        """A new phase begins now, unless its writer says when."""
        status, before = obj.status, old.status.last_phase_transition_time
        if status.phase != old.status.phase and status.last_phase_transition_time in (None, before):
            status.last_phase_transition_time = rfc3339(now)

    def validate(self, obj: core_v1.PersistentVolume) -> list[FieldError]:
        errors: list[FieldError] = []
        check_volume_spec(errors, "spec", obj.spec, obj.metadata.name)
        if MOUNT_OPTIONS in obj.metadata.annotations and not takes_mount_options(obj.spec):
            path = f"metadata.annotations.{MOUNT_OPTIONS}"
            errors.append(forbidden(path, "may not specify mount options for this volume type"))
        return errors

    def validate_update(self, obj: core_v1.PersistentVolume, old: core_v1.PersistentVolume) -> list[FieldError]:
        errors = self.validate(obj)  # twice, as in Kubernetes
        new = _without_new_expansion_secret(obj.spec, old.spec)
        if any(getattr(new, attribute) != getattr(old.spec, attribute) for attribute, _ in SOURCES):
            shown = [go_part(spec, [attribute for attribute, _ in SOURCES]) for spec in (old.spec, new)]
            text = f"spec.persistentvolumesource is immutable after creation\n{difference(*shown)}"
            errors.append(forbidden("spec.persistentvolumesource", text))
        check_unchanged(errors, "volumeMode", obj.spec.volume_mode, old.spec.volume_mode)
        affinity, before = obj.spec.node_affinity, old.spec.node_affinity
        if before is not None and affinity != before and not _only_renamed_labels(affinity, before):
            text = "field is immutable, except for updating from beta label to GA"
            errors.append(invalid("nodeAffinity", go_struct(affinity), text))
        if old.spec.volume_attributes_class_name is not None and obj.spec.volume_attributes_class_name is None:
            text = "update from non-nil value to nil is forbidden"
            errors.append(forbidden("spec.volumeAttributesClassName", text))
        return errors

    def warnings(self, obj: core_v1.PersistentVolume, old: core_v1.PersistentVolume | None) -> list[str]:
        return volume_warnings(obj.spec, obj.metadata.annotations)

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


STRATEGY = PersistentVolumeStrategy()
