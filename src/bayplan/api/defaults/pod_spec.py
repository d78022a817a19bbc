"""Defaults of pods and pod templates. Source: `pkg/apis/core/v1/defaults.go` and the `+default` markers of the
types."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.defaults.images import pull_policy
from bayplan.api.defaults.quantities import canonical, canonical_list
from bayplan.api.defaults.volumes import default_volume
from bayplan.api.types import core_v1


def default_pod_spec(spec: core_v1.PodSpec) -> None:
    """What holds for pods and templates alike. Raises codec.DecodeError for malformed quantities."""
    if not spec.dns_policy:
        spec.dns_policy = "ClusterFirst"
    if not spec.restart_policy:
        spec.restart_policy = "Always"
    if spec.security_context is None:
        spec.security_context = core_v1.PodSecurityContext()
    if spec.termination_grace_period_seconds is None:
        spec.termination_grace_period_seconds = 30
    if not spec.scheduler_name:
        spec.scheduler_name = "default-scheduler"
    account = spec.service_account_name or spec.service_account
    if account:
        spec.service_account_name = spec.service_account = account
    for container in spec.containers:
        default_container(container)
    if spec.init_containers:
        for container in spec.init_containers:
            default_container(container)
    if spec.ephemeral_containers:
        for ephemeral in spec.ephemeral_containers:
            default_container(ephemeral)
    for volume in spec.volumes:
        default_volume(volume)
    if spec.overhead:
        canonical_list(spec.overhead)
    if spec.resources is not None:
        canonical_list(spec.resources.limits)
        canonical_list(spec.resources.requests)


def default_container(container: core_v1.Container | core_v1.EphemeralContainer) -> None:
    """Defaults of one container."""
    if not container.image_pull_policy:
        container.image_pull_policy = pull_policy(container.image)
    if not container.termination_message_path:
        container.termination_message_path = "/dev/termination-log"
    if not container.termination_message_policy:
        container.termination_message_policy = "File"
    resources = container.resources
    if resources.limits:
        canonical_list(resources.limits)
    if resources.requests:
        canonical_list(resources.requests)
    for port in container.ports:
        if not port.protocol:
            port.protocol = "TCP"
    if container.env:
        _default_env(container.env)
    for probe in (container.liveness_probe, container.readiness_probe, container.startup_probe):
        if probe is not None:
            default_probe(probe)
    if container.lifecycle is not None:
        for handler in (container.lifecycle.post_start, container.lifecycle.pre_stop):
            if handler is not None and handler.http_get is not None:
                default_http_get(handler.http_get)
        if container.lifecycle.stop_signal is not None:  # off by default in 1.36, so the server drops it
            container.lifecycle.stop_signal = None
            if container.lifecycle == core_v1.Lifecycle():
                container.lifecycle = None


def _default_env(env: Iterable[core_v1.EnvVar]) -> None:
    for variable in env:
        source = variable.value_from
        if source is None:
            continue
        if source.field_ref is not None and not source.field_ref.api_version:
            source.field_ref.api_version = "v1"
        if source.resource_field_ref is not None:
            source.resource_field_ref.divisor = canonical(source.resource_field_ref.divisor)
        if source.file_key_ref is not None and source.file_key_ref.optional is None:
            source.file_key_ref.optional = False


def default_probe(probe: core_v1.Probe) -> None:
    """Defaults of a probe."""
    probe.timeout_seconds = probe.timeout_seconds or 1
    probe.period_seconds = probe.period_seconds or 10
    probe.success_threshold = probe.success_threshold or 1
    probe.failure_threshold = probe.failure_threshold or 3
    if probe.http_get is not None:
        default_http_get(probe.http_get)
    if probe.grpc is not None and probe.grpc.service is None:
        probe.grpc.service = ""


def default_http_get(action: core_v1.HTTPGetAction) -> None:
    """Defaults of an HTTP handler."""
    action.path = action.path or "/"
    action.scheme = action.scheme or "HTTP"


def default_pod_template(template: core_v1.PodTemplateSpec) -> None:
    """Defaults of a pod template."""
    default_pod_spec(template.spec)
