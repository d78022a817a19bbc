"""Flags about authorizers that need files, with kube-apiserver's names, defaults and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from bayplan.apiserver.authorization.settings import AuthorizationSettings

_WEBHOOK: Final = {
    "--authorization-webhook-config-file": "kubeconfig of the webhook of --authorization-mode=Webhook",
    "--authorization-webhook-version": "version of the SubjectAccessReview that it gets: v1 or v1beta1 (default v1beta1)",
    "--authorization-webhook-cache-authorized-ttl": "how long it is kept that it allows something (default 5m0s)",
    "--authorization-webhook-cache-unauthorized-ttl": "how long it is kept that it does not allow something (default 30s)",
}
AUTHORIZATION_FLAGS: Final = {
    "--authorization-config": "AuthorizationConfiguration with the authorizers in their order, in place of --authorization-mode",
    "--authorization-policy-file": "policies of --authorization-mode=ABAC, one a line",
    **_WEBHOOK,
}
"""Name -> meaning."""


def authorization_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags as options of a command, which gets them as texts, empty unless given."""
    for name, meaning in reversed(AUTHORIZATION_FLAGS.items()):
        function = click.option(name, default="", help=f"{meaning[:1].upper()}{meaning[1:]}.")(function)
    return function


def authorization_settings(given: Mapping[str, str], modes: Sequence[str]) -> AuthorizationSettings:
    """What the flags say. modes: of --authorization-mode. Raises UsageError."""
    from bayplan.apiserver.authorization.configuration import REVIEW_VERSIONS
    from bayplan.apiserver.authorization.settings import AuthorizationSettings
    from bayplan.cli.flags.kube_flags import seconds

    config_file = given.get("--authorization-config", "")
    if config_file and any(given.get(name) for name in ("--authorization-mode", *_WEBHOOK)):
        raise click.UsageError(
            "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined"
        )
    version = given.get("--authorization-webhook-version") or "v1beta1"
    if version not in REVIEW_VERSIONS:
        supported = ", ".join(f'"{one}"' for one in REVIEW_VERSIONS)
        raise click.UsageError(
            f'unsupported webhook authorizer version "{version}", supported versions are {supported}'
        )
    settings = AuthorizationSettings(
        config_file=config_file,
        policy_file=given.get("--authorization-policy-file", ""),
        webhook_config_file=given.get("--authorization-webhook-config-file", ""),
        webhook_version=version,
        webhook_authorized_seconds=seconds(given.get("--authorization-webhook-cache-authorized-ttl") or "5m0s"),
        webhook_unauthorized_seconds=seconds(given.get("--authorization-webhook-cache-unauthorized-ttl") or "30s"),
    )
    if not config_file:
        _check_files(settings, modes)
    return settings


def _check_files(settings: AuthorizationSettings, modes: Sequence[str]) -> None:
    """Raises UsageError for a mode without its file, or a file without its mode."""
    for mode, file, what, flag in (
        ("ABAC", settings.policy_file, "policy", "policy-file"),
        ("Webhook", settings.webhook_config_file, "config", "webhook-config-file"),
    ):
        if mode in modes and not file:
            raise click.UsageError(f"authorization-mode {mode}'s authorization {what} file not passed")
        if file and mode not in modes:
            raise click.UsageError(f"cannot specify --authorization-{flag} without mode {mode}")
