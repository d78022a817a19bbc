"""Settings of authentication beyond certificates and the tokens of a cluster's own."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.apiserver.authentication.configuration import JwtAuthenticator


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationSettings:
    """Who else knows users. Names follow kube-apiserver's flags."""

    config_file: str = ""
    """An AuthenticationConfiguration, which is read again when it changes; "" for none."""
    issuer: JwtAuthenticator | None = None
    """The issuer of tokens that the flags `--oidc-*` describe; None if there is none."""
    signing_algorithms: tuple[str, ...] = ("RS256",)
    """With which tokens of that issuer may be signed; those of issuers in a file with any that needs another key to verify than to sign."""
    anonymous_is_given: bool = False
    """Whether `--anonymous-auth` is given, which a file that speaks of anonymous requests excludes."""
    webhook_config_file: str = ""
    """Kubeconfig of a webhook that knows tokens; "" for none."""
    webhook_version: str = "v1beta1"
    """Version of the token reviews that it gets: v1 or v1beta1."""
    webhook_cache_seconds: float = 120.0
    """How long what it says is kept."""
