"""Flags about users that others know: OpenID Connect, a file, a webhook. With kube-apiserver's names, defaults and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from bayplan.apiserver.authentication.configuration import JwtAuthenticator
    from bayplan.apiserver.authentication.settings import AuthenticationSettings

REQUIRED_CLAIM: Final = "--oidc-required-claim"
_OIDC: Final = {
    "--oidc-issuer-url": "URL (https) of an OpenID Connect issuer whose tokens are taken",
    "--oidc-client-id": "audience that tokens of the issuer must be for",
    "--oidc-ca-file": "authority of the issuer's certificate; those of the system if none is given",
    "--oidc-username-claim": "claim that is the user's name (default sub)",
    "--oidc-username-prefix": "what is put before it; the issuer's URL and # unless the claim is email, - for nothing",
    "--oidc-groups-claim": "claim that is the user's group or groups",
    "--oidc-groups-prefix": "what is put before each of them",
    "--oidc-signing-algs": "algorithms, with commas, that tokens may be signed with (default RS256)",
    REQUIRED_CLAIM: "CLAIM=VALUE that must be in tokens; repeatable",
}
AUTHENTICATION_FLAGS: Final = {
    "--authentication-config": "AuthenticationConfiguration with issuers of tokens and conditions for anonymous requests",
    **_OIDC,
    "--authentication-token-webhook-config-file": "kubeconfig of a webhook that is asked for the users of tokens",
    "--authentication-token-webhook-version": "version of the TokenReview that it gets: v1 or v1beta1 (default v1beta1)",
    "--authentication-token-webhook-cache-ttl": "how long its answers are kept (default 2m0s)",
}
"""Name -> meaning."""


def authentication_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags as options of a command, which gets them as texts, empty unless given; `oidc_required_claim` as a tuple."""
    for name, meaning in reversed(AUTHENTICATION_FLAGS.items()):
        help_text = f"{meaning[:1].upper()}{meaning[1:]}."
        more: dict[str, Any] = {"multiple": True} if name == REQUIRED_CLAIM else {"default": ""}
        function = click.option(name, help=help_text, **more)(function)
    return function


def authentication_settings(flags: Sequence[str], given: Mapping[str, str]) -> AuthenticationSettings:
    """What the flags say. flags: as they stand there; given: the same by name. Raises UsageError, Failure."""
    from bayplan.apiserver.authentication.settings import AuthenticationSettings
    from bayplan.apiserver.authentication.token_webhook import VERSIONS
    from bayplan.cli.flags.kube_flags import seconds

    config_file = given.get("--authentication-config", "")
    has_oidc = any(given.get(name) for name in _OIDC)
    if config_file and has_oidc:
        raise click.UsageError("authentication-config file and oidc-* flags are mutually exclusive")
    version = given.get("--authentication-token-webhook-version") or "v1beta1"
    if version not in VERSIONS:
        supported = ", ".join(f'"{one}"' for one in VERSIONS)
        raise click.UsageError(
            f'unsupported authentication webhook version "{version}", supported versions are {supported}'
        )
    claims = [flag.partition("=")[2] for flag in flags if flag.startswith(f"{REQUIRED_CLAIM}=")]
    return AuthenticationSettings(
        config_file=config_file,
        issuer=_issuer(given, claims) if has_oidc else None,
        signing_algorithms=_algorithms(given.get("--oidc-signing-algs") or "RS256"),
        anonymous_is_given="--anonymous-auth" in given,
        webhook_config_file=given.get("--authentication-token-webhook-config-file", ""),
        webhook_version=version,
        webhook_cache_seconds=seconds(given.get("--authentication-token-webhook-cache-ttl") or "2m0s"),
    )


def _algorithms(text: str) -> tuple[str, ...]:
    """Raises UsageError."""
    from bayplan.apiserver.authentication.oidc.tokens import ALGORITHMS

    found = tuple(one.strip() for one in text.split(","))
    for one in found:
        if one not in ALGORITHMS:
            raise click.UsageError(f'oidc: unsupported signing alg: "{one}"')
    return found


def _issuer(given: Mapping[str, str], required_claims: Sequence[str]) -> JwtAuthenticator:
    """Raises UsageError, Failure."""
    from bayplan.apiserver.authentication.configuration import (
        ClaimMappings,
        ClaimValidationRule,
        Issuer,
        JwtAuthenticator,
        PrefixedClaimOrExpression,
    )

    url, client_id = given.get("--oidc-issuer-url", ""), given.get("--oidc-client-id", "")
    if not url or not client_id:
        raise click.UsageError(
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
        )
    claim = given.get("--oidc-username-claim") or "sub"
    prefix = given.get("--oidc-username-prefix", "")
    if prefix == "-":
        prefix = ""
    elif not prefix and claim != "email":
        prefix = f"{url}#"
    groups, groups_prefix = given.get("--oidc-groups-claim", ""), given.get("--oidc-groups-prefix", "")
    mappings = ClaimMappings(
        username=PrefixedClaimOrExpression(claim=claim, prefix=prefix),
        groups=PrefixedClaimOrExpression(claim=groups, prefix=groups_prefix if groups else None),
    )
    rules = []
    for text in required_claims:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(
                f'invalid argument "{text}" for "{REQUIRED_CLAIM}" flag: malformed pair, expect string=string'
            )
        rules.append(ClaimValidationRule(claim=name.strip(), required_value=value.strip()))
    return JwtAuthenticator(
        issuer=Issuer(url=url, audiences=(client_id,), certificate_authority=_text_of(given.get("--oidc-ca-file", ""))),
        claim_mappings=mappings,
        claim_validation_rules=tuple(rules),
    )


def _text_of(path: str) -> str:
    """Raises Failure."""
    if not path:
        return ""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"--oidc-ca-file: {path}: {error}") from error
