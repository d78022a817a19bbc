"""Pods."""

from __future__ import annotations

from typing import Final

import msgspec

from bayplan.api.defaults.pod_spec import default_pod_spec
from bayplan.api.defaults.pods import app_armor_from_annotations, default_pod, merge_match_label_keys, qos_class
from bayplan.api.errors import FieldError, forbidden
from bayplan.api.managedfields.fieldset import FieldSet, of_paths
from bayplan.api.pods.execution_rules import kept_rules
from bayplan.api.strategies.base import Strategy
from bayplan.api.strategies.core.pod_forms import ValidForms
from bayplan.api.types import core_v1
from bayplan.api.validation.ip_warnings import ip_warnings
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.pods.pod_spec import check_pod_containers_only, check_pod_spec
from bayplan.api.validation.pods.pod_status import validate_pod_status_update
from bayplan.api.validation.pods.pod_update import (
    validate_ephemeral_containers_update,
    validate_pod_update,
    validate_resize,
)
from bayplan.api.validation.pods.pod_warnings import app_armor_warnings, pod_name_warnings, pod_warnings
from bayplan.api.validation.profiles import check_annotation_changes, check_pod_annotations, check_profiles_match

_replace = msgspec.structs.replace


NODE_FIELD: Final = "spec.nodeName"
NOMINATION_FIELD: Final = "status.nominatedNodeName"


