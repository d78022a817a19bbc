"""Warnings about pods and pod templates that are accepted all the same."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api import quantity
from bayplan.api.trusted import is_trusted
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation import formats
from bayplan.api.validation.ip_warnings import ip_warnings

_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": ("1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": ("1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": ("1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": ("1.17", "node.kubernetes.io/instance-type"),
}
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "seccomp.security.alpha.kubernetes.io/pod": 'non-functional in v1.27+; use the "seccompProfile" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
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
    """Warnings about the template at `path`."""
    return pod_warnings(
        f"{path}.", template.spec, template.metadata, old.spec if old is not None else None, is_pod=False
    )


def pod_warnings(
    prefix: str,
    spec: core_v1.PodSpec,
    metadata: meta_v1.ObjectMeta,
    old: core_v1.PodSpec | None,
    *,
    is_pod: bool = True,
) -> list[str]:
    """Warnings about a pod spec whose fields begin with `prefix` (`spec.template.`); `old`: the spec before an
    update."""
    found: list[str] = []
    if old is not None and old == spec:
        return found
    path = f"{prefix}spec"
    name_messages = formats.dns_label(metadata.name) if is_pod else formats.OK
    if name_messages:
        messages = " ".join(name_messages)
        found.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{messages}]"
        )
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
        found.extend(_annotation_warnings(f"{prefix}metadata.annotations", spec, metadata.annotations))
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


def _annotation_warnings(path: str, spec: core_v1.PodSpec, annotations: dict[str, str]) -> Iterator[str]:
    for key, text in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            yield f"{path}[{key}]: {text}"
    for container in (*spec.init_containers, *spec.containers):
        key = _SECCOMP + container.name
        if key in annotations:
            yield f'{path}[{key}]: non-functional in v1.27+; use the "seccompProfile" field instead'
        key = _APPARMOR + container.name
        if key in annotations:
            yield f'{path}[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def _volume_warnings(path: str, volume: core_v1.Volume) -> Iterator[str]:
    for attribute, field, text in _DEPRECATED_VOLUMES:
        if getattr(volume, attribute) is not None:
            yield f"{path}.{field}: {text}"
    if volume.iscsi is not None and volume.iscsi.chap_auth_session and volume.iscsi.secret_ref is None:
        yield f"{path}.iscsi.secretRef: required when chapAuthSession is set"
    if volume.host_path is None and volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
        requests = volume.ephemeral.volume_claim_template.spec.resources.requests
        if _fractional(requests, "storage"):
            yield _fraction_text(
                f"{path}.ephemeral.volumeClaimTemplate.spec.resources.requests[storage]", requests["storage"]
            )
    if volume.projected is not None:
        paths: dict[str, int] = {}
        for index, source in enumerate(volume.projected.sources):
            for target in _projected_paths(source):
                if target in paths and paths[target] != index:
                    yield f"{path}.projected.sources[{index}]: duplicate path {target}"
                paths[target] = index
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        limits = {"sizeLimit": volume.empty_dir.size_limit}
        if _fractional(limits, "sizeLimit"):
            yield _fraction_text(f"{path}.emptyDir.sizeLimit", volume.empty_dir.size_limit)


def _projected_paths(source: core_v1.VolumeProjection) -> Iterator[str]:
    for keyed in (source.secret, source.config_map):
        if keyed is not None:
            yield from (item.path for item in keyed.items)
    if source.downward_api is not None:
        yield from (item.path for item in source.downward_api.items)


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
    ports: dict[tuple[int, str, str, int], list[str]] = {}
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
    last: dict[str, int] = {}
    for index, variable in enumerate(env):
        before = last.get(variable.name)
        if before is not None and f"$({variable.name})" not in variable.value:
            text = f'hides previous definition of "{variable.name}", which may be dropped when using apply'
            yield f"{path}.env[{index}]: {text}"
        last[variable.name] = index


def _port_warnings(
    path: str, container: core_v1.Container, seen: dict[tuple[int, str, str, int], list[str]]
) -> Iterator[str]:
    for index, port in enumerate(container.ports):
        where = f"{path}.ports[{index}]"
        key = (port.container_port, port.protocol, port.host_ip, port.host_port)
        others = seen.setdefault(key, [])
        if others:
            yield f"{where}: duplicate port definition with {others[-1] if len(others) == 1 else ', '.join(others)}"
        others.append(where)


def _fractional(amounts: dict[str, str | int | float], name: str) -> bool:
    value = amounts.get(name)
    return value is not None and quantity.parse(value).scale > 0


def _fraction_text(path: str, value: str | int | float) -> str:
    return f'{path}: fractional byte value "{quantity.canonical(value)}" is invalid, must be an integer'
