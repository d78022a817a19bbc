"""How admission policies and webhooks look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import UNSET, object_age, printers, selector_text


def _parameter_kind(obj: Any) -> str:
    kind = obj.spec.param_kind
    return UNSET if kind is None else f"{kind.api_version}/{kind.kind}"


def _validating_policy(obj: Any, now: float) -> list[Any]:
    return [obj.metadata.name, len(obj.spec.validations), _parameter_kind(obj), object_age(obj, now)]


def _mutating_policy(obj: Any, now: float) -> list[Any]:
    return [obj.metadata.name, len(obj.spec.mutations), _parameter_kind(obj), object_age(obj, now)]


def _policy_binding(obj: Any, now: float) -> list[Any]:
    reference = obj.spec.param_ref
    shown = UNSET
    if reference is not None and reference.name:
        shown = f"{reference.namespace}/{reference.name}" if reference.namespace else reference.name
    elif reference is not None and reference.selector is not None:
        shown = selector_text(reference.selector)
    return [obj.metadata.name, obj.spec.policy_name, shown, object_age(obj, now)]


def _webhooks(obj: Any, now: float) -> list[Any]:
    return [obj.metadata.name, len(obj.webhooks), object_age(obj, now)]


PRINTERS = printers(
    "admissionregistration",
    {
        "MutatingAdmissionPolicy": _mutating_policy,
        "MutatingAdmissionPolicyBinding": _policy_binding,
        "MutatingWebhookConfiguration": _webhooks,
        "ValidatingAdmissionPolicy": _validating_policy,
        "ValidatingAdmissionPolicyBinding": _policy_binding,
        "ValidatingWebhookConfiguration": _webhooks,
    },
)
