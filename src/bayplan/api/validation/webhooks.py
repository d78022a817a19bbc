"""Rules for webhook configurations of both sorts."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.errors import duplicate, invalid, required, unsupported
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import meta_v1
from bayplan.api.validation.admission_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    check_match_conditions,
    check_rules,
    default_rules,
)
from bayplan.api.validation.client_configs import check_service, check_url
from bayplan.api.validation.fields import Errors, check_label_selector, check_qualified_dns_name, repeats
from bayplan.api.validation.values import formats

Webhook = types.ValidatingWebhook | types.MutatingWebhook
_REVIEW_VERSIONS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")


def default_webhook(webhook: Webhook) -> None:
    """Defaults of one webhook."""
    if webhook.failure_policy is None:
        webhook.failure_policy = "Fail"
    if webhook.match_policy is None:
        webhook.match_policy = "Equivalent"
    if webhook.namespace_selector is None:
        webhook.namespace_selector = meta_v1.LabelSelector()
    if webhook.object_selector is None:
        webhook.object_selector = meta_v1.LabelSelector()
    if webhook.timeout_seconds is None:
        webhook.timeout_seconds = 10
    if isinstance(webhook, types.MutatingWebhook) and webhook.reinvocation_policy is None:
        webhook.reinvocation_policy = "Never"
    service = webhook.client_config.service
    if service is not None and service.port is None:
        service.port = 443
    default_rules(webhook.rules)


def check_webhooks(errors: Errors, webhooks: Sequence[Webhook]) -> None:
    """`webhooks` of a configuration."""
    names: set[str] = set()
    for index, webhook in enumerate(webhooks):
        path = f"webhooks[{index}]"
        _check_webhook(errors, path, webhook)
        versions = webhook.admission_review_versions
        _check_review_versions(errors, f"{path}.admissionReviewVersions", versions)
        if webhook.name:
            if webhook.name in names:
                errors.append(duplicate(f"{path}.name", webhook.name))
            names.add(webhook.name)


def _check_review_versions(errors: Errors, path: str, versions: tuple[str, ...]) -> None:
    if not versions:
        errors.append(required(path, "must specify one of v1, v1beta1"))
        return
    again = repeats(versions)
    for index, version in enumerate(versions):
        if index in again:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        for message in formats.dns_1035_label(version):
            errors.append(invalid(f"{path}[{index}]", version, message))
    if not any(version in _REVIEW_VERSIONS for version in versions):
        errors.append(invalid(path, versions, "must include at least one of v1, v1beta1"))


def _check_webhook(errors: Errors, path: str, webhook: Webhook) -> None:
    check_qualified_dns_name(errors, f"{path}.name", webhook.name)
    check_rules(errors, f"{path}.rules", webhook.rules)
    if webhook.failure_policy is not None and webhook.failure_policy not in FAILURE_POLICIES:
        errors.append(unsupported(f"{path}.failurePolicy", webhook.failure_policy, FAILURE_POLICIES))
    if webhook.match_policy is not None and webhook.match_policy not in MATCH_POLICIES:
        errors.append(unsupported(f"{path}.matchPolicy", webhook.match_policy, MATCH_POLICIES))
    if webhook.side_effects is None:
        errors.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    elif webhook.side_effects not in _SIDE_EFFECTS:
        errors.append(unsupported(f"{path}.sideEffects", webhook.side_effects, _SIDE_EFFECTS))
    seconds = webhook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= 30:
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds"))
    check_label_selector(errors, f"{path}.namespaceSelector", webhook.namespace_selector)
    check_label_selector(errors, f"{path}.objectSelector", webhook.object_selector)
    if isinstance(webhook, types.MutatingWebhook) and webhook.reinvocation_policy not in (None, "IfNeeded", "Never"):
        errors.append(unsupported(f"{path}.reinvocationPolicy", webhook.reinvocation_policy, ("IfNeeded", "Never")))
    _check_client(errors, f"{path}.clientConfig", webhook.client_config)
    check_match_conditions(errors, f"{path}.matchConditions", webhook.match_conditions)


def _check_client(errors: Errors, path: str, config: types.WebhookClientConfig) -> None:
    if (config.url is None) == (config.service is None):
        errors.append(required(path, "exactly one of url or service is required"))
    elif config.url is not None:
        check_url(errors, f"{path}.url", config.url)
    elif config.service is not None:
        check_service(errors, f"{path}.service", config.service)