class PodStrategy(Strategy):
    """Rules of pods."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    reset_by_status = of_paths(("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences"))
    counts_generation = True
    has_status = True
    returns_object_on_delete = True
    selectable_field_names = frozenset(
        (
            NODE_FIELD,
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            NOMINATION_FIELD,
        )
    )

    def __init__(self) -> None:
        self._valid_forms = ValidForms()

    def default(self, obj: core_v1.Pod) -> None:
        default_pod_spec(obj.spec)
        default_pod(obj)

    def ownable(self, subresource: str, fields: FieldSet) -> FieldSet:
        """See Strategy; nothing is kept from writers of ephemeral containers and of resizes."""
        return fields if subresource in ("ephemeralcontainers", "resize") else super().ownable(subresource, fields)

    def prepare_create(self, obj: core_v1.Pod) -> None:
        spec = obj.spec
        obj.status = core_v1.PodStatus(phase="Pending", qos_class=obj.status.qos_class or qos_class(spec))
        if spec.scheduling_gates:
            gated = core_v1.PodCondition(
                type="PodScheduled",
                status="False",
                last_transition_time=obj.metadata.creation_timestamp,
                reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
            )
            obj.status.conditions = (gated,)
        if spec.termination_grace_period_seconds is not None and spec.termination_grace_period_seconds < 0:
            spec.termination_grace_period_seconds = 1
        if spec.affinity is not None or spec.topology_spread_constraints:
            merge_match_label_keys(obj)
        if obj.metadata.annotations:
            app_armor_from_annotations(obj)

    def prepare_update(self, obj: core_v1.Pod, old: core_v1.Pod) -> None:
        obj.status = old.status
        if old.spec.affinity is not None:
            obj.spec.affinity = kept_rules(obj.spec.affinity, old.spec.affinity)
        if obj.spec.termination_grace_period_seconds is not None and obj.spec.termination_grace_period_seconds < 0:
            obj.spec.termination_grace_period_seconds = 1

    def prepare_status_update(self, obj: core_v1.Pod, old: core_v1.Pod) -> None:
        obj.spec = old.spec
        metadata = obj.metadata
        metadata.deletion_timestamp = old.metadata.deletion_timestamp
        metadata.owner_references = old.metadata.owner_references
        if obj.status.observed_generation == 0:
            obj.status.observed_generation = old.status.observed_generation
        _keep_observed_generations(obj.status, old.status)
        if not obj.status.qos_class:
            obj.status.qos_class = old.status.qos_class or qos_class(old.spec)

    def prepare_subresource_update(self, subresource: str, obj: core_v1.Pod, old: core_v1.Pod) -> None:
        if subresource == "resize" and _other_containers(obj.spec, old.spec):
            return  # what was sent is refused as it is
        obj.status = old.status
        if subresource in ("ephemeralcontainers", "resize"):
            new, kept = obj.metadata, old.metadata
            new.labels, new.annotations = kept.labels, kept.annotations
            new.finalizers, new.owner_references = kept.finalizers, kept.owner_references
            new.deletion_timestamp = kept.deletion_timestamp
            new.deletion_grace_period_seconds = kept.deletion_grace_period_seconds
        if subresource == "ephemeralcontainers":
            obj.spec = _replace(old.spec, ephemeral_containers=obj.spec.ephemeral_containers)
        elif subresource == "resize":
            obj.spec = _resized(obj.spec, old.spec)
        else:
            super().prepare_subresource_update(subresource, obj, old)

    def validate(self, obj: core_v1.Pod) -> list[FieldError]:
        annotations, spec = obj.metadata.annotations, obj.spec
        errors: list[FieldError] = []
        if annotations:
            check_pod_annotations(errors, "metadata.annotations", annotations, spec)
        if self._valid_forms.knows(spec):
            return errors
        check_pod_spec(errors, "spec", spec, obj.metadata)
        if not spec.service_account_name:
            _check_tokens(errors, spec)
        check_pod_containers_only(errors, spec)
        return errors

    def validate_create(self, obj: core_v1.Pod) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.spec.ephemeral_containers:
            errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if obj.spec.node_name and obj.spec.scheduling_gates:
            errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        if obj.metadata.annotations:
            check_profiles_match(errors, "spec", obj.metadata.annotations, obj.spec)
        return errors

    def validate_update(self, obj: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
        return [*_annotation_problems(obj, old), *validate_pod_update(obj, old)]

    def validate_status_update(self, obj: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
        return [*_annotation_problems(obj, old), *validate_pod_status_update(obj, old)]

    def validate_subresource_update(self, subresource: str, obj: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
        if subresource == "ephemeralcontainers":
            return [
                *self.validate(obj),
                *_annotation_problems(obj, old),
                *validate_ephemeral_containers_update(obj, old),
            ]
        if subresource == "resize":
            return [*self.validate(obj), *validate_resize(obj, old)]
        return super().validate_subresource_update(subresource, obj, old)

    def early_warnings(self, obj: core_v1.Pod) -> list[str]:
        return app_armor_warnings(obj) if obj.metadata.annotations else []

    def warnings(self, obj: core_v1.Pod, old: core_v1.Pod | None) -> list[str]:
        """Updates give none: people seldom write pods themselves."""
        if old is None:
            if not obj.metadata.annotations and self._valid_forms.has_just_known(obj.spec):
                return pod_name_warnings(obj.metadata.name)
            given = [*pod_name_warnings(obj.metadata.name), *pod_warnings("", obj.spec, obj.metadata)]
            if not given:
                self._valid_forms.remember(obj.spec)  # validation comes before warnings: there is nothing wrong with it
            return given
        return []

    def status_warnings(self, obj: core_v1.Pod) -> list[str]:
        found: list[str] = []
        for index, address in enumerate(obj.status.pod_ips):
            found.extend(ip_warnings(f"status.podIPs[{index}].ip", address.ip))
        for index, host in enumerate(obj.status.host_ips):
            found.extend(ip_warnings(f"status.hostIPs[{index}].ip", host.ip))
        return found

    observed_fields = (
        "spec.node_name",
        "spec.restart_policy",
        "spec.scheduler_name",
        "spec.service_account_name",
        "spec.host_network",
        "status.phase",
        "status.pod_ip",
        "status.pod_ips",
        "status.nominated_node_name",
    )

    def selectable_fields(self, obj: core_v1.Pod) -> dict[str, str]:
        spec, status = obj.spec, obj.status
        return {
            NODE_FIELD: spec.node_name,
            "spec.restartPolicy": spec.restart_policy,
            "spec.schedulerName": spec.scheduler_name,
            "spec.serviceAccountName": spec.service_account_name,
            "spec.hostNetwork": "true" if spec.host_network else "false",
            "status.phase": status.phase,
            "status.podIP": status.pod_ips[0].ip if status.pod_ips else status.pod_ip,
            "status.podIPs": status.pod_ips[0].ip if status.pod_ips else status.pod_ip,
            NOMINATION_FIELD: status.nominated_node_name,
        }


def _annotation_problems(obj: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
    """What is wrong with the annotations after an update: Kubernetes checks them here once more."""
    errors: list[FieldError] = []
    check_annotation_changes(errors, obj, old)
    if obj.metadata.annotations:
        check_pod_annotations(errors, "metadata.annotations", obj.metadata.annotations, obj.spec)
    return errors


def _keep_observed_generations(status: core_v1.PodStatus, old: core_v1.PodStatus) -> None:
    """Conditions that come without the generation they were observed at keep the one they had; several of one type are matched in order."""
    before: dict[str, list[int]] = {}
    for condition in old.conditions:
        before.setdefault(condition.type, []).append(condition.observed_generation)
    kept = []
    for condition in status.conditions:
        generations = before.get(condition.type)
        generation = generations.pop(0) if generations else 0
        if generation and condition.observed_generation == 0:
            condition = _replace(condition, observed_generation=generation)
        kept.append(condition)
    status.conditions = tuple(kept)


def _check_tokens(errors: list[FieldError], spec: core_v1.PodSpec) -> None:
    for index, volume in enumerate(spec.volumes):
        if volume.projected is None:
            continue
        for position, source in enumerate(volume.projected.sources):
            if source.service_account_token is not None:
                where = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                errors.append(forbidden(where, "must not be specified when serviceAccountName is not set"))


def _other_containers(new: core_v1.PodSpec, old: core_v1.PodSpec) -> bool:
    """Whether containers were added or removed."""
    return len(new.containers) != len(old.containers) or len(new.init_containers) != len(old.init_containers)


def _resized(new: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.PodSpec:
    """The old spec with the resources and resize policies of the new one. Containers that were renamed or moved stay, to be refused."""
    parts = {}
    for attribute in ("containers", "init_containers"):
        wanted, given = getattr(new, attribute), getattr(old, attribute)
        if [one.name for one in wanted] != [one.name for one in given]:
            parts[attribute] = wanted
            continue
        parts[attribute] = tuple(
            _replace(one, resources=other.resources, resize_policy=other.resize_policy)
            for one, other in zip(given, wanted, strict=True)
        )
    return _replace(old, **parts, resources=new.resources)


STRATEGY = PodStrategy()
