"""`AuthenticationConfiguration` as kube-apiserver has it: token issuers, and who may come without credentials. Pure.

Source: `k8s.io/apiserver/pkg/apis/apiserver/v1/types.go`. `validation` checks what is read here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bayplan.apiserver.configuration.files import ConfigurationStruct, read_file

KIND: Final = "AuthenticationConfiguration"


class Issuer(ConfigurationStruct):
    """Who issues tokens, and for whom."""

    url: str = ""
    discovery_url: str = msgspec.field(default="", name="discoveryURL")
    """Where the issuer says where its keys are, if not below `url`."""
    certificate_authority: str = ""
    """Certificates (PEM) that vouch for the issuer's servers; "" for those of the system."""
    audiences: tuple[str, ...] = ()
    audience_match_policy: str = ""
    egress_selector_type: str = ""


class ClaimValidationRule(ConfigurationStruct):
    """What must be true of a token: a claim has a value, or an expression is true."""

    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class PrefixedClaimOrExpression(ConfigurationStruct):
    """Where a name or names come from."""

    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class ClaimOrExpression(ConfigurationStruct):
    """Where a value comes from."""

    claim: str = ""
    expression: str = ""


class ExtraMapping(ConfigurationStruct):
    """One more thing that is known of the user."""

    key: str = ""
    value_expression: str = ""


class ClaimMappings(ConfigurationStruct):
    """How claims become a user."""

    username: PrefixedClaimOrExpression = msgspec.field(default_factory=lambda: PrefixedClaimOrExpression())
    groups: PrefixedClaimOrExpression = msgspec.field(default_factory=lambda: PrefixedClaimOrExpression())
    uid: ClaimOrExpression = msgspec.field(default_factory=lambda: ClaimOrExpression())
    extra: tuple[ExtraMapping, ...] = ()


class UserValidationRule(ConfigurationStruct):
    """What must be true of the user that claims have become."""

    expression: str = ""
    message: str = ""


class JwtAuthenticator(ConfigurationStruct):
    """One issuer of tokens, and what its tokens say."""

    issuer: Issuer = msgspec.field(default_factory=lambda: Issuer())
    claim_validation_rules: tuple[ClaimValidationRule, ...] = ()
    claim_mappings: ClaimMappings = msgspec.field(default_factory=lambda: ClaimMappings())
    user_validation_rules: tuple[UserValidationRule, ...] = ()


class AnonymousAuthCondition(ConfigurationStruct):
    """A path that may be asked for without credentials."""

    path: str = ""


class AnonymousAuthConfig(ConfigurationStruct):
    """Who may come without credentials."""

    enabled: bool = False
    conditions: tuple[AnonymousAuthCondition, ...] = ()


class AuthenticationConfiguration(ConfigurationStruct):
    """The whole file."""

    jwt: tuple[JwtAuthenticator, ...] = ()
    anonymous: AnonymousAuthConfig | None = None


def read_authentication_configuration(data: bytes) -> AuthenticationConfiguration:
    """The configuration in a file, not validated. Raises ConfigurationError."""
    return read_file(data, KIND, AuthenticationConfiguration)
