"""Which changes of a pod are allowed, through the pod itself and through its subresources."""

from __future__ import annotations

import msgspec

from bayplan.api.defaults.pods import qos_class
from bayplan.api.errors import FieldError, forbidden, invalid, required
from bayplan.api.pods.execution_rules import PREFERRED, REQUIRED
from bayplan.api.types import core_v1
from bayplan.api.validation.differences import difference
from bayplan.api.validation.fields import Errors, null_if_empty
from bayplan.api.validation.pods.containers import check_image_whitespace
from bayplan.api.validation.pods.scheduling import check_tolerations
from bayplan.api.validation.values import formats

_replace = msgspec.structs.replace
_UPDATABLE = (
    "pod updates may not change fields other than "
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_update(new: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
    """Changes through the pod itself: images, deadline, more tolerations, fewer gates; of gated pods also
    tighter node constraints."""
    errors: list[FieldError] = []
    for field, attribute in (("containers", "containers"), ("initContainers", "init_containers")):
        if not _check_images(errors, f"spec.{field}", getattr(new.spec, attribute), getattr(old.spec, attribute)):
            return errors
    if not _check_deadline(errors, new.spec.active_deadline_seconds, old.spec.active_deadline_seconds):
        return errors
    _check_tolerations(errors, new.spec.tolerations, old.spec.tolerations)
    known = {gate.name for gate in old.spec.scheduling_gates}
    for index, gate in enumerate(new.spec.scheduling_gates):
        if gate.name not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.name}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", text))
    if new.spec == old.spec:
        return errors
    munged = _replace(
        new.spec,
        containers=_with_images(new.spec.containers, old.spec.containers),
        init_containers=_with_images(new.spec.init_containers, old.spec.init_containers),
        active_deadline_seconds=old.spec.active_deadline_seconds,
        scheduling_gates=old.spec.scheduling_gates,
        tolerations=old.spec.tolerations,
    )
    grace = old.spec.termination_grace_period_seconds
    if grace is not None and grace < 0 and munged.termination_grace_period_seconds == 1:
        munged.termination_grace_period_seconds = grace
    if old.spec.scheduling_gates:
        munged = _check_gated(errors, munged, old.spec)
    if munged != old.spec:
        errors.append(forbidden("spec", f"{_UPDATABLE}\n{difference(old.spec, munged)}"))
    return errors


def _with_images(
    new: tuple[core_v1.Container, ...], old: tuple[core_v1.Container, ...]
) -> tuple[core_v1.Container, ...]:
    return tuple(_replace(one, image=other.image) for one, other in zip(new, old, strict=True))


def _check_images(
    errors: Errors, path: str, new: tuple[core_v1.Container, ...], old: tuple[core_v1.Container, ...]
) -> bool:
    if len(new) != len(old):
        errors.append(forbidden(path, "pod updates may not add or remove containers"))
        return False
    for index, container in enumerate(new):
        if not container.image:
            errors.append(required(f"{path}[{index}].image"))
        check_image_whitespace(errors, f"{path}[{index}]", container)
    return True


def _check_deadline(errors: Errors, new: int | None, old: int | None) -> bool:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            errors.append(invalid(path, None, "must not update from a positive integer to nil value"))
    elif not 0 <= new <= 2**31 - 1:
        errors.append(invalid(path, new, formats.range_message(0, 2**31 - 1)))
        return False
    elif old is not None and old < new:
        errors.append(invalid(path, new, "must be less than or equal to previous value"))
        return False
    return True


def _check_tolerations(
    errors: Errors, new: tuple[core_v1.Toleration, ...], old: tuple[core_v1.Toleration, ...]
) -> None:
    kept = {msgspec.json.encode(_replace(toleration, toleration_seconds=None)) for toleration in new}
    for toleration in old:
        if msgspec.json.encode(_replace(toleration, toleration_seconds=None)) not in kept:
            text = "existing toleration can not be modified except its tolerationSeconds"
            errors.append(forbidden("spec.tolerations", text))
            return
    check_tolerations(errors, "spec.tolerations", new)


def _check_gated(errors: Errors, munged: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.PodSpec:
    """Node constraints of a gated pod may be tightened; returns the spec with the old ones."""
    if munged.node_selector != old.node_selector:
        if any(munged.node_selector.get(key) != value for key, value in old.node_selector.items()):
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid("spec.nodeSelector", null_if_empty(munged.node_selector), text))
        munged.node_selector = old.node_selector
    before = old.affinity.node_affinity if old.affinity is not None else None
    after = munged.affinity.node_affinity if munged.affinity is not None else None
    if before == after:
        return munged
    _check_node_affinity_mutation(errors, after, before)
    affinity = munged.affinity
    if affinity is None:
        munged.affinity = core_v1.Affinity(node_affinity=before)
    elif old.affinity is None and affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
        munged.affinity = None
    else:
        munged.affinity = _replace(affinity, node_affinity=before)
    return munged


def _check_execution_rules(errors: Errors, new: core_v1.NodeAffinity | None, old: core_v1.NodeAffinity | None) -> None:
    """Rules that hold while a pod runs stay as they are, even while scheduling gates let other rules become stricter."""
    none = core_v1.NodeAffinity()
    after, before = new or none, old or none
    for name, field in (
        (REQUIRED, "required_during_scheduling_required_during_execution"),
        (PREFERRED, "preferred_during_scheduling_required_during_execution"),
    ):
        if getattr(after, field) != getattr(before, field):
            errors.append(forbidden(f"spec.affinity.nodeAffinity.{name}", "field is immutable"))


def _check_node_affinity_mutation(
    errors: Errors, new: core_v1.NodeAffinity | None, old: core_v1.NodeAffinity | None
) -> None:
    _check_execution_rules(errors, new, old)
    before = old.required_during_scheduling_ignored_during_execution if old is not None else None
    if before is None:
        return
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    after = new.required_during_scheduling_ignored_during_execution if new is not None else None
    terms = after.node_selector_terms if after is not None else ()
    if len(terms) != len(before.node_selector_terms):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.append(invalid(path, null_if_empty(terms), text))
        return
    for index, (one, other) in enumerate(zip(terms, before.node_selector_terms, strict=True)):
        if (
            one.match_expressions[: len(other.match_expressions)] != other.match_expressions
            or one.match_fields[: len(other.match_fields)] != other.match_fields
            or (not other.match_expressions and not other.match_fields and one != other)
        ):
            text = "only additions are allowed (no mutations or deletions)"
            errors.append(invalid(f"{path}[{index}]", one, text))


def validate_ephemeral_containers_update(new: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
    """Changes through `ephemeralcontainers`: containers are added, never changed or removed."""
    if "kubernetes.io/config.mirror" in old.metadata.annotations:
        return [forbidden("", "static pods do not support ephemeral containers")]
    errors: list[FieldError] = []
    current = {container.name: container for container in new.spec.ephemeral_containers}
    for before in old.spec.ephemeral_containers:
        after = current.get(before.name)
        if after is None:
            text = f'existing ephemeral containers "{before.name}" may not be removed\n'
            errors.append(forbidden("spec.ephemeralContainers", text))
        elif after != before:
            text = f'existing ephemeral containers "{before.name}" may not be changed\n{difference(before, after)}'
            errors.append(forbidden("spec.ephemeralContainers", text))
    return errors


def validate_resize(new: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
    """Changes through `resize`: cpu and memory of the pod, of containers, sidecars and init containers."""
    if "kubernetes.io/config.mirror" in old.metadata.annotations:
        return [forbidden("", "static pods cannot be resized")]
    if old.spec.os is not None and old.spec.os.name == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    errors: list[FieldError] = []
    if (old.status.qos_class or qos_class(old.spec)) != qos_class(new.spec):
        errors.append(invalid("spec", new.status.qos_class, "Pod QOS Class may not change as a result of resizing"))
    for status in old.status.container_statuses:
        if status.state.running is not None:
            if status.resources is None:
                errors.append(forbidden("spec", "Pod running on node without support for resize"))
            break
    level = _checked_pod_level(errors, new.spec.resources, old.spec.resources)
    moved = _moved_containers(new.spec, old.spec)
    if moved:
        return [*errors, *moved]
    initial = [*zip(new.spec.init_containers, old.spec.init_containers, strict=True)]
    others = [*zip(new.spec.containers, old.spec.containers, strict=True)]
    for field, pairs in (("initContainers", initial), ("containers", others)):
        for index, (after, before) in enumerate(pairs):
            _check_resized(errors, f"spec.{field}[{index}].resources", after, before)
    for after, before in others:
        if _without_resized(after, before) != before:
            errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    for index, (after, before) in enumerate(initial):
        where = f"spec.initContainers[{index}]"
        if _without_resized(after, before) != before:
            errors.append(forbidden(where, "only cpu and memory resources for init or sidecar containers are mutable"))
        if after != before and before.restart_policy != "Always":
            text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            restarting = (one for one in after.resize_policy if one.restart_policy == "RestartContainer")
            errors.extend(forbidden(where, text) for _ in restarting)
    rest = _replace(new.spec, containers=old.spec.containers, init_containers=old.spec.init_containers, resources=level)
    if not errors and rest != old.spec:
        errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    return errors


def _checked_pod_level(
    errors: Errors, new: core_v1.ResourceRequirements | None, old: core_v1.ResourceRequirements | None
) -> core_v1.ResourceRequirements | None:
    """The pod's own new resources with the old amounts of cpu and memory; the old ones where only these have changed."""
    if not any(each is not None and (each.requests or each.limits) for each in (new, old)):
        return new
    if new is None:
        errors.append(forbidden("spec.resources", "pod-level resources cannot be removed"))
        return old
    before = old if old is not None else core_v1.ResourceRequirements()
    for name in ("requests", "limits"):
        if getattr(before, name).keys() - getattr(new, name).keys():
            errors.append(forbidden(f"spec.resources.{name}", f"pod-level resource {name} cannot be removed"))
    if _with_old_amounts(new, before) != before:
        errors.append(forbidden("spec", "only cpu and memory resources are mutable at pod-level"))
    return old


def _moved_containers(new: core_v1.PodSpec, old: core_v1.PodSpec) -> list[FieldError]:
    """Containers are neither added nor removed, renamed or reordered by a resize."""
    errors: list[FieldError] = []
    for name, now, before in (
        ("containers", new.containers, old.containers),
        ("initContainers", new.init_containers, old.init_containers),
    ):
        if len(now) != len(before):
            errors.append(forbidden(f"spec.{name}", f"{name} may not be added or removed on resize"))
            continue
        for index, (one, other) in enumerate(zip(now, before, strict=True)):
            if one.name != other.name:
                text = f"{name} may not be renamed or reordered on resize"
                errors.append(forbidden(f"spec.{name}[{index}].name", text))
    return errors


def _without_resized(after: core_v1.Container, before: core_v1.Container) -> core_v1.Container:
    """The new container with the old amounts of cpu and memory, without claims."""
    return _replace(after, resources=_replace(_with_old_amounts(after.resources, before.resources), claims=()))


def _with_old_amounts(
    after: core_v1.ResourceRequirements, before: core_v1.ResourceRequirements
) -> core_v1.ResourceRequirements:
    parts = {}
    for name in ("limits", "requests"):
        new, old = getattr(after, name), getattr(before, name)
        kept = {key: value for key, value in new.items() if key not in ("cpu", "memory")}
        parts[name] = kept | {key: old[key] for key in ("cpu", "memory") if key in old}
    changed: core_v1.ResourceRequirements = _replace(after, **parts)
    return changed


def _check_resized(errors: Errors, path: str, after: core_v1.Container, before: core_v1.Container) -> None:
    for name in ("requests", "limits"):
        if getattr(before.resources, name).keys() - getattr(after.resources, name).keys():
            errors.append(forbidden(f"{path}.{name}", f"resource {name} cannot be removed"))
