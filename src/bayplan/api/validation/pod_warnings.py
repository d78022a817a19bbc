"""Warnings about pods and pod templates that are accepted all the same."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api import quantity
from bayplan.api.defaults.pods import app_armor_profile
from bayplan.api.trusted import is_trusted
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation import formats
from bayplan.api.validation.claims import claim_spec_warnings
from bayplan.api.validation.ip_warnings import ip_warnings
from bayplan.api.validation.profiles import APPARMOR, SECCOMP_CONTAINER, SECCOMP_POD, containers_with_path
from bayplan.api.validation.volume_warnings import overlap_warnings

_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": ("1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": ("1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": ("1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": ("1.17", "node.kubernetes.io/instance-type"),
}
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP_TEXT = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APPARMOR_TEXT = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_DEPRECATED_VOLUMES = (
    ("photon_persistent_disk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("git_repo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scale_io", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
)


def deprecated_label_warning(key: str) -> str:
    """What to say of a node label that was renamed; "" if it was not."""
    found = _DEPRECATED_LABELS.get(key)
    return f'deprecated since v{found[0]}; use "{found[1]}" instead' if found else ""


def template_warnings(
    path: str, template: core_v1.PodTemplateSpec, old: core_v1.PodTemplateSpec | None = None
) -> list[str]:
    """Warnings about the template at `path`; none if it is as before (`old`)."""
    if old == template:
        return []
    return pod_warnings(f"{path}.", template.spec, template.metadata, is_pod=False)


def pod_name_warnings(name: str) -> list[str]:
    """A warning about a name that makes no good host name."""
    messages = formats.dns_label(name)
    if not messages:
        return []
    return [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(messages)}]"
    ]


def pod_warnings(
    prefix: str,
    spec: core_v1.PodSpec,
    metadata: meta_v1.ObjectMeta,
    *,
    is_pod: bool = True,
) -> list[str]:
    """Warnings about a pod spec whose fields begin with `prefix` (`spec.template.`)."""
    found: list[str] = []
    path = f"{prefix}spec"
    if is_pod:
        found.extend(pod_name_warnings(metadata.name))
    for key in sorted(spec.node_selector) if spec.node_selector else ():
        text = deprecated_label_warning(key)
        if text:
            found.append(f"{path}.nodeSelector[{key}]: {text}")
    if spec.affinity is not None:
        found.extend(_affinity_warnings(f"{path}.affinity", spec.affinity))
    if spec.topology_spread_constraints:
        for index, constraint in enumerate(spec.topology_spread_constraints):
            text = deprecated_label_warning(constraint.topology_key)
            if text:
                found.append(
                    f"{path}.topologySpreadConstraints[{index}].topologyKey: {constraint.topology_key} is {text}"
                )
            if constraint.label_selector is None:
                found.append(
                    f"{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in "
                    "matching no pod"
                )
    if metadata.annotations:
        found.extend(_annotation_warnings(f"{prefix}metadata.annotations", spec, metadata.annotations, is_pod=is_pod))
    for index, volume in enumerate(spec.volumes):
        if not is_trusted(volume.projected):
            found.extend(_volume_warnings(f"{path}.volumes[{index}]", volume))
    if spec.image_pull_secrets or spec.host_aliases:
        found.extend(_uniqueness_warnings(path, spec))
    _container_warnings(found, path, spec)
    if spec.overhead:
        found.extend(_fraction_warnings(f"{path}.overhead", spec.overhead))
    if spec.dns_config is not None:
        for index, server in enumerate(spec.dns_config.nameservers):
            found.extend(ip_warnings(f"{path}.dnsConfig.nameservers[{index}]", server))
    for index, alias in enumerate(spec.host_aliases):
        found.extend(ip_warnings(f"{path}.hostAliases[{index}].ip", alias.ip))
    grace = spec.termination_grace_period_seconds
    if grace is not None and grace < 0:
        found.append(
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    return found


def _affinity_warnings(path: str, affinity: core_v1.Affinity) -> Iterator[str]:
    node = affinity.node_affinity
    if node is not None:
        required = node.required_during_scheduling_ignored_during_execution
        where = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(required.node_selector_terms if required is not None else ()):
            yield from _term_warnings(f"{where}.nodeSelectorTerms[{index}]", term)
            if not term.match_expressions and not term.match_fields:
                yield f"{where}.nodeSelectorTerms[{index}]: a null or empty node selector term matches no objects"
        where = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        for index, preferred in enumerate(node.preferred_during_scheduling_ignored_during_execution):
            yield from _term_warnings(f"{where}[{index}].preference", preferred.preference)
    for name, part in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if part is None:
            continue
        where = f"{path}.{name}"
        for index, affinity_term in enumerate(part.required_during_scheduling_ignored_during_execution):
            if affinity_term.label_selector is None:
                yield (
                    f"{where}.requiredDuringSchedulingIgnoredDuringExecution[{index}].labelSelector: "
                    "a null labelSelector results in matching no pod"
                )
        for index, weighted in enumerate(part.preferred_during_scheduling_ignored_during_execution):
            if weighted.pod_affinity_term.label_selector is None:
                yield (
                    f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{index}].podAffinityTerm.labelSelector: "
                    "a null labelSelector results in matching no pod"
                )


def _term_warnings(path: str, term: core_v1.NodeSelectorTerm) -> Iterator[str]:
    for index, expression in enumerate(term.match_expressions):
        text = deprecated_label_warning(expression.key)
        if text:
            yield f"{path}.matchExpressions[{index}].key: {expression.key} is {text}"


def _annotation_warnings(
    path: str, spec: core_v1.PodSpec, annotations: dict[str, str], *, is_pod: bool
) -> Iterator[str]:
    for key, text in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            yield f"{path}[{key}]: {text}"
    context = spec.security_context or core_v1.PodSecurityContext()
    if SECCOMP_POD in annotations and context.seccomp_profile is None:
        yield f"{path}[{SECCOMP_POD}]: {_SECCOMP_TEXT}"
    for _, container in containers_with_path("", spec):
        own = container.security_context or core_v1.SecurityContext()
        key = SECCOMP_CONTAINER + container.name
        if key in annotations and own.seccomp_profile is None:
            yield f"{path}[{key}]: {_SECCOMP_TEXT}"
        key = APPARMOR + container.name
        if key in annotations and _wants_profile(own, context, annotations[key], is_pod=is_pod):
            yield f"{path}[{key}]: {_APPARMOR_TEXT}"


def _wants_profile(
    own: core_v1.SecurityContext, of_pod: core_v1.PodSecurityContext, annotation: str, *, is_pod: bool
) -> bool:
    """Whether an AppArmor annotation stands where a field should. That of a pod has become the field by now, if it is one."""
    profile = own.app_armor_profile
    if not is_pod:
        return profile is None and of_pod.app_armor_profile is None
    meant = app_armor_profile(annotation)
    return meant is None if profile is None else profile == meant != of_pod.app_armor_profile


def _volume_warnings(path: str, volume: core_v1.Volume) -> Iterator[str]:
    for attribute, field, text in _DEPRECATED_VOLUMES:
        if getattr(volume, attribute) is not None:
            yield f"{path}.{field}: {text}"
    if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
        where = f"{path}.ephemeral.volumeClaimTemplate.spec"
        yield from claim_spec_warnings(where, volume.ephemeral.volume_claim_template.spec)
    yield from overlap_warnings(volume)


def _uniqueness_warnings(path: str, spec: core_v1.PodSpec) -> Iterator[str]:
    secrets: set[str] = set()
    for index, reference in enumerate(spec.image_pull_secrets):
        if not reference.name:
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
        elif reference.name in secrets:
            yield f'{path}.imagePullSecrets[{index}].name: duplicate name "{reference.name}"'
        secrets.add(reference.name)
    addresses: set[str] = set()
    for index, alias in enumerate(spec.host_aliases):
        if alias.ip in addresses:
            yield f'{path}.hostAliases[{index}].ip: duplicate ip "{alias.ip}"'
        addresses.add(alias.ip)


def _container_warnings(found: list[str], path: str, spec: core_v1.PodSpec) -> None:
    ports: dict[tuple[int, str], list[tuple[str, core_v1.ContainerPort]]] = {}
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            resources = container.resources
            limits, requests = resources.limits, resources.requests
            where = f"{path}.{kind}[{index}]"
            if limits and _has_fraction(limits):
                found.extend(_fraction_warnings(f"{where}.resources.limits", limits))
            if requests and _has_fraction(requests):
                found.extend(_fraction_warnings(f"{where}.resources.requests", requests))
            if len(container.env) > 1:
                found.extend(_env_warnings(where, container.env))
            if container.ports and (kind == "containers" or container.restart_policy == "Always"):
                found.extend(_port_warnings(where, container, ports))


_BYTES = ("memory", "ephemeral-storage")


def _has_fraction(amounts: dict[str, str | int | float]) -> bool:
    return _fractional(amounts, _BYTES[0]) or _fractional(amounts, _BYTES[1])


def _fraction_warnings(path: str, amounts: dict[str, str | int | float]) -> list[str]:
    """Bytes cannot be split."""
    return [_fraction_text(f"{path}[{name}]", amounts[name]) for name in _BYTES if _fractional(amounts, name)]


def _env_warnings(path: str, env: tuple[core_v1.EnvVar, ...]) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(env):
        itself = f"$({variable.name})"
        if variable.name in seen and (
            variable.value_from is not None or variable.value == itself or itself not in variable.value
        ):
            text = f'hides previous definition of "{variable.name}", which may be dropped when using apply'
            yield f"{path}.env[{index}]: {text}"
        seen.add(variable.name)


def _port_warnings(
    path: str, container: core_v1.Container, seen: dict[tuple[int, str], list[tuple[str, core_v1.ContainerPort]]]
) -> Iterator[str]:
    for index, port in enumerate(container.ports):
        where = f"{path}.ports[{index}]"
        if port.host_ip and not port.host_port:
            shown = (
                f"{{Name:{port.name} HostPort:0 ContainerPort:{port.container_port} Protocol:{port.protocol} "
                f"HostIP:{port.host_ip}}}"
            )
            yield f"{where}: hostIP set without hostPort: {shown}"
        others = seen.setdefault((port.container_port, port.protocol), [])
        for place, other in others:
            if (port.host_ip, port.host_port) == (other.host_ip, other.host_port):
                yield f"{where}: duplicate port definition with {place}"
            elif not port.host_port or not other.host_port:
                yield f"{where}: overlapping port definition with {place}"
            elif port.host_port == other.host_port and bool(port.host_ip) != bool(other.host_ip):
                yield f"{where}: dangerously ambiguous port definition with {place}"
        others.append((where, port))


def _fractional(amounts: dict[str, str | int | float], name: str) -> bool:
    value = amounts.get(name)
    return value is not None and quantity.parse(value).scale > 0


def _fraction_text(path: str, value: str | int | float) -> str:
    return f'{path}: fractional byte value "{quantity.canonical(value)}" is invalid, must be an integer'
