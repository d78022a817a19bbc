"""`AuthorizationConfiguration` as kube-apiserver has it: authorizers in their order, and what is wrong with them. Pure.

Source: `k8s.io/apiserver/pkg/apis/apiserver/v1`, `.../validation/validation.go`, Kubernetes' `pkg/kubeapiserver/authorizer/config.go`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bayplan.api.cel.evaluation import CompilationError
from bayplan.api.errors import FieldError, duplicate, invalid, required, too_many, unsupported
from bayplan.api.validation.values import formats
from bayplan.apiserver.authorization.match_conditions import compiled
from bayplan.apiserver.authorization.rbac import aggregate
from bayplan.apiserver.configuration.files import ConfigurationError, ConfigurationStruct, read_file
from bayplan.support.configuration import Duration
from bayplan.support.durations import go_duration

KIND: Final = "AuthorizationConfiguration"
WEBHOOK: Final = "Webhook"
MODES: Final = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", WEBHOOK)
DENY: Final = "Deny"
_AUTHORIZED_SECONDS, _UNAUTHORIZED_SECONDS = 300.0, 30.0
_MOST_SECONDS: Final = 30.0
_MOST_CONDITIONS: Final = 64
REVIEW_VERSIONS: Final = ("v1", "v1beta1")


class ConnectionInfo(ConfigurationStruct):
    """How a webhook is reached."""

    type: str = ""
    kube_config_file: str | None = None


class MatchCondition(ConfigurationStruct):
    """What must be true of a request for the webhook to be asked."""

    expression: str = ""


class WebhookConfiguration(ConfigurationStruct):
    """A webhook that decides."""

    authorized_ttl: Duration = msgspec.field(default=Duration(0), name="authorizedTTL")
    cache_authorized_requests: bool = True
    unauthorized_ttl: Duration = msgspec.field(default=Duration(0), name="unauthorizedTTL")
    cache_unauthorized_requests: bool = True
    timeout: Duration = Duration(0)
    subject_access_review_version: str = ""
    match_condition_subject_access_review_version: str = ""
    failure_policy: str = ""
    connection_info: ConnectionInfo = msgspec.field(default_factory=ConnectionInfo)
    match_conditions: tuple[MatchCondition, ...] = ()

    @property
    def authorized_seconds(self) -> float:
        """How long it is kept that something is allowed."""
        return (self.authorized_ttl or _AUTHORIZED_SECONDS) if self.cache_authorized_requests else 0.0

    @property
    def unauthorized_seconds(self) -> float:
        """How long it is kept that something is not allowed."""
        return (self.unauthorized_ttl or _UNAUTHORIZED_SECONDS) if self.cache_unauthorized_requests else 0.0


class AuthorizerConfiguration(ConfigurationStruct):
    """One authorizer."""

    type: str = ""
    name: str = ""
    webhook: WebhookConfiguration | None = None


class AuthorizationConfiguration(ConfigurationStruct):
    """The whole file."""

    authorizers: tuple[AuthorizerConfiguration, ...] = ()


def read_authorization_configuration(data: bytes, wanted: Collection[str] = ()) -> AuthorizationConfiguration:
    """The configuration in a file. wanted: types that it must have. Raises ConfigurationError."""
    try:
        found = read_file(data, KIND, AuthorizationConfiguration) if data else AuthorizationConfiguration()
    except ConfigurationError as error:
        raise ConfigurationError(f"failed to load AuthorizationConfiguration from file: {error}") from error
    errors: list[object] = list(validation_errors(found))
    if not errors:
        errors += [
            f"expected name {one.type.lower()} for authorizer {one.type} instead of {one.name}"
            for one in found.authorizers
            if one.type != WEBHOOK and one.name != one.type.lower()
        ]
        if missing := sorted(set(wanted) - {one.type for one in found.authorizers}):
            errors.append(f"missing required types: [{' '.join(missing)}]")
    if errors:
        raise ConfigurationError(aggregate(errors))
    return found


def validation_errors(configuration: AuthorizationConfiguration) -> Iterator[FieldError]:
    """What is wrong with a configuration."""
    if not configuration.authorizers:
        yield required("authorizers", "at least one authorization mode must be defined")
    types: set[str] = set()
    names: set[str] = set()
    for index, one in enumerate(configuration.authorizers):
        path = f"authorizers[{index}]"
        if not one.type:
            yield required(f"{path}.type")
        elif one.type not in MODES:
            yield unsupported(f"{path}.type", one.type, MODES)
        elif one.type in types and one.type != WEBHOOK:
            yield duplicate(f"{path}.type", one.type)
        else:
            types.add(one.type)
            yield from _name_errors(one.name, names, f"{path}.name")
            names.add(one.name)
            yield from _kind_errors(one, path)


def _name_errors(name: str, seen: Collection[str], path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif name in seen:
        yield duplicate(path, name)
    elif messages := formats.dns_subdomain(name):
        yield invalid(path, name, f"authorizer name is invalid: {', '.join(messages)}")


def _kind_errors(one: AuthorizerConfiguration, path: str) -> Iterator[FieldError]:
    if one.type != WEBHOOK:
        if one.webhook is not None:
            yield invalid(f"{path}.webhook", "non-null", "may only be specified when type=Webhook")
    elif one.webhook is None:
        yield required(f"{path}.webhook", "required when type=Webhook")
    else:
        yield from _webhook_errors(one.webhook, path)


def _webhook_errors(webhook: WebhookConfiguration, path: str) -> Iterator[FieldError]:
    if not webhook.timeout:
        yield required(f"{path}.timeout")
    elif webhook.timeout > _MOST_SECONDS:
        yield invalid(f"{path}.timeout", go_duration(webhook.timeout), "must be > 0s and <= 30s")
    version = webhook.subject_access_review_version
    if not version:
        yield required(f"{path}.subjectAccessReviewVersion")
    elif version not in REVIEW_VERSIONS:
        yield unsupported(f"{path}.subjectAccessReviewVersion", version, REVIEW_VERSIONS)
    version = webhook.match_condition_subject_access_review_version
    if not version:
        if webhook.match_conditions:
            text = "required if match conditions are specified"
            yield required(f"{path}.matchConditionSubjectAccessReviewVersion", text)
    elif version != "v1":
        yield unsupported(f"{path}.matchConditionSubjectAccessReviewVersion", version, ("v1",))
    if not webhook.failure_policy:
        yield required(f"{path}.failurePolicy")
    elif webhook.failure_policy not in ("NoOpinion", DENY):
        yield unsupported(f"{path}.failurePolicy", webhook.failure_policy, ("NoOpinion", DENY))
    yield from _connection_errors(webhook.connection_info, f"{path}.connectionInfo")
    yield from _condition_errors(webhook.match_conditions, f"{path}.matchConditions")


def _connection_errors(info: ConnectionInfo, path: str) -> Iterator[FieldError]:
    types, file = ("InClusterConfig", "KubeConfigFile"), info.kube_config_file
    if not info.type:
        yield required(f"{path}.type")
    elif info.type not in types:
        yield unsupported(f"{path}.type", info.type, types)
    elif info.type == "InClusterConfig":
        if file is not None:
            yield invalid(f"{path}.kubeConfigFile", file, "can only be set when type=KubeConfigFile")
        yield invalid(f"{path}.type", info.type, "an API server is not a client in its own cluster; use KubeConfigFile")
    elif not file:
        yield required(f"{path}.kubeConfigFile")
    elif not Path(file).is_absolute():
        yield invalid(f"{path}.kubeConfigFile", file, "must be an absolute path")
    elif not Path(file).exists():
        text = f"error loading file: stat {file}: no such file or directory"
        yield invalid(f"{path}.kubeConfigFile", file, text)
    elif not Path(file).is_file():
        yield invalid(f"{path}.kubeConfigFile", file, "must be a regular file")


def _condition_errors(conditions: Sequence[MatchCondition], path: str) -> Iterator[FieldError]:
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(path, len(conditions), _MOST_CONDITIONS)
        return
    seen = set()
    for index, one in enumerate(conditions):
        here = f"{path}[{index}].expression"
        if not one.expression.strip():
            yield required(here)
        elif one.expression in seen:
            yield duplicate(here, one.expression)
        else:
            seen.add(one.expression)
            try:
                compiled(one.expression)
            except CompilationError as error:
                yield invalid(here, one.expression, str(error))
