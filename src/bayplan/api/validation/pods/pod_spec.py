"""Rules for pod specs, in pods and in templates. The order of the checks is that of Kubernetes' messages."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

from bayplan.api.errors import duplicate, forbidden, invalid, required, too_long, unsupported
from bayplan.api.trusted import is_trusted
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation.fields import (
    Errors,
    check_format,
    check_ip,
    check_key_format,
    check_labels,
)
from bayplan.api.validation.go_structs import go_struct
from bayplan.api.validation.meta import check_annotations
from bayplan.api.validation.pods.containers import (
    PodContext,
    check_containers,
    check_ephemeral_containers,
    check_image_whitespace,
    check_init_containers,
)
from bayplan.api.validation.pods.scheduling import check_affinity, check_tolerations, check_topology_spread
from bayplan.api.validation.pods.security import (
    check_host_process,
    check_operating_system,
    check_pod_security_context,
)
from bayplan.api.validation.pods.sound_templates import SoundTemplates
from bayplan.api.validation.pods.volumes import check_volumes
from bayplan.api.validation.profiles import check_pod_annotations, check_profiles_match
from bayplan.api.validation.resources import check_container_resources, check_pod_resources
from bayplan.api.validation.values import formats

_NO_VOLUMES: Final = MappingProxyType[str, core_v1.Volume]({})
_NO_CLAIMS: Final[frozenset[str]] = frozenset()
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EMPTY_SECURITY_CONTEXT: Final = core_v1.PodSecurityContext()
_SOUND_TEMPLATES: Final = SoundTemplates("valid_pod_templates")
"""Those that break no rule."""


def check_pod_spec(
    errors: Errors, path: str, spec: core_v1.PodSpec, metadata: meta_v1.ObjectMeta | None = None
) -> None:
    """The spec of a pod (`metadata`: the pod's) or of a template (None)."""
    volumes = check_volumes(errors, f"{path}.volumes", spec.volumes, metadata) if spec.volumes else _NO_VOLUMES
    claims = _NO_CLAIMS
    if spec.resource_claims:
        claims = frozenset(claim.name for claim in spec.resource_claims if claim.name)
        _check_resource_claims(errors, f"{path}.resourceClaims", spec.resource_claims)
    context = PodContext(
        volumes,
        claims,
        spec.termination_grace_period_seconds,
        spec.restart_policy,
        spec.host_users is not False,
    )
    check_containers(errors, f"{path}.containers", spec.containers, context)
    if spec.init_containers:
        check_init_containers(errors, f"{path}.initContainers", spec.init_containers, spec.containers, context)
    if spec.ephemeral_containers:
        check_ephemeral_containers(errors, f"{path}.ephemeralContainers", spec, context)
    if spec.resources is not None:
        check_pod_resources(errors, f"{path}.resources", spec, claims)
    if spec.host_network:
        _check_host_network(errors, path, spec, in_pod=metadata is not None)
    if spec.restart_policy not in _RESTART_POLICIES:
        errors.append(unsupported(f"{path}.restartPolicy", spec.restart_policy, _RESTART_POLICIES))
    if spec.dns_policy not in _DNS_POLICIES:
        errors.append(unsupported(f"{path}.dnsPolicy", spec.dns_policy, _DNS_POLICIES))
    if spec.node_selector:
        check_labels(errors, f"{path}.nodeSelector", spec.node_selector)
    if spec.security_context is not None and (
        spec.security_context != _EMPTY_SECURITY_CONTEXT or spec.share_process_namespace
    ):
        check_pod_security_context(errors, f"{path}.securityContext", spec)
    if spec.affinity is not None:
        check_affinity(errors, f"{path}.affinity", spec.affinity)
    if spec.dns_config is not None or spec.dns_policy == "None":
        _check_dns(errors, f"{path}.dnsConfig", spec)
    for index, gate in enumerate(spec.readiness_gates):
        check_key_format(errors, f"{path}.readinessGates[{index}].conditionType", gate.condition_type)
    if spec.scheduling_gates:
        _check_scheduling_gates(errors, f"{path}.schedulingGates", spec.scheduling_gates)
    if spec.topology_spread_constraints:
        check_topology_spread(errors, f"{path}.topologySpreadConstraints", spec.topology_spread_constraints)
    check_host_process(errors, path, spec)
    if spec.host_users is False:
        _check_user_namespace(errors, path, spec)
    _check_names(errors, path, spec)
    if spec.tolerations and not is_trusted(spec.tolerations):
        check_tolerations(errors, f"{path}.tolerations", spec.tolerations)
    if spec.host_aliases:
        _check_host_aliases(errors, f"{path}.hostAliases", spec.host_aliases)
    _check_references(errors, path, spec)


def _check_names(errors: Errors, path: str, spec: core_v1.PodSpec) -> None:
    """Names of account and node, the deadline, and the host's names."""
    if spec.service_account_name and formats.dns_subdomain(spec.service_account_name):
        check_format(errors, f"{path}.serviceAccountName", spec.service_account_name, formats.dns_subdomain)
    if spec.node_name and formats.dns_subdomain(spec.node_name):
        check_format(errors, f"{path}.nodeName", spec.node_name, formats.dns_subdomain)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, formats.range_message(1, 2**31 - 1)))
    if spec.hostname:
        check_format(errors, f"{path}.hostname", spec.hostname, formats.dns_label)
    if spec.subdomain:
        check_format(errors, f"{path}.subdomain", spec.subdomain, formats.dns_label)
    if spec.hostname_override is not None:
        _check_hostname_override(errors, path, spec, spec.hostname_override)


