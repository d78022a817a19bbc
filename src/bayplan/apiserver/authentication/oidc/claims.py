"""The user that the claims of a token become. Pure.

Source: `k8s.io/apiserver/plugin/pkg/authenticator/token/oidc/oidc.go`, `AuthenticateToken` and what it calls; errors have its words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bayplan.api.cel.values import ListValue
from bayplan.api.codec import json_type
from bayplan.api.errors import quoted
from bayplan.apiserver.authentication.configuration import JwtAuthenticator
from bayplan.apiserver.authentication.oidc.expressions import claims_value, user_value
from bayplan.apiserver.configuration.expressions import Expression, ExpressionError
from bayplan.apiserver.requests import User

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_STRINGS: Final = "expression must return a string or a list of strings"
Claims = Mapping[str, Any]


class ClaimError(ValueError):
    """Claims do not become a user; the message says why."""


@dataclass(frozen=True, slots=True)
class Mappings:
    """How claims become a user: what a configuration says, compiled."""

    configuration: JwtAuthenticator
    username: Expression | None = None
    groups: Expression | None = None
    uid: Expression | None = None
    extra: Sequence[tuple[str, Expression]] = ()
    """Keys and their values, in order."""
    claim_rules: Sequence[Expression] = ()
    user_rules: Sequence[Expression] = ()
    required: Mapping[str, str] = field(default_factory=dict)
    """Claims that must have these values."""

    def user(self, claims: Claims) -> User:
        """The user of a token that says this. Raises ClaimError."""
        value = claims_value(claims)
        name = self._username(claims, value)
        user = User(name, self._groups(claims, value), self._uid(claims, value), self._extra(claims, value))
        for claim, wanted in self.required.items():
            _check_required(claims, claim, wanted)
        _check_rules(self.claim_rules, "claim validation expression", claims=value)
        _check_rules(self.user_rules, "user info validation rule", user=user_value(user))
        return user

    def _username(self, claims: Claims, value: Any) -> str:
        what = "oidc: error evaluating username claim expression"
        if self.username is not None:
            found = _evaluated(self.username, what, claims=value)
            if not isinstance(found, str):
                raise ClaimError(f"{what}: username claim expression must return a string")
            if not found:
                raise ClaimError("oidc: empty username via CEL expression is not allowed")
            return found
        mapping = self.configuration.claim_mappings.username
        name = _text(claims, mapping.claim, "oidc: parse username claims")
        if not name:
            raise ClaimError(f"oidc: parse username claims {quoted(mapping.claim)}: the claim is empty")
        if mapping.claim == "email" and "email_verified" in claims:
            verified = claims["email_verified"]
            if verified is not None and not isinstance(verified, bool):
                raise ClaimError(f"oidc: parse 'email_verified' claim: {_not_a(verified, 'bool')}")
            if not verified:
                raise ClaimError("oidc: email not verified")
        return (mapping.prefix or "") + name

    def _groups(self, claims: Claims, value: Any) -> tuple[str, ...]:
        mapping = self.configuration.claim_mappings.groups
        if mapping.claim and mapping.claim in claims:
            found = claims[mapping.claim]
            texts = found if isinstance(found, list) else [] if found is None else [found]
            for one in texts:
                if not isinstance(one, str | None):
                    raise ClaimError(f"oidc: parse groups claim {quoted(mapping.claim)}: {_not_a(found, 'string')}")
            return tuple((mapping.prefix or "") + (one or "") for one in texts)
        if self.groups is None:
            return ()
        what = "oidc: error evaluating group claim expression"
        return _strings(_evaluated(self.groups, what, claims=value), what)

    def _uid(self, claims: Claims, value: Any) -> str:
        claim = self.configuration.claim_mappings.uid.claim
        if claim:
            return _text(claims, claim, "oidc: parse uid claim")
        if self.uid is None:
            return ""
        what = "oidc: error evaluating uid claim expression"
        found = _evaluated(self.uid, what, claims=value)
        if not isinstance(found, str):
            raise ClaimError(f"{what}: uid claim expression must return a string")
        return found

    def _extra(self, claims: Claims, value: Any) -> dict[str, tuple[str, ...]]:
        token_id = claims.get("jti")
        extra: dict[str, tuple[str, ...]] = {}
        if isinstance(token_id, str) and token_id:
            extra[CREDENTIAL_ID] = (f"JTI={token_id}",)
        for key, expression in self.extra:
            found = _evaluated(expression, "", claims=value)
            what = f"oidc: error evaluating extra claim expression: {expression.text}"
            if texts := _strings(found, what):
                extra[key] = texts
        return extra


def _evaluated(expression: Expression, what: str, **variables: Any) -> Any:
    """Raises ClaimError."""
    try:
        return expression.evaluate(**variables)
    except ExpressionError as error:
        raise ClaimError(f"{what}: {error}" if what else str(error)) from error


def _strings(found: Any, what: str) -> tuple[str, ...]:
    """A string, or a list of them, without empty ones; none for null. Raises ClaimError."""
    if found is None:
        return ()
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list | tuple | ListValue) or not all(isinstance(one, str) for one in texts):
        raise ClaimError(f"{what}: {_STRINGS}")
    return tuple(one for one in texts if one)


def _check_required(claims: Claims, claim: str, wanted: str) -> None:
    """Raises ClaimError."""
    if claim not in claims:
        raise ClaimError(f"oidc: required claim {claim} not present in ID token")
    found = claims[claim]
    if not isinstance(found, str | None):
        raise ClaimError(f"oidc: parse claim {claim}: {_not_a(found, 'string')}")
    if (found or "") != wanted:
        raise ClaimError(f"oidc: required claim {claim} value does not match. Got = {found or ''}, want = {wanted}")


def _check_rules(rules: Sequence[Expression], what: str, **variables: Any) -> None:
    """Raises ClaimError unless all are true."""
    begin = f"oidc: error evaluating {what}"
    values = [_evaluated(rule, begin, **variables) for rule in rules]
    for rule, found in zip(rules, values, strict=True):
        if not isinstance(found, bool):
            raise ClaimError(f"{begin}: validation expression must return a boolean")
        if not found:
            raise ClaimError(f"{begin}: validation expression '{rule.text}' failed: {rule.message}")


def _text(claims: Claims, claim: str, what: str) -> str:
    """A claim that is a string. Raises ClaimError."""
    if claim not in claims:
        raise ClaimError(f"{what} {quoted(claim)}: claim not present")
    found = claims[claim]
    if not isinstance(found, str | None):
        raise ClaimError(f"{what} {quoted(claim)}: {_not_a(found, 'string')}")
    return found or ""


def _not_a(value: Any, wanted: str) -> str:
    """Why Go does not read a value of JSON as a type."""
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {wanted}"
