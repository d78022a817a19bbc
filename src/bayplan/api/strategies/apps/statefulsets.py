"""Stateful sets."""

from __future__ import annotations

import msgspec

from bayplan.api.defaults.pod_spec import default_pod_template
from bayplan.api.defaults.volumes import default_claim_spec
from bayplan.api.errors import FieldError, forbidden, invalid, required, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apps_v1, core_v1
from bayplan.api.validation.devices.claims import check_claim_spec, claim_spec_warnings
from bayplan.api.validation.fields import (
    check_format,
    check_not_negative,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.pods.pod_spec import check_template_metadata
from bayplan.api.validation.pods.pod_warnings import template_warnings
from bayplan.api.validation.values import formats
from bayplan.api.validation.workloads import (
    check_collision_count,
    check_counts,
    check_not_above_replicas,
    check_runs_for_ever,
    check_selector_and_template,
    spelled_out,
)

_COUNTS = (
    ("replicas", "replicas"),
    ("ready_replicas", "readyReplicas"),
    ("current_replicas", "currentReplicas"),
    ("updated_replicas", "updatedReplicas"),
    ("available_replicas", "availableReplicas"),
    ("observed_generation", "observedGeneration"),
)
_UPDATABLE = (
    "replicas",
    "ordinals",
    "template",
    "update_strategy",
    "revision_history_limit",
    "persistent_volume_claim_retention_policy",
    "min_ready_seconds",
)
_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


_CLAIM_BYTES = len('{"kind":"PersistentVolumeClaim","apiVersion":"v1","spec":{"volumeMode":""},"status":{"phase":""}}')
"""The shortest claim template with its defaults."""


class StatefulSetStrategy(Strategy):
    """Rules of stateful sets."""

    counts_generation = True
    has_status = True
    name_is_checked_as = "dns-1123-label"

    def least_bytes(self, obj: apps_v1.StatefulSet) -> int:
        return _CLAIM_BYTES * len(obj.spec.volume_claim_templates)

    def default(self, obj: apps_v1.StatefulSet) -> None:
        spec = obj.spec
        default_pod_template(spec.template)
        spec.pod_management_policy = spec.pod_management_policy or "OrderedReady"
        if not spec.update_strategy.type:
            spec.update_strategy.type = "RollingUpdate"
            if spec.update_strategy.rolling_update is None:
                spec.update_strategy.rolling_update = apps_v1.RollingUpdateStatefulSetStrategy()
        rolling = spec.update_strategy.rolling_update
        if spec.update_strategy.type == "RollingUpdate" and rolling is not None and rolling.partition is None:
            rolling.partition = 0
        policy = spec.persistent_volume_claim_retention_policy
        if policy is None:
            policy = spec.persistent_volume_claim_retention_policy = (
                apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy()
            )
        policy.when_deleted = policy.when_deleted or "Retain"
        policy.when_scaled = policy.when_scaled or "Retain"
        if spec.replicas is None:
            spec.replicas = 1
        if spec.revision_history_limit is None:
            spec.revision_history_limit = 10
        for claim in spec.volume_claim_templates:
            claim.kind, claim.api_version = "PersistentVolumeClaim", "v1"
            default_claim_spec(claim.spec)
            claim.status.phase = claim.status.phase or "Pending"

    def prepare_create(self, obj: apps_v1.StatefulSet) -> None:
        super().prepare_create(obj)
        _drop_disabled(obj)

    def prepare_update(self, obj: apps_v1.StatefulSet, old: apps_v1.StatefulSet) -> None:
        super().prepare_update(obj, old)
        _drop_disabled(obj)

    def validate_create(self, obj: apps_v1.StatefulSet) -> list[FieldError]:
        return _problems(obj.spec, is_new=True)

    def validate_update(self, obj: apps_v1.StatefulSet, old: apps_v1.StatefulSet) -> list[FieldError]:
        same = msgspec.structs.replace(obj.spec, **{name: getattr(old.spec, name) for name in _UPDATABLE})
        return _problems(obj.spec, is_new=False) + ([] if same == old.spec else [forbidden("spec", _FORBIDDEN)])

    def validate_status_update(self, obj: apps_v1.StatefulSet, old: apps_v1.StatefulSet) -> list[FieldError]:
        errors: list[FieldError] = []
        check_counts(errors, obj.status, _COUNTS)
        check_collision_count(errors, obj.status.collision_count, old.status.collision_count)
        check_not_above_replicas(errors, obj.status, _COUNTS[1:5], "status.readyReplicas")
        return errors

    def warnings(self, obj: apps_v1.StatefulSet, old: apps_v1.StatefulSet | None) -> list[str]:
        found = []
        if old is None or old.metadata.generation != obj.metadata.generation:
            found = template_warnings("spec.template", obj.spec.template)
        where, below = "spec.volumeClaimTemplates", "" if old is None else ".Spec"
        for index, claim in enumerate(obj.spec.volume_claim_templates):
            found.extend(claim_spec_warnings(f"{where}[{index}]{below}", claim.spec))
        if (obj.spec.revision_history_limit or 0) < 0:
            found.append(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is "
                "recommended"
            )
        return found


def _drop_disabled(obj: apps_v1.StatefulSet) -> None:
    """Take out what is off by default in 1.36, as the server does after it has noted who sets it."""
    strategy = obj.spec.update_strategy
    if strategy.rolling_update is not None and strategy.rolling_update.max_unavailable is not None:
        rolling = msgspec.structs.replace(strategy.rolling_update, max_unavailable=None)
        obj.spec = msgspec.structs.replace(
            obj.spec, update_strategy=msgspec.structs.replace(strategy, rolling_update=rolling)
        )


def _problems(spec: apps_v1.StatefulSetSpec, *, is_new: bool) -> list[FieldError]:
    """What is wrong with a spec. What cannot change later is looked at only while it is new."""
    errors: list[FieldError] = []
    if spec.pod_management_policy not in ("OrderedReady", "Parallel"):
        errors.append(
            invalid("spec.podManagementPolicy", spec.pod_management_policy, "must be 'OrderedReady' or 'Parallel'")
        )
    _check_update_strategy(errors, spec.update_strategy)
    policy = spec.persistent_volume_claim_retention_policy
    if policy is not None:
        for field, value in (("whenDeleted", policy.when_deleted), ("whenScaled", policy.when_scaled)):
            if value not in ("Retain", "Delete"):
                where = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
                errors.append(unsupported(where, value, ("Retain", "Delete")))
    for index, claim in enumerate(spec.volume_claim_templates if is_new else ()):
        check_claim_spec(errors, f"spec.volumeClaimTemplates[{index}].spec", claim.spec)
    check_not_negative(errors, "spec.replicas", spec.replicas)
    check_not_negative(errors, "spec.minReadySeconds", spec.min_ready_seconds)
    if spec.ordinals is not None:
        check_not_negative(errors, "spec.ordinals.start", spec.ordinals.start)
    if spec.service_name and is_new:
        check_format(errors, "spec.serviceName", spec.service_name, formats.dns_label)
    template = _template_of_pods(spec)
    if check_selector_and_template(errors, spec.selector, template, "statefulset", ""):
        check_template_metadata(errors, "spec.template", template)
    check_runs_for_ever(errors, spec.template, "StatefulSet")
    return errors


def _template_of_pods(spec: apps_v1.StatefulSetSpec) -> core_v1.PodTemplateSpec:
    """The template as its pods will be: they are named by the controller and get the volumes of the claim templates, which come first."""
    volumes = {
        claim.metadata.name: core_v1.Volume(
            name=claim.metadata.name,
            persistent_volume_claim=core_v1.PersistentVolumeClaimVolumeSource(claim_name=claim.metadata.name),
        )
        for claim in spec.volume_claim_templates
    }
    own = tuple(volume for volume in spec.template.spec.volumes if volume.name not in volumes)
    replace = msgspec.structs.replace
    pods = replace(spec.template.spec, hostname="", subdomain="", volumes=(*volumes.values(), *own))
    return replace(spec.template, spec=pods)


def _check_update_strategy(errors: list[FieldError], strategy: apps_v1.StatefulSetUpdateStrategy) -> None:
    path, rolling = "spec.updateStrategy.rollingUpdate", strategy.rolling_update
    if not strategy.type:
        errors.append(required("spec.updateStrategy"))
    elif strategy.type == "OnDelete":
        if rolling is not None:
            shown = go_struct(spelled_out(strategy, "partition").rolling_update)
            errors.append(invalid(path, shown, "only allowed for updateStrategy 'RollingUpdate'"))
    elif strategy.type != "RollingUpdate":
        shown = go_struct(spelled_out(strategy, "partition"))
        errors.append(invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'"))
    elif rolling is not None:
        check_not_negative(errors, f"{path}.partition", rolling.partition)


STRATEGY = StatefulSetStrategy()
