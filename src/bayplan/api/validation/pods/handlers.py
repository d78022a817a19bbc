"""Rules for probes and lifecycle handlers."""

from __future__ import annotations

from bayplan.api.errors import forbidden, invalid, required, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors, check_not_negative, check_port_number, check_port_number_or_name
from bayplan.api.validation.values import formats


def check_liveness_probe(errors: Errors, path: str, probe: core_v1.Probe) -> None:
    """A liveness or startup probe."""
    check_probe(errors, path, probe)
    if probe.success_threshold != 1:
        errors.append(invalid(f"{path}.successThreshold", probe.success_threshold, "must be 1"))


def check_readiness_probe(errors: Errors, path: str, probe: core_v1.Probe) -> None:
    """A readiness probe."""
    check_probe(errors, path, probe)
    if probe.termination_grace_period_seconds is not None:
        where = f"{path}.terminationGracePeriodSeconds"
        errors.append(invalid(where, probe.termination_grace_period_seconds, "must not be set for readinessProbes"))


def check_probe(errors: Errors, path: str, probe: core_v1.Probe) -> None:
    """What holds for all probes."""
    _check_handler(errors, path, probe, 0)
    check_not_negative(errors, f"{path}.initialDelaySeconds", probe.initial_delay_seconds)
    check_not_negative(errors, f"{path}.timeoutSeconds", probe.timeout_seconds)
    check_not_negative(errors, f"{path}.periodSeconds", probe.period_seconds)
    check_not_negative(errors, f"{path}.successThreshold", probe.success_threshold)
    check_not_negative(errors, f"{path}.failureThreshold", probe.failure_threshold)
    grace = probe.termination_grace_period_seconds
    if grace is not None and grace <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))


def check_lifecycle(errors: Errors, path: str, lifecycle: core_v1.Lifecycle, grace: int | None) -> None:
    """Handlers around a container's life. `grace`: the pod's grace period in seconds."""
    for name, handler in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        if handler is not None:
            _check_handler(errors, f"{path}.{name}", handler, grace)


def _check_handler(
    errors: Errors, path: str, handler: core_v1.Probe | core_v1.LifecycleHandler, grace: int | None
) -> None:
    found = 0
    for name in ("exec", "httpGet", "tcpSocket", "grpc", "sleep"):
        action = getattr(handler, _ATTRIBUTES[name], None)
        if action is None:
            continue
        found += 1
        if found > 1:
            errors.append(forbidden(f"{path}.{name}", "may not specify more than 1 handler type"))
        else:
            _check_action(errors, f"{path}.{name}", action, grace)
    if not found:
        errors.append(required(path, "must specify a handler type"))


_ATTRIBUTES = {"exec": "exec", "httpGet": "http_get", "tcpSocket": "tcp_socket", "grpc": "grpc", "sleep": "sleep"}
_Action = (
    core_v1.ExecAction | core_v1.HTTPGetAction | core_v1.TCPSocketAction | core_v1.GRPCAction | core_v1.SleepAction
)


def _check_action(errors: Errors, path: str, action: _Action, grace: int | None) -> None:
    if isinstance(action, core_v1.ExecAction):
        if not action.command:
            errors.append(required(f"{path}.command"))
    elif isinstance(action, core_v1.HTTPGetAction):
        if not action.path:
            errors.append(required(f"{path}.path"))
        check_port_number_or_name(errors, f"{path}.port", action.port)
        if action.scheme not in ("HTTP", "HTTPS"):
            errors.append(unsupported(f"{path}.scheme", action.scheme, ("HTTP", "HTTPS")))
        for header in action.http_headers:
            for message in formats.http_header_name(header.name):
                errors.append(invalid(f"{path}.httpHeaders", header.name, message))
    elif isinstance(action, core_v1.TCPSocketAction):
        check_port_number_or_name(errors, f"{path}.port", action.port)
    elif isinstance(action, core_v1.GRPCAction):
        check_port_number(errors, f"{path}.port", action.port)
    elif grace is not None and not 0 <= action.seconds <= grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        errors.append(invalid(path, action.seconds, detail))