def _check_hostname_override(errors: Errors, path: str, spec: core_v1.PodSpec, name: str) -> None:
    where = f"{path}.hostnameOverride"
    if spec.set_hostname_as_fqdn:
        errors.append(forbidden(where, "may not be specified when setHostnameAsFQDN is true"))
    if spec.host_network:
        errors.append(forbidden(where, "may not be specified when hostNetwork is true"))
    if len(name) > 64:
        errors.append(too_long(where, 64))
    check_format(errors, where, name, formats.dns_subdomain)


def _check_references(errors: Errors, path: str, spec: core_v1.PodSpec) -> None:
    """Names of classes, preemption, overhead and operating system."""
    if spec.priority_class_name:
        check_format(errors, f"{path}.priorityClassName", spec.priority_class_name, formats.dns_subdomain)
    if spec.runtime_class_name is not None:
        check_format(errors, f"{path}.runtimeClassName", spec.runtime_class_name, formats.dns_subdomain)
    if spec.preemption_policy is not None and spec.preemption_policy not in ("PreemptLowerPriority", "Never"):
        if spec.preemption_policy:
            errors.append(
                unsupported(f"{path}.preemptionPolicy", spec.preemption_policy, ("PreemptLowerPriority", "Never"))
            )
        else:
            errors.append(required(f"{path}.preemptionPolicy"))
    if spec.overhead:
        check_overhead(errors, f"{path}.overhead", spec.overhead)
    if spec.os is not None:
        check_operating_system(errors, path, spec)


def check_overhead(errors: Errors, path: str, overhead: dict[str, str | int | float]) -> None:
    """Overhead of a pod or runtime class: limits by themselves."""
    check_container_resources(errors, path, core_v1.ResourceRequirements(limits=overhead), _NO_CLAIMS)


def _check_resource_claims(errors: Errors, path: str, claims: tuple[core_v1.PodResourceClaim, ...]) -> None:
    names: set[str] = set()
    for index, claim in enumerate(claims):
        where = f"{path}[{index}]"
        if not claim.name:
            errors.append(required(f"{where}.name"))
        elif claim.name in names:
            errors.append(duplicate(f"{where}.name", claim.name))
        else:
            check_format(errors, f"{where}.name", claim.name, formats.dns_label)
            names.add(claim.name)
        if claim.resource_claim_name is not None and claim.resource_claim_template_name is not None:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(where, go_struct(claim), text))
        if claim.resource_claim_name is None and claim.resource_claim_template_name is None:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(where, go_struct(claim), text))
        if claim.resource_claim_name is not None:
            check_format(errors, f"{where}.resourceClaimName", claim.resource_claim_name, formats.dns_subdomain)
        if claim.resource_claim_template_name is not None:
            name = claim.resource_claim_template_name
            check_format(errors, f"{where}.resourceClaimTemplateName", name, formats.dns_subdomain)


