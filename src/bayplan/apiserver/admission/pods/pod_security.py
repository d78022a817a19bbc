"""PodSecurity: labels of a namespace say which level of the pod security standards its pods must keep, and about which one to warn.

Without a configuration nothing is exempt and namespaces without labels are privileged.

Source: plugin `PodSecurity` of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.errors import FieldError, forbidden_error, invalid_object
from bayplan.api.kinds import Kind
from bayplan.api.pod_security.evaluation import violations
from bayplan.api.pod_security.policy import PREFIX, PRIVILEGED, Policies, Policy, policies_of, stricter
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.pods.pod_security_configuration import Exemptions, read
from bayplan.apiserver.authorization.rbac import aggregate

_WORKLOADS = frozenset(
    (
        ("", "ReplicationController"),
        ("", "PodTemplate"),
        ("apps", "ReplicaSet"),
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("batch", "CronJob"),
    )
)
_MOST_PODS = 3000
"""Pods of a namespace that are looked at when its labels change."""
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"


class PodSecurity(AdmissionPlugin):
    """See the module."""

    name = "PodSecurity"

    def __init__(self) -> None:
        self._defaults, self._exemptions = Policies(), Exemptions()

    def configure(self, configuration: Mapping[str, Any]) -> None:
        """Take a `PodSecurityConfiguration`. Raises ValueError."""
        try:
            self._defaults, self._exemptions = read(configuration)
        except ValueError as error:
            raise ValueError(f"PodSecurity: {error}") from error

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        if operation not in (CREATE, UPDATE):
            return False
        if not kind.group and kind.kind == "Pod":
            return subresource in ("", "ephemeralcontainers", "resize")
        is_namespace = not kind.group and kind.kind == "Namespace"
        return not subresource and (is_namespace or (kind.group, kind.kind) in _WORKLOADS)

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse pods that break the enforced level (403) and malformed labels (422); warn about the rest."""
        if request.kind.kind == "Namespace":
            self._check_namespace(request)
            return
        if exempt := self._exempt(request):
            _note_exempt(request, exempt)
            return
        (policies, errors), is_pod = self._policies(request), request.kind.kind == "Pod"
        if policies is None:
            if is_pod:
                _note(request, "enforce-policy", str(Policy()))
            return
        if is_pod:
            self._check_pod(request, policies, errors)
            return
        template = _template(request.obj)
        if template is not None and not self._is_exempt_class(request, template.spec):
            _note_errors(request, errors)
            _note_violations(request, policies.audit, template)
            _warn(request, policies.warn, template)

    def _exempt(self, request: AdmissionRequest) -> str:
        """Why a request about pods is not looked at; "" if it is."""
        exemptions = self._exemptions
        if request.namespace in exemptions.namespaces:
            return "namespace"
        return "user" if exemptions.usernames and request.call.request.user.name in exemptions.usernames else ""

    def _is_exempt_class(self, request: AdmissionRequest, spec: Any) -> bool:
        """Whether pods with such a spec may be as they like, since their runtime class is exempt."""
        classes = self._exemptions.runtime_classes
        if not classes or spec is None or spec.runtime_class_name not in classes:
            return False
        _note_exempt(request, "runtimeClass")
        return True

    def _policies(self, request: AdmissionRequest) -> tuple[Policies | None, list[FieldError]]:
        """What counts in the request's namespace (None: nothing), and what is wrong with its labels."""
        context: Any = request.call.context
        kind = context.kinds.of_kind("v1", "Namespace")
        entry = context.objects.cache(kind).get("", request.namespace) if kind is not None else None
        labels: Mapping[str, str] = entry.labels if entry is not None else {}
        for key in labels:
            if key.startswith(PREFIX):
                return policies_of(labels, self._defaults)
        return None if self._defaults == Policies() else self._defaults, []

    def _check_pod(self, request: AdmissionRequest, policies: Policies, errors: list[FieldError]) -> None:
        pod, old = request.obj, request.old
        if not errors and all(one.level == PRIVILEGED for one in policies):
            _note(request, "enforce-policy", str(Policy()))
            _count(request, policies.enforce, "enforce", allowed=True)
            return
        if old is not None and not _matters(pod, old):
            return
        if self._is_exempt_class(request, pod.spec):
            return
        _note_errors(request, errors)
        _note(request, "enforce-policy", str(policies.enforce))
        _note_violations(request, policies.audit, pod)
        found = violations(policies.enforce, pod.metadata, pod.spec)
        _count(request, policies.enforce, "enforce", allowed=not found)
        if found:
            detail = f'violates PodSecurity "{policies.enforce}": {", ".join(map(str, found))}'
            raise forbidden_error(request.call.kind.plural, "", request.name, detail)
        _warn(request, policies.warn, pod)

    def _check_namespace(self, request: AdmissionRequest) -> None:
        new, old = request.obj.metadata.labels, request.old.metadata.labels if request.old is not None else {}
        policies, errors = policies_of(new, self._defaults)
        if request.old is None:
            if errors:
                raise invalid_object("Namespace", "", request.name, errors)
            self._warn_if_exempt(request, policies, new)
            return
        former, former_errors = policies_of(old, self._defaults)
        if errors and errors != former_errors:
            raise invalid_object("Namespace", "", request.name, errors)
        if policies.enforce == former.enforce or policies.enforce.level == PRIVILEGED:
            return
        if policies.enforce.minor == former.enforce.minor and not stricter(policies.enforce, former.enforce):
            return
        if not self._warn_if_exempt(request, policies, new):
            _warn_about_pods(request, policies.enforce)

    def _warn_if_exempt(self, request: AdmissionRequest, policies: Policies, labels: Mapping[str, str]) -> bool:
        """Say that labels have no effect, if they have none; whether the namespace is exempt."""
        if request.name not in self._exemptions.namespaces:
            return False
        if policies != self._defaults and any(one.level != PRIVILEGED for one in policies):
            asked = ", ".join(
                f"{mode}={policy}"
                for mode, policy in zip(("enforce", "audit", "warn"), policies, strict=True)
                if policy.level != PRIVILEGED and (PREFIX + mode in labels or f"{PREFIX}{mode}-version" in labels)
            )
            request.call.warnings.append(
                f'namespace "{request.name}" is exempt from Pod Security, and the policy ({asked}) will be ignored'
            )
        return True


