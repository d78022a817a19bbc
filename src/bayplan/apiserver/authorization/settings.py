"""Settings of authorizers that need files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationSettings:
    """Names follow kube-apiserver's flags."""

    config_file: str = ""
    """An AuthorizationConfiguration in place of `authorization_modes`, which is read again when it changes; "" for none."""
    policy_file: str = ""
    """The policies of the mode ABAC."""
    webhook_config_file: str = ""
    """Kubeconfig of the webhook of the mode Webhook."""
    webhook_version: str = "v1beta1"
    """Version of the access reviews that it gets: v1 or v1beta1."""
    webhook_authorized_seconds: float = 300.0
    """How long it is kept that it allows something; 0: not at all."""
    webhook_unauthorized_seconds: float = 30.0
    """How long it is kept that it does not allow something; 0: not at all."""