def _check_host_network(errors: Errors, path: str, spec: core_v1.PodSpec, *, in_pod: bool) -> None:
    for index, container in enumerate(spec.containers):
        for position, port in enumerate(container.ports):
            if (in_pod or port.host_port) and port.host_port != port.container_port:
                where = f"{path}.containers[{index}].ports[{position}].hostPort"
                errors.append(invalid(where, port.host_port, "must match `containerPort` when `hostNetwork` is true"))


def _check_user_namespace(errors: Errors, path: str, spec: core_v1.PodSpec) -> None:
    for field, used in (("hostNetwork", spec.host_network), ("HostPID", spec.host_pid), ("HostIPC", spec.host_ipc)):
        if used:
            errors.append(forbidden(f"{path}.{field}", "when `hostUsers` is false"))
    kinds = ("initContainers", "containers", "ephemeralContainers")
    lists: tuple[Sequence[Any], ...] = (spec.init_containers, spec.containers, spec.ephemeral_containers)
    for kind, containers in zip(kinds, lists, strict=True):
        for index, container in enumerate(containers):
            if container.volume_devices:
                where = f"{path}.{kind}[{index}].volumeDevices"
                errors.append(forbidden(where, "when `hostUsers` is false"))


def _check_dns(errors: Errors, path: str, spec: core_v1.PodSpec) -> None:
    config = spec.dns_config
    if config is None:
        errors.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
        return
    if spec.dns_policy == "None" and not config.nameservers:
        errors.append(
            required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
        )
        return
    if len(config.nameservers) > 3:
        errors.append(invalid(f"{path}.nameservers", config.nameservers, "must not have more than 3 nameservers"))
    for index, server in enumerate(config.nameservers):
        check_ip(errors, f"{path}.nameservers[{index}]", server)
    if len(config.searches) > 32:
        errors.append(invalid(f"{path}.searches", config.searches, "must not have more than 32 search paths"))
    if len(" ".join(config.searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", config.searches, text))
    for index, search in enumerate(config.searches):
        if search != ".":
            check_format(
                errors, f"{path}.searches[{index}]", search.removesuffix("."), formats.dns_subdomain_with_underscore
            )
    for index, option in enumerate(config.options):
        if not option.name:
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))


def _check_scheduling_gates(errors: Errors, path: str, gates: tuple[core_v1.PodSchedulingGate, ...]) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        check_key_format(errors, f"{path}[{index}]", gate.name)
        if gate.name in seen:
            errors.append(duplicate(f"{path}[{index}]", gate.name))
        seen.add(gate.name)


def _check_host_aliases(errors: Errors, path: str, aliases: tuple[core_v1.HostAlias, ...]) -> None:
    for index, alias in enumerate(aliases):
        check_ip(errors, f"{path}[{index}].ip", alias.ip)
        for position, hostname in enumerate(alias.hostnames):
            check_format(errors, f"{path}[{index}].hostnames[{position}]", hostname, formats.dns_subdomain)


def check_pod_containers_only(errors: Errors, spec: core_v1.PodSpec) -> None:
    """What holds for containers of pods but not of templates."""
    for index, container in enumerate(spec.containers):
        check_image_whitespace(errors, f"spec.containers[{index}]", container)
    for index, container in enumerate(spec.init_containers):
        check_image_whitespace(errors, f"spec.initContainers[{index}]", container)


def check_template_metadata(errors: Errors, path: str, template: core_v1.PodTemplateSpec) -> None:
    """Labels and annotations of a pod template."""
    metadata = template.metadata
    if metadata.labels:
        check_labels(errors, f"{path}.labels", metadata.labels)
    if metadata.annotations:
        check_annotations(errors, f"{path}.annotations", metadata.annotations)
        check_pod_annotations(errors, f"{path}.annotations", metadata.annotations, template.spec)


def check_pod_template(errors: Errors, path: str, template: core_v1.PodTemplateSpec) -> None:
    """A pod template: labels, annotations and spec."""
    key = _SOUND_TEMPLATES.key_of(template)
    if _SOUND_TEMPLATES.knows(key):
        return
    before = len(errors)
    check_template_metadata(errors, path, template)
    check_pod_spec(errors, f"{path}.spec", template.spec)
    if template.metadata.annotations:
        check_profiles_match(errors, f"{path}.spec", template.metadata.annotations, template.spec)
    if template.spec.ephemeral_containers:
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    if len(errors) == before:
        _SOUND_TEMPLATES.remember(key)