def _note(request: AdmissionRequest, name: str, value: str) -> None:
    """Put something into the audit log."""
    record = request.call.request.audit
    if record is not None:
        record.annotate(PREFIX + name, value)


def _note_exempt(request: AdmissionRequest, why: str) -> None:
    """Put into the audit log and the metrics that a request was not looked at."""
    _note(request, "exempt", why)
    request.call.context.admission_metrics.policies.exempt(_place(request))


def _count(request: AdmissionRequest, policy: Policy, mode: str, *, allowed: bool) -> None:
    metrics = request.call.context.admission_metrics.policies
    metrics.evaluated(policy, mode, _place(request), allowed=allowed)


def _place(request: AdmissionRequest) -> tuple[str, str, str]:
    """What metrics say of a request."""
    return request.operation.lower(), "pod" if request.kind.kind == "Pod" else "controller", request.subresource


def _note_errors(request: AdmissionRequest, errors: list[FieldError]) -> None:
    """Put into the audit log what is wrong with the labels of the namespace."""
    if errors:
        request.call.context.admission_metrics.policies.malformed(_place(request))
        _note(request, "error", f"Failed to parse policy: {aggregate(errors)}")


def _note_violations(request: AdmissionRequest, policy: Policy, pod: Any) -> None:
    """Put into the audit log what speaks against a pod or a template of pods."""
    if found := violations(policy, pod.metadata, pod.spec):
        _count(request, policy, "audit", allowed=False)
        _note(request, "audit-violations", f'would violate PodSecurity "{policy}": {", ".join(map(str, found))}')


def _warn(request: AdmissionRequest, policy: Policy, pod: Any) -> None:
    """Warn about a pod or a template of pods."""
    found = violations(policy, pod.metadata, pod.spec)
    if found:
        _count(request, policy, "warn", allowed=False)
        request.call.warnings.append(f'would violate PodSecurity "{policy}": {", ".join(map(str, found))}')


def _matters(pod: core_v1.Pod, old: core_v1.Pod) -> bool:
    """Whether an update can change the verdict: other images, other containers."""
    for name in ("init_containers", "containers"):
        new, was = getattr(pod.spec, name), getattr(old.spec, name)
        if len(new) != len(was) or any(map(_changed, new, was)):
            return True
    known = {container.name: container for container in old.spec.ephemeral_containers}
    for container in pod.spec.ephemeral_containers:
        if container.name not in known or _changed(container, known[container.name]):
            return True
    keys = [_SECCOMP + container.name for container in (*pod.spec.init_containers, *pod.spec.containers)]
    return any(pod.metadata.annotations.get(key) != old.metadata.annotations.get(key) for key in keys)


def _changed(new: Any, old: Any) -> bool:
    return bool(new.image != old.image)


def _template(obj: Any) -> Any:
    """The pod template in a workload, or None."""
    if isinstance(obj, core_v1.PodTemplate):
        return obj.template
    spec = obj.spec
    job = getattr(spec, "job_template", None)
    return job.spec.template if job is not None else spec.template


def _warn_about_pods(request: AdmissionRequest, policy: Policy) -> None:
    """Tell which pods that are there already would no longer be allowed."""
    context: Any = request.call.context
    kind = context.kinds.of_kind("v1", "Pod")
    if kind is None:
        return
    cache = context.objects.cache(kind)
    names: dict[str, list[str]] = {}
    for count, entry in enumerate(cache.ordered(request.name)):
        if count == _MOST_PODS:
            break
        pod = cache.shared(entry)
        found = violations(policy, pod.metadata, pod.spec)
        if found:
            names.setdefault(", ".join(one.reason for one in found), []).append(entry.name)
    if not names:
        return
    warnings = request.call.warnings
    warnings.append(f'existing pods in namespace "{request.name}" violate the new PodSecurity enforce level "{policy}"')
    for reasons, pods in sorted(names.items(), key=lambda one: one[1][0]):
        others = len(pods) - 1
        also = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
        warnings.append(f"{pods[0]}{also}: {reasons}")
