"""Pods."""

from __future__ import annotations

import msgspec

from bayplan.api.defaults.pod_spec import default_pod_spec
from bayplan.api.defaults.pods import app_armor_from_annotations, default_pod, merge_match_label_keys, qos_class
from bayplan.api.errors import FieldError, forbidden
from bayplan.api.managedfields.fieldset import FieldSet, of_paths, within
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.pod_spec import check_pod_annotations, check_pod_containers_only, check_pod_spec
from bayplan.api.validation.pod_update import (
    validate_ephemeral_containers_update,
    validate_pod_status_update,
    validate_pod_update,
    validate_resize,
)
from bayplan.api.validation.pod_warnings import pod_warnings

_replace = msgspec.structs.replace


class PodStrategy(Strategy):
    """Rules of pods."""

    reset_by_status = of_paths(("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences"))
    counts_generation = True
    has_status = True
    returns_object_on_delete = True
    selectable_field_names = frozenset(
        (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        )
    )

    def default(self, obj: core_v1.Pod) -> None:
        default_pod_spec(obj.spec)
        default_pod(obj)

    def ownable(self, subresource: str, fields: FieldSet) -> FieldSet:
        """See Strategy; writers of ephemeral containers and of resizes own nothing else."""
        if subresource == "ephemeralcontainers":
            return within(fields, ("f:spec", "f:ephemeralContainers"))
        if subresource == "resize":
            resources = ("f:spec", "f:containers", "*", "f:resources")
            return within(fields, resources)
        return super().ownable(subresource, fields)

    def prepare_create(self, obj: core_v1.Pod) -> None:
        spec = obj.spec
        obj.status = core_v1.PodStatus(phase="Pending", qos_class=qos_class(spec))
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
        if obj.spec.termination_grace_period_seconds is not None and obj.spec.termination_grace_period_seconds < 0:
            obj.spec.termination_grace_period_seconds = 1

    def prepare_status_update(self, obj: core_v1.Pod, old: core_v1.Pod) -> None:
        obj.spec = old.spec
        metadata = obj.metadata
        metadata.deletion_timestamp = old.metadata.deletion_timestamp
        metadata.owner_references = old.metadata.owner_references
        if not obj.status.qos_class:
            obj.status.qos_class = old.status.qos_class or qos_class(old.spec)

    def prepare_subresource_update(self, subresource: str, obj: core_v1.Pod, old: core_v1.Pod) -> None:
        obj.status = old.status
        if subresource == "ephemeralcontainers":
            obj.spec = _replace(old.spec, ephemeral_containers=obj.spec.ephemeral_containers)
        elif subresource == "resize":
            obj.spec = _resized(obj.spec, old.spec)
        else:
            super().prepare_subresource_update(subresource, obj, old)

    def validate(self, obj: core_v1.Pod) -> list[FieldError]:
        errors: list[FieldError] = []
        annotations, spec = obj.metadata.annotations, obj.spec
        if annotations:
            check_pod_annotations(errors, "metadata.annotations", annotations, spec)
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
        return errors

    def validate_update(self, obj: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
        return validate_pod_update(obj, old)

    def validate_status_update(self, obj: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
        return validate_pod_status_update(obj, old)

    def validate_subresource_update(self, subresource: str, obj: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
        if subresource == "ephemeralcontainers":
            return [*self.validate(obj), *validate_ephemeral_containers_update(obj, old)]
        if subresource == "resize":
            return [*self.validate(obj), *validate_resize(obj, old)]
        return super().validate_subresource_update(subresource, obj, old)

    def warnings(self, obj: core_v1.Pod, old: core_v1.Pod | None) -> list[str]:
        return pod_warnings("", obj.spec, obj.metadata, old.spec if old is not None else None)

    def selectable_fields(self, obj: core_v1.Pod) -> dict[str, str]:
        spec, status = obj.spec, obj.status
        return {
            "spec.nodeName": spec.node_name,
            "spec.restartPolicy": spec.restart_policy,
            "spec.schedulerName": spec.scheduler_name,
            "spec.serviceAccountName": spec.service_account_name,
            "spec.hostNetwork": "true" if spec.host_network else "false",
            "status.phase": status.phase,
            "status.podIP": status.pod_ips[0].ip if status.pod_ips else status.pod_ip,
            "status.podIPs": status.pod_ips[0].ip if status.pod_ips else status.pod_ip,
            "status.nominatedNodeName": status.nominated_node_name,
        }


def _check_tokens(errors: list[FieldError], spec: core_v1.PodSpec) -> None:
    for index, volume in enumerate(spec.volumes):
        if volume.projected is None:
            continue
        for position, source in enumerate(volume.projected.sources):
            if source.service_account_token is not None:
                where = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                errors.append(forbidden(where, "must not be specified when serviceAccountName is not set"))


def _resized(new: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.PodSpec:
    """The old spec with the resources and resize policies of the new one, containers matched by name."""
    parts = {}
    for attribute in ("containers", "init_containers"):
        wanted = {container.name: container for container in getattr(new, attribute)}
        parts[attribute] = tuple(
            _replace(one, resources=wanted[one.name].resources, resize_policy=wanted[one.name].resize_policy)
            if one.name in wanted
            else one
            for one in getattr(old, attribute)
        )
    return _replace(old, **parts, resources=new.resources)


STRATEGY = PodStrategy()
