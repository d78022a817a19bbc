"""Warnings about pods and pod templates that are accepted all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bayplan.api import quantity
from bayplan.api.defaults.pods import app_armor_profile
from bayplan.api.pods.execution_rules import annotation_errors
from bayplan.api.trusted import is_trusted
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation.devices.claims import claim_spec_warnings
from bayplan.api.validation.ip_warnings import ip_warnings
from bayplan.api.validation.label_warnings import deprecated_label_warning, term_warnings
from bayplan.api.validation.pods.alpha_keys import ALPHA_ANNOTATIONS, key_warnings
from bayplan.api.validation.pods.sound_templates import SoundTemplates
from bayplan.api.validation.pods.volume_warnings import overlap_warnings
from bayplan.api.validation.profiles import APPARMOR, SECCOMP_CONTAINER, SECCOMP_POD, containers_with_path
from bayplan.api.validation.values import formats

_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP_TEXT = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APPARMOR_TEXT = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_NO_SELECTOR = "a null labelSelector results in matching no pod"
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
_SOUND_TEMPLATES: Final = SoundTemplates("unwarned_pod_templates")
"""Those that give no warning."""


def template_warnings(
    path: str, template: core_v1.PodTemplateSpec, old: core_v1.PodTemplateSpec | None = None
) -> list[str]:
    """Warnings about the template at `path`; none if it is as before (`old`)."""
    if old == template:
        return []
    key = _SOUND_TEMPLATES.key_of(template)
    if _SOUND_TEMPLATES.knows(key):
        return []
    warnings = pod_warnings(f"{path}.", template.spec, template.metadata)
    if not warnings:
        _SOUND_TEMPLATES.remember(key)
    return warnings


def pod_name_warnings(name: str) -> list[str]:
    """A warning about a name that makes no good host name."""
    return _name_warnings(name, "the Pod's hostname")


def owner_name_warnings(name: str) -> list[str]:
    """The same about the name of an object whose pods have names that are made of it."""
    return _name_warnings(name, "Pod names and hostnames")


def _name_warnings(name: str, place: str) -> list[str]:
    messages = formats.dns_label(name)
    if not messages:
        return []
    return [
        f"metadata.name: this is used in {place}, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(messages)}]"
    ]


def pod_warnings(prefix: str, spec: core_v1.PodSpec, metadata: meta_v1.ObjectMeta) -> list[str]:
    """Warnings about a pod (`prefix` is "") or a template, whose fields begin with `prefix` (`spec.template.`), in Kubernetes' order."""
    found: list[str] = []
    path, annotations = f"{prefix}spec", f"{prefix}metadata.annotations"
    if spec.node_selector or spec.affinity is not None or spec.topology_spread_constraints:
        found.extend(_placement_warnings(path, spec))
    if spec.tolerations:
        found.extend(key_warnings(f"{path}.tolerations", spec.tolerations))
    for key, text in _DEPRECATED_ANNOTATIONS.items() if metadata.annotations else ():
        if key in metadata.annotations:
            found.append(f"{annotations}[{key}]: {text}")
    if spec.volumes:
        found.extend(_volume_warnings(path, spec.volumes))
    if spec.image_pull_secrets or spec.host_aliases:
        found.extend(_uniqueness_warnings(path, spec))
    if spec.overhead:
        found.extend(_fraction_warnings(f"{path}.overhead", spec.overhead, _BYTES))
    if metadata.annotations:
        found.extend(f"{annotations}[{name}]: {text}" for name, text in _own_annotation_warnings(metadata.annotations))
    context = spec.security_context
    if SECCOMP_POD in metadata.annotations and (context is None or context.seccomp_profile is None):
        found.append(f"{annotations}[{SECCOMP_POD}]: {_SECCOMP_TEXT}")
    _container_warnings(found, path, spec, annotations, metadata.annotations)
    grace = spec.termination_grace_period_seconds
    if grace is not None and grace < 0:
        found.append(
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    if spec.affinity is not None:
        found.extend(_pod_affinity_warnings(f"{path}.affinity", spec.affinity))
    if spec.dns_config is not None:
        for index, server in enumerate(spec.dns_config.nameservers):
            found.extend(ip_warnings(f"{path}.dnsConfig.nameservers[{index}]", server))
    for index, alias in enumerate(spec.host_aliases):
        found.extend(ip_warnings(f"{path}.hostAliases[{index}].ip", alias.ip))
    return found


def _own_annotation_warnings(annotations: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What Bayplan says of annotations: rules that it cannot read, and alpha annotations that have become fields."""
    for name, text in ALPHA_ANNOTATIONS.items():
        if name in annotations:
            yield name, text
    for error in annotation_errors(annotations):
        name, _, text = error.partition(": ")
        yield name, text


def _placement_warnings(path: str, spec: core_v1.PodSpec) -> Iterator[str]:
    for key in sorted(spec.node_selector):
        if text := deprecated_label_warning(key):
            yield f"{path}.nodeSelector[{key}]: {text}"
    node = spec.affinity.node_affinity if spec.affinity is not None else None
    if node is not None:
        required = node.required_during_scheduling_ignored_during_execution
        where = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for index, term in enumerate(required.node_selector_terms if required is not None else ()):
            yield from term_warnings(f"{where}[{index}]", term)
        where = f"{path}.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        for index, preferred in enumerate(node.preferred_during_scheduling_ignored_during_execution):
            yield from term_warnings(f"{where}[{index}].preference", preferred.preference, checks_values=True)
    for index, constraint in enumerate(spec.topology_spread_constraints):
        where, key = f"{path}.topologySpreadConstraints[{index}]", constraint.topology_key
        if text := deprecated_label_warning(key):
            yield f"{where}.topologyKey: {key} is {text}"
        if constraint.label_selector is None:
            yield f"{where}.labelSelector: {_NO_SELECTOR}"


def _pod_affinity_warnings(path: str, affinity: core_v1.Affinity) -> Iterator[str]:
    for name, part in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if part is None:
            continue
        where = f"{path}.{name}.requiredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(part.required_during_scheduling_ignored_during_execution):
            if term.label_selector is None:
                yield f"{where}[{index}].labelSelector: {_NO_SELECTOR}"
        where = f"{path}.{name}.preferredDuringSchedulingIgnoredDuringExecution"
        for index, weighted in enumerate(part.preferred_during_scheduling_ignored_during_execution):
            if weighted.pod_affinity_term.label_selector is None:
                yield f"{where}[{index}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"


def app_armor_warnings(obj: core_v1.Pod) -> list[str]:
    """Warnings about AppArmor annotations of a new pod that stand where a field should, before they become fields."""
    spec, annotations = obj.spec, obj.metadata.annotations
    if not annotations or (spec.os is not None and spec.os.name == "windows"):
        return []
    of_pod = spec.security_context.app_armor_profile if spec.security_context is not None else None
    found = []
    for _, container in containers_with_path("", spec):
        key = APPARMOR + container.name
        own = container.security_context.app_armor_profile if container.security_context is not None else None
        if key in annotations and own is None:
            meant = app_armor_profile(annotations[key])
            if meant is None or meant != of_pod:
                found.append(f"metadata.annotations[{key}]: {_APPARMOR_TEXT}")
    return found


def _volume_warnings(path: str, volumes: tuple[core_v1.Volume, ...]) -> Iterator[str]:
    own = [(index, volume) for index, volume in enumerate(volumes) if not is_trusted(volume.projected)]
    for index, volume in own:
        where = f"{path}.volumes[{index}]"
        for attribute, field, text in _DEPRECATED_VOLUMES:
            if getattr(volume, attribute) is not None:
                yield f"{where}.{field}: {text}"
        if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
            spec = volume.ephemeral.volume_claim_template.spec
            yield from claim_spec_warnings(f"{where}.ephemeral.volumeClaimTemplate.spec", spec)
    for _, volume in own:
        yield from overlap_warnings(volume)


def _uniqueness_warnings(path: str, spec: core_v1.PodSpec) -> Iterator[str]:
    addresses: set[str] = set()
    for index, alias in enumerate(spec.host_aliases):
        if alias.ip in addresses:
            yield f'{path}.hostAliases[{index}].ip: duplicate ip "{alias.ip}"'
        addresses.add(alias.ip)
    secrets: set[str] = set()
    for index, reference in enumerate(spec.image_pull_secrets):
        if reference.name in secrets:
            yield f'{path}.imagePullSecrets[{index}].name: duplicate name "{reference.name}"'
        secrets.add(reference.name)
    for index, reference in enumerate(spec.image_pull_secrets):
        if not reference.name:
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _container_warnings(
    found: list[str], path: str, spec: core_v1.PodSpec, where_annotated: str, annotations: dict[str, str]
) -> None:
    with_ports: list[tuple[str, core_v1.Container]] = []
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            resources = container.resources
            limits, requests = resources.limits, resources.requests
            where = f"{path}.{kind}[{index}]"
            if annotations:
                found.extend(_annotation_warnings(where_annotated, annotations, spec, container))
            if (limits and _has_fraction(limits)) or (requests and _has_fraction(requests)):
                for name in _BYTES:
                    found.extend(_fraction_warnings(f"{where}.resources.limits", limits, (name,)))
                    found.extend(_fraction_warnings(f"{where}.resources.requests", requests, (name,)))
            if len(container.env) > 1:
                found.extend(_env_warnings(where, container.env))
            if container.ports:
                with_ports.append((where, container))
    if with_ports:
        found.extend(_port_warnings(with_ports))
        found.extend(_port_name_warnings(with_ports))


def _annotation_warnings(
    path: str, annotations: dict[str, str], spec: core_v1.PodSpec, container: core_v1.Container
) -> Iterator[str]:
    """Annotations about a container that stand where a field should. Those of a pod about AppArmor: see `app_armor_warnings`."""
    own = container.security_context or core_v1.SecurityContext()
    key = SECCOMP_CONTAINER + container.name
    if key in annotations and own.seccomp_profile is None:
        yield f"{path}[{key}]: {_SECCOMP_TEXT}"
    key = APPARMOR + container.name
    if not path.startswith("metadata.") and key in annotations and own.app_armor_profile is None:
        of_pod = spec.security_context.app_armor_profile if spec.security_context is not None else None
        if of_pod is None or of_pod != app_armor_profile(annotations[key]):
            yield f"{path}[{key}]: {_APPARMOR_TEXT}"


_BYTES = ("memory", "ephemeral-storage")


def _has_fraction(amounts: dict[str, str | int | float]) -> bool:
    return _fractional(amounts, _BYTES[0]) or _fractional(amounts, _BYTES[1])


def _fraction_warnings(path: str, amounts: dict[str, str | int | float], names: tuple[str, ...]) -> list[str]:
    """Bytes cannot be split."""
    return [_fraction_text(f"{path}[{name}]", amounts[name]) for name in names if _fractional(amounts, name)]


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


def _port_warnings(containers: list[tuple[str, core_v1.Container]]) -> Iterator[str]:
    """Ports of a pod that are defined more than once; `containers`: those with ports, and where they are."""
    seen: dict[tuple[int, str], list[tuple[str, core_v1.ContainerPort]]] = {}
    for where, port in _ports(containers):
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


def _port_name_warnings(containers: list[tuple[str, core_v1.Container]]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for where, port in _ports(containers):
        if port.name in seen:
            first = seen[port.name]
            text = f"with {first}, services and probes that select ports by name will use {first}"
            yield f'{where}: duplicate port name "{port.name}" {text}'
        elif port.name:
            seen[port.name] = where


def _ports(containers: list[tuple[str, core_v1.Container]]) -> Iterator[tuple[str, core_v1.ContainerPort]]:
    for where, container in containers:
        for index, port in enumerate(container.ports):
            yield f"{where}.ports[{index}]", port


def _fractional(amounts: dict[str, str | int | float], name: str) -> bool:
    value = amounts.get(name)
    return value is not None and quantity.parse(value).scale > 0


def _fraction_text(path: str, value: str | int | float) -> str:
    return f'{path}: fractional byte value "{quantity.canonical(value)}" is invalid, must be an integer'
