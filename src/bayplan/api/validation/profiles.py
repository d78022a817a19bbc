"""Rules for annotations of pods that have a meaning, and for seccomp and AppArmor profiles that stand in an annotation and in a field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from bayplan.api.errors import forbidden, invalid
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors
from bayplan.api.validation.pods.scheduling import check_tolerations
from bayplan.api.validation.values.paths import check_relative_path

APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
MIRROR: Final = "kubernetes.io/config.mirror"
_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_LOCALHOST: Final = "localhost/"
_PLAIN_SECCOMP: Final = ("runtime/default", "docker/default", "unconfined")

_AnyContainer = core_v1.Container | core_v1.EphemeralContainer


def containers_with_path(path: str, spec: core_v1.PodSpec) -> Iterator[tuple[str, _AnyContainer]]:
    """All containers of a pod in Kubernetes' order, each with its path. `path`: that of the spec."""
    for index, container in enumerate(spec.init_containers):
        yield f"{path}.initContainers[{index}]", container
    for index, container in enumerate(spec.containers):
        yield f"{path}.containers[{index}]", container
    for index, ephemeral in enumerate(spec.ephemeral_containers):
        yield f"{path}.ephemeralContainers[{index}]", ephemeral


def check_pod_annotations(errors: Errors, path: str, annotations: dict[str, str], spec: core_v1.PodSpec) -> None:
    """Annotations that have a meaning."""
    if MIRROR in annotations and not spec.node_name:
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], text))
    if annotations.get(_TOLERATIONS):
        _check_tolerations(errors, path, annotations[_TOLERATIONS])
    if _DELETION_COST in annotations and not _is_cost(annotations[_DELETION_COST]):
        errors.append(invalid(f"{path}[{_DELETION_COST}]", annotations[_DELETION_COST], "must be a 32bit integer"))
    if SECCOMP_POD in annotations:
        _check_seccomp(errors, f"{path}.{SECCOMP_POD}", annotations[SECCOMP_POD])
    for key, value in sorted(annotations.items()):
        if key.startswith(SECCOMP_CONTAINER):
            _check_seccomp(errors, f"{path}.{key}", value)
    for key, value in sorted(annotations.items()):
        if key.startswith(APPARMOR):
            name = key.removeprefix(APPARMOR)
            if all(container.name != name for _, container in containers_with_path("", spec)):
                errors.append(invalid(f"{path}[{key}]", name, "container not found"))
            if value not in ("", "runtime/default", "unconfined") and not value.startswith(_LOCALHOST):
                errors.append(invalid(f"{path}[{key}]", value, f'invalid AppArmor profile name: "{value}"'))


def _is_cost(value: str) -> bool:
    digits = value.removeprefix("-")
    return (
        digits.isascii() and digits.isdigit() and (digits[0] != "0" or value == "0") and -(2**31) <= int(value) < 2**31
    )


def _check_tolerations(errors: Errors, path: str, value: str) -> None:
    try:
        tolerations = msgspec.json.decode(value, type=tuple[core_v1.Toleration, ...])
    except msgspec.DecodeError as error:
        errors.append(invalid(path, _TOLERATIONS, str(error)))
        return
    check_tolerations(errors, f"{path}.{_TOLERATIONS}", tolerations)


def _check_seccomp(errors: Errors, path: str, value: str) -> None:
    if value.startswith(_LOCALHOST):
        check_relative_path(errors, path, value.removeprefix(_LOCALHOST))
    elif value not in _PLAIN_SECCOMP:
        errors.append(invalid(path, value, "must be a valid seccomp profile"))


def check_annotation_changes(errors: Errors, new: core_v1.Pod, old: core_v1.Pod) -> None:
    """AppArmor profiles and the mark of a mirror pod stay as they are in a pod that exists."""
    after, before = new.metadata.annotations, old.metadata.annotations
    if after == before:
        return
    path = "metadata.annotations"
    for key, value in sorted(before.items()):
        if after.get(key) != value:
            _check_change(errors, f"{path}[{key}]", key, "may not remove or update")
    for key in sorted(after.keys() - before.keys()):
        _check_change(errors, f"{path}[{key}]", key, "may not add")


def _check_change(errors: Errors, path: str, key: str, text: str) -> None:
    if key.startswith(APPARMOR):
        errors.append(forbidden(path, f"{text} AppArmor annotations"))
    if key == MIRROR:
        errors.append(forbidden(path, f"{text} mirror pod annotation"))


def check_profiles_match(errors: Errors, path: str, annotations: dict[str, str], spec: core_v1.PodSpec) -> None:
    """Profiles given as annotation and as field are the same. `path`: that of the spec."""
    if not any(key.startswith((SECCOMP_POD, SECCOMP_CONTAINER, APPARMOR)) for key in annotations):
        return
    pod = spec.security_context
    if pod is not None and pod.seccomp_profile is not None:
        annotation = annotations.get(SECCOMP_POD)
        _check_same_seccomp(errors, f"{path}.securityContext.seccompProfile", annotation, pod.seccomp_profile)
    for where, container in containers_with_path(path, spec):
        context = container.security_context
        if context is not None and context.seccomp_profile is not None:
            annotation = annotations.get(SECCOMP_CONTAINER + container.name)
            _check_same_seccomp(errors, f"{where}.securityContext.seccompProfile", annotation, context.seccomp_profile)
    if spec.os is not None and spec.os.name == "windows":
        return
    of_pod = pod.app_armor_profile if pod is not None else None
    for where, container in containers_with_path(path, spec):
        context = container.security_context
        profile = (context.app_armor_profile if context is not None else None) or of_pod
        annotation = annotations.get(APPARMOR + container.name)
        if profile is not None and annotation is not None:
            _check_same(errors, f"{where}.securityContext.appArmorProfile", annotation, profile, "apparmor")


def _check_same_seccomp(errors: Errors, path: str, annotation: str | None, profile: core_v1.SeccompProfile) -> None:
    if annotation is not None:
        _check_same(errors, path, annotation, profile, "seccomp")


def _check_same(
    errors: Errors,
    path: str,
    annotation: str,
    profile: core_v1.SeccompProfile | core_v1.AppArmorProfile,
    what: str,
) -> None:
    defaults = ("runtime/default", "docker/default") if what == "seccomp" else ("runtime/default",)
    same_type = {
        "Unconfined": annotation == "unconfined",
        "RuntimeDefault": annotation in defaults,
        "Localhost": annotation.startswith(_LOCALHOST),
    }
    if not same_type.get(profile.type, True):
        errors.append(forbidden(f"{path}.type", f"{what} type in annotation and field must match"))
    elif profile.type == "Localhost" and annotation.removeprefix(_LOCALHOST) != profile.localhost_profile:
        errors.append(forbidden(f"{path}.localhostProfile", f"{what} profile in annotation and field must match"))
