"""Rules for containers of all three sorts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayplan.api.errors import duplicate, forbidden, invalid, not_found, required, too_many, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors, check_format
from bayplan.api.validation.pods.env import check_env, check_env_from
from bayplan.api.validation.pods.handlers import check_lifecycle, check_liveness_probe, check_readiness_probe
from bayplan.api.validation.pods.mounts import check_volume_devices, check_volume_mounts
from bayplan.api.validation.pods.security import check_security_context
from bayplan.api.validation.resources import check_container_resources
from bayplan.api.validation.values import formats

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")


@dataclass(frozen=True, slots=True)
class PodContext:
    """What the rules for one container need to know of its pod."""

    volumes: Mapping[str, core_v1.Volume]
    claims: frozenset[str]
    grace: int | None
    """`terminationGracePeriodSeconds`."""
    restart_policy: str
    host_users: bool


AnyContainer = core_v1.Container | core_v1.EphemeralContainer


def check_containers(errors: Errors, path: str, containers: tuple[core_v1.Container, ...], pod: PodContext) -> None:
    """`containers` of a pod."""
    if not containers:
        errors.append(required(path))
        return
    names: set[str] = set()
    has_host_ports = False
    for index, container in enumerate(containers):
        where = f"{path}[{index}]"
        _check_common(errors, where, container, pod)
        if container.name in names:
            errors.append(duplicate(f"{where}.name", container.name))
        names.add(container.name)
        _check_long_running(errors, where, container, pod)
        _check_restart_rules(errors, where, container)
        has_host_ports = has_host_ports or bool(container.ports)
    if has_host_ports:
        _check_host_ports(errors, path, containers)


def check_init_containers(
    errors: Errors,
    path: str,
    containers: tuple[core_v1.Container, ...],
    regular: tuple[core_v1.Container, ...],
    pod: PodContext,
) -> None:
    """`initContainers` of a pod, sidecars among them."""
    names = {container.name for container in regular}
    for index, container in enumerate(containers):
        where = f"{path}[{index}]"
        _check_common(errors, where, container, pod)
        _check_restart_rules(errors, where, container, is_init=True)
        if container.name in names:
            errors.append(duplicate(f"{where}.name", container.name))
        elif container.name:
            names.add(container.name)
        if container.ports:
            _check_host_ports(errors, path, (container,))
        if container.restart_policy == "Always":
            _check_long_running(errors, where, container, pod)
            continue
        for field, value in (
            ("lifecycle", container.lifecycle),
            ("livenessProbe", container.liveness_probe),
            ("readinessProbe", container.readiness_probe),
            ("startupProbe", container.startup_probe),
        ):
            if value is not None:
                errors.append(
                    forbidden(f"{where}.{field}", "may not be set for init containers without restartPolicy=Always")
                )
        for position, policy in enumerate(container.resize_policy):
            if policy.restart_policy == "RestartContainer":
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                path_of_policy = f"{where}.resizePolicy[{position}].restartPolicy"
                errors.append(invalid(path_of_policy, policy.restart_policy, text))


_NOT_EPHEMERAL = (
    ("ports", "ports"),
    ("resources", "resources"),
    ("resize_policy", "resizePolicy"),
    ("restart_policy", "restartPolicy"),
    ("restart_policy_rules", "restartPolicyRules"),
    ("liveness_probe", "livenessProbe"),
    ("readiness_probe", "readinessProbe"),
    ("startup_probe", "startupProbe"),
    ("lifecycle", "lifecycle"),
)


def check_ephemeral_containers(errors: Errors, path: str, spec: core_v1.PodSpec, pod: PodContext) -> None:
    """`ephemeralContainers` of a pod."""
    others = {container.name for container in spec.containers + spec.init_containers}
    names = set(others)
    for index, container in enumerate(spec.ephemeral_containers):
        where = f"{path}[{index}]"
        _check_common(errors, where, container, pod)
        check_image_whitespace(errors, where, container)
        if container.name in names:
            errors.append(duplicate(f"{where}.name", container.name))
        names.add(container.name)
        if container.target_container_name and container.target_container_name not in others:
            errors.append(not_found(f"{where}.targetContainerName", container.target_container_name))
        for attribute, field in _NOT_EPHEMERAL:
            value = getattr(container, attribute)
            if value not in ((), None) and value != core_v1.ResourceRequirements():
                errors.append(forbidden(f"{where}.{field}", "cannot be set for an Ephemeral Container"))
        for position, mount in enumerate(container.volume_mounts):
            for field, text in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
                if text:
                    errors.append(
                        forbidden(
                            f"{where}.volumeMounts[{position}].{field}", "cannot be set for an Ephemeral Container"
                        )
                    )


def check_image_whitespace(errors: Errors, path: str, container: AnyContainer) -> None:
    """Images of pods (not of templates) have no space around them."""
    image = container.image
    if image and (image[0].isspace() or image[-1].isspace()):
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))


def _check_common(errors: Errors, path: str, container: AnyContainer, pod: PodContext) -> None:
    if not container.name:
        errors.append(required(f"{path}.name"))
    elif formats.dns_label(container.name):
        check_format(errors, f"{path}.name", container.name, formats.dns_label)
    if not container.image:
        errors.append(required(f"{path}.image"))
    if container.termination_message_policy not in _MESSAGE_POLICIES:
        errors.append(
            unsupported(f"{path}.terminationMessagePolicy", container.termination_message_policy, _MESSAGE_POLICIES)
        )
    if container.ports:
        _check_ports(errors, f"{path}.ports", container.ports)
    if container.env:
        check_env(errors, f"{path}.env", container.env)
    if container.env_from:
        check_env_from(errors, f"{path}.envFrom", container.env_from)
    if container.volume_mounts:
        check_volume_mounts(errors, f"{path}.volumeMounts", container, pod.volumes)
    if container.volume_devices:
        check_volume_devices(errors, f"{path}.volumeDevices", container, pod.volumes)
    if container.image_pull_policy not in PULL_POLICIES:
        errors.append(unsupported(f"{path}.imagePullPolicy", container.image_pull_policy, PULL_POLICIES))
    resources = container.resources
    if resources.requests or resources.limits or resources.claims:
        check_container_resources(errors, f"{path}.resources", resources, pod.claims)
    if container.resize_policy:
        _check_resize_policy(errors, f"{path}.resizePolicy", container.resize_policy, pod.restart_policy)
    if container.security_context is not None:
        check_security_context(errors, f"{path}.securityContext", container.security_context, pod.host_users)


def _check_long_running(errors: Errors, path: str, container: core_v1.Container, pod: PodContext) -> None:
    if container.lifecycle is not None:
        check_lifecycle(errors, f"{path}.lifecycle", container.lifecycle, pod.grace)
    if container.liveness_probe is not None:
        check_liveness_probe(errors, f"{path}.livenessProbe", container.liveness_probe)
    if container.readiness_probe is not None:
        check_readiness_probe(errors, f"{path}.readinessProbe", container.readiness_probe)
    if container.startup_probe is not None:
        check_liveness_probe(errors, f"{path}.startupProbe", container.startup_probe)


_MAX_RULES = 20
_MAX_CODES = 255


def _check_restart_rules(errors: Errors, path: str, container: core_v1.Container, *, is_init: bool = False) -> None:
    """Rules of an init container without a policy are not looked at further."""
    policy, rules = container.restart_policy, container.restart_policy_rules
    if policy is None:
        if rules:
            errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
        if is_init:
            return
    elif policy not in RESTART_POLICIES:
        errors.append(unsupported(f"{path}.restartPolicy", policy, RESTART_POLICIES))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        where = f"{path}.restartPolicyRules[{index}]"
        if rule.action not in ("Restart", "RestartAllContainers"):
            errors.append(unsupported(f"{where}.action", rule.action, ("Restart", "RestartAllContainers")))
        codes = rule.exit_codes
        if codes is None:
            errors.append(required(f"{where}.exitCodes", "must be specified"))
            continue
        if codes.operator not in ("In", "NotIn"):
            errors.append(unsupported(f"{where}.exitCodes.operator", codes.operator, ("In", "NotIn")))
        if len(codes.values) > _MAX_CODES:
            errors.append(too_many(f"{where}.exitCodes.values", len(codes.values), _MAX_CODES))


def _check_ports(errors: Errors, path: str, ports: tuple[core_v1.ContainerPort, ...]) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        if port.name:
            if formats.port_name(port.name):
                check_format(errors, f"{path}[{index}].name", port.name, formats.port_name)
            elif port.name in names:
                errors.append(duplicate(f"{path}[{index}].name", port.name))
            else:
                names.add(port.name)
        if not port.container_port:
            errors.append(required(f"{path}[{index}].containerPort"))
        elif not 1 <= port.container_port <= 65535:
            errors.append(
                invalid(f"{path}[{index}].containerPort", port.container_port, formats.range_message(1, 65535))
            )
        if port.host_port and not 1 <= port.host_port <= 65535:
            errors.append(invalid(f"{path}[{index}].hostPort", port.host_port, formats.range_message(1, 65535)))
        if port.protocol not in PROTOCOLS:
            errors.append(unsupported(f"{path}[{index}].protocol", port.protocol, PROTOCOLS))


def _check_host_ports(errors: Errors, path: str, containers: tuple[core_v1.Container, ...]) -> None:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.ports):
            if port.host_port:
                key = f"{port.protocol}/{port.host_ip}/{port.host_port}"
                if key in seen:
                    errors.append(duplicate(f"{path}[{index}].ports[{position}].hostPort", key))
                seen.add(key)


def _check_resize_policy(
    errors: Errors, path: str, policies: tuple[core_v1.ContainerResizePolicy, ...], restart_policy: str
) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        if policy.resource_name in seen:
            errors.append(duplicate(f"{path}[{index}]", policy.resource_name))
        seen.add(policy.resource_name)
        if policy.resource_name not in ("cpu", "memory"):
            errors.append(
                unsupported(path, policy.resource_name, ("cpu", "memory")) if policy.resource_name else required(path)
            )
        if policy.restart_policy not in ("NotRequired", "RestartContainer"):
            supported = ("NotRequired", "RestartContainer")
            errors.append(
                unsupported(path, policy.restart_policy, supported) if policy.restart_policy else required(path)
            )
        if restart_policy == "Never" and policy.restart_policy != "NotRequired":
            errors.append(
                invalid(path, policy.restart_policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
            )
