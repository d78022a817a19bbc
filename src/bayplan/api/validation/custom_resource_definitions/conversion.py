"""How definitions convert between their versions. Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation`."""

from __future__ import annotations

from bayplan.api.errors import forbidden, invalid, required
from bayplan.api.types import apiextensions_v1 as types
from bayplan.api.validation.client_configs import certificate_problem, check_service, check_url
from bayplan.api.validation.fields import Errors, check_one_of, repeats
from bayplan.api.validation.values import formats

_PATH = "spec.conversion"
_CLIENT = f"{_PATH}.webhookClientConfig"
_VERSIONS = f"{_PATH}.conversionReviewVersions"
_KNOWN_VERSIONS = ("v1", "v1beta1")
_NOT_SET = "should not be set when strategy is not set to Webhook"


def check_conversion(
    errors: Errors,
    given: types.CustomResourceConversion | None,
    *,
    needs_known_version: bool,
    checks_certificates: bool,
) -> None:
    """`spec.conversion`. needs_known_version: a version of reviews that this server speaks is among those of the webhook."""
    if given is None:
        return
    check_one_of(errors, f"{_PATH}.strategy", given.strategy, ("None", "Webhook"))
    client = None if given.webhook is None else given.webhook.client_config
    versions = () if given.webhook is None else given.webhook.conversion_review_versions
    if given.strategy == "Webhook":
        if client is None:
            errors.append(required(_CLIENT, "required when strategy is set to Webhook"))
        else:
            _check_client(errors, client, checks_certificates=checks_certificates)
        _check_review_versions(errors, versions, needs_known_version=needs_known_version)
        return
    if client is not None:
        errors.append(forbidden(_CLIENT, _NOT_SET))
    if versions:
        errors.append(forbidden(_VERSIONS, _NOT_SET))


def _check_client(errors: Errors, client: types.WebhookClientConfig, *, checks_certificates: bool) -> None:
    if (client.url is None) == (client.service is None):
        errors.append(required(_CLIENT, "exactly one of url or service is required"))
    elif client.url is not None:
        check_url(errors, f"{_CLIENT}.url", client.url)
    elif client.service is not None:
        check_service(errors, f"{_CLIENT}.service", client.service)
    if checks_certificates and client.ca_bundle and (problem := certificate_problem(client.ca_bundle)):
        errors.append(invalid(f"{_CLIENT}.caBundle", client.ca_bundle, problem))


def _check_review_versions(errors: Errors, versions: tuple[str, ...], *, needs_known_version: bool) -> None:
    if not versions:
        errors.append(required(_VERSIONS))
        return
    again = repeats(versions)
    for index, version in enumerate(versions):
        where = f"{_VERSIONS}[{index}]"
        if index in again:
            errors.append(invalid(where, version, "duplicate version"))
        else:
            errors.extend(invalid(where, version, message) for message in formats.dns_1035_label(version))
    if needs_known_version and not speaks_known_version(versions):
        errors.append(invalid(_VERSIONS, versions, f"must include at least one of {', '.join(_KNOWN_VERSIONS)}"))


def speaks_known_version(versions: tuple[str, ...]) -> bool:
    """Whether this server can talk to a webhook that knows these versions of reviews."""
    return any(one in _KNOWN_VERSIONS for one in versions)


def has_wrong_certificates(given: types.CustomResourceConversion | None) -> bool:
    """Whether the certificates of the webhook, if there are any, cannot be read."""
    client = None if given is None or given.webhook is None else given.webhook.client_config
    return client is not None and bool(client.ca_bundle) and bool(certificate_problem(client.ca_bundle))
