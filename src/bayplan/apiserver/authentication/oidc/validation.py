"""What is wrong with an `AuthenticationConfiguration`, in kube-apiserver's words, and how its issuers' claims become users. Pure.

Source: `k8s.io/apiserver/pkg/apis/apiserver/validation/validation.go`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from bayplan.api.cel.evaluation import CompilationError
from bayplan.api.cel.types import BOOL
from bayplan.api.errors import FieldError, duplicate, forbidden, invalid, required, too_many
from bayplan.api.validation.values import formats
from bayplan.apiserver.authentication.configuration import (
    AuthenticationConfiguration,
    ClaimMappings,
    ClaimValidationRule,
    ExtraMapping,
    Issuer,
    JwtAuthenticator,
    PrefixedClaimOrExpression,
    UserValidationRule,
)
from bayplan.apiserver.authentication.oidc.claims import Mappings
from bayplan.apiserver.authentication.oidc.expressions import CLAIMS, USER
from bayplan.apiserver.configuration.expressions import Expression

_MOST_ISSUERS: Final = 64
_BOTH: Final = "claim and expression can't both be set"
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_NO_PREFIX: Final = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
_RESERVED: Final = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
_UNVERIFIED: Final = (
    "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or "
    "claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"
)


def validated(
    configuration: AuthenticationConfiguration, disallowed_issuers: Collection[str]
) -> tuple[list[Mappings], list[FieldError]]:
    """How claims of each issuer become users, and what is wrong with the configuration. disallowed_issuers: those of service account tokens."""
    issuers = configuration.jwt
    if len(issuers) > _MOST_ISSUERS:
        return [], [too_many("jwt", len(issuers), _MOST_ISSUERS)]
    found: list[Mappings] = []
    errors: list[FieldError] = []
    seen: set[str] = set()
    seen_discovery: set[str] = set()
    for index, one in enumerate(issuers):
        check = _Check(f"jwt[{index}]", errors)
        found.append(check.run(one, disallowed_issuers))
        if one.issuer.url in seen:
            errors.append(duplicate(f"jwt[{index}].issuer.url", one.issuer.url))
        seen.add(one.issuer.url)
        if one.issuer.discovery_url:
            if one.issuer.discovery_url in seen_discovery:
                errors.append(duplicate(f"jwt[{index}].issuer.discoveryURL", one.issuer.discovery_url))
            seen_discovery.add(one.issuer.discovery_url)
    anonymous = configuration.anonymous
    if anonymous is not None and not anonymous.enabled and anonymous.conditions:
        conditions = [{"Path": one.path} for one in anonymous.conditions]
        text = "enabled should be set to true when conditions are defined"
        errors.append(invalid("anonymous.conditions", conditions, text))
    return found, errors


class _Check:
    """Looks at one issuer; what is wrong goes to `errors`."""

    def __init__(self, path: str, errors: list[FieldError]) -> None:
        self._path = path
        self._errors = errors

    def run(self, one: JwtAuthenticator, disallowed: Collection[str]) -> Mappings:
        """How its claims become users, as far as that is right."""
        self._errors += _issuer_errors(one.issuer, disallowed, f"{self._path}.issuer")
        claim_rules = self._claim_rules(one.claim_validation_rules, f"{self._path}.claimValidationRules")
        mappings, path = one.claim_mappings, f"{self._path}.claimMappings"
        username = self._prefixed(mappings.username, f"{path}.username", is_required=True)
        groups = self._prefixed(mappings.groups, f"{path}.groups", is_required=False)
        uid = self._uid(mappings, f"{path}.uid")
        extra = self._extra(mappings.extra, f"{path}.extra")
        if username is not None and username.selects("email", "claims"):
            expressions = (username, *claim_rules, *(expression for _, expression in extra))
            if not any(expression.selects("email_verified", "claims") for expression in expressions):
                self._errors.append(invalid(f"{path}.username.expression", username.text, _UNVERIFIED))
        user_rules = self._user_rules(one.user_validation_rules, f"{self._path}.userValidationRules")
        claims = {rule.claim: rule.required_value for rule in one.claim_validation_rules if rule.claim}
        return Mappings(one, username, groups, uid, extra, claim_rules, user_rules, claims)

    def _compiled(self, text: str, path: str, *, is_rule: bool = False, message: str = "") -> Expression | None:
        try:
            return Expression(text, CLAIMS, BOOL if is_rule else None, message)
        except CompilationError as error:
            self._errors.append(invalid(path, text, str(error)))
            return None

    def _claim_rules(self, rules: Sequence[ClaimValidationRule], path: str) -> list[Expression]:
        found, claims, expressions = [], set(), set()
        for index, rule in enumerate(rules):
            here = f"{path}[{index}]"
            if rule.claim and rule.expression:
                self._errors.append(invalid(here, rule.claim, _BOTH))
            elif not rule.claim and not rule.expression:
                self._errors.append(required(here, "claim or expression is required"))
            elif rule.claim:
                if rule.message:
                    text = "may not be specified when claim is set"
                    self._errors.append(invalid(f"{here}.message", rule.message, text))
                if rule.claim in claims:
                    self._errors.append(duplicate(f"{here}.claim", rule.claim))
                claims.add(rule.claim)
            else:
                if rule.required_value:
                    text = "may not be specified when expression is set"
                    self._errors.append(invalid(f"{here}.requiredValue", rule.required_value, text))
                if rule.expression in expressions:
                    self._errors.append(duplicate(f"{here}.expression", rule.expression))
                    continue
                expressions.add(rule.expression)
                made = self._compiled(rule.expression, f"{here}.expression", is_rule=True, message=rule.message)
                found += [made] if made is not None else []
        return found

    def _prefixed(self, one: PrefixedClaimOrExpression, path: str, *, is_required: bool) -> Expression | None:
        if one.expression and one.claim:
            self._errors.append(invalid(path, "", _BOTH))
        elif one.expression:
            before = len(self._errors)
            if one.prefix is not None:
                text = "may not be specified when expression is set"
                self._errors.append(invalid(f"{path}.prefix", one.prefix, text))
            made = self._compiled(one.expression, f"{path}.expression")
            return made if len(self._errors) == before else None
        elif one.claim and one.prefix is None:
            self._errors.append(required(f"{path}.prefix", _NO_PREFIX))
        elif not one.claim and is_required:
            self._errors.append(required(path, "claim or expression is required"))
        return None

    def _uid(self, mappings: ClaimMappings, path: str) -> Expression | None:
        uid = mappings.uid
        if uid.claim and uid.expression:
            self._errors.append(invalid(path, "", _BOTH))
            return None
        return self._compiled(uid.expression, f"{path}.expression") if uid.expression else None

    def _extra(self, extra: Sequence[ExtraMapping], path: str) -> list[tuple[str, Expression]]:
        found, seen = [], set()
        for index, one in enumerate(extra):
            here = f"{path}[{index}]"
            self._errors += _key_errors(one.key, f"{here}.key")
            if one.key in seen:
                self._errors.append(duplicate(f"{here}.key", one.key))
                continue
            seen.add(one.key)
            if not one.value_expression:
                self._errors.append(required(f"{here}.valueExpression"))
                continue
            made = self._compiled(one.value_expression, f"{here}.valueExpression")
            found += [(one.key, made)] if made is not None else []
        return found

    def _user_rules(self, rules: Sequence[UserValidationRule], path: str) -> list[Expression]:
        found, seen = [], set()
        for index, rule in enumerate(rules):
            here = f"{path}[{index}].expression"
            if not rule.expression:
                self._errors.append(required(here))
            elif rule.expression in seen:
                self._errors.append(duplicate(here, rule.expression))
            else:
                seen.add(rule.expression)
                try:
                    found.append(Expression(rule.expression, USER, BOOL, rule.message))
                except CompilationError as error:
                    self._errors.append(invalid(here, rule.expression, str(error)))
        return found


def _issuer_errors(issuer: Issuer, disallowed: Collection[str], path: str) -> Iterator[FieldError]:
    if not issuer.url:
        yield required(f"{path}.url")
    else:
        yield from _url_errors(issuer.url, disallowed, f"{path}.url")
    if issuer.discovery_url:
        if issuer.url and issuer.url.rstrip("/") == issuer.discovery_url.rstrip("/"):
            yield invalid(f"{path}.discoveryURL", issuer.discovery_url, "discoveryURL must be different from URL")
        yield from _url_errors(issuer.discovery_url, (), f"{path}.discoveryURL")
    yield from _audience_errors(issuer, path)
    if issuer.certificate_authority and not _is_authority(issuer.certificate_authority):
        text = "data does not contain any valid RSA or ECDSA certificates"
        yield invalid(f"{path}.certificateAuthority", "<omitted>", text)
    if issuer.egress_selector_type not in ("", "controlplane", "cluster"):
        text = "egress selector must be either controlplane or cluster"
        yield invalid(f"{path}.egressSelectorType", issuer.egress_selector_type, text)
    elif issuer.egress_selector_type:
        yield forbidden(f"{path}.egressSelectorType", "connections are made directly: there are no egress selectors")


def _url_errors(url: str, disallowed: Collection[str], path: str) -> Iterator[FieldError]:
    if url in disallowed:
        yield invalid(path, url, f"URL must not overlap with disallowed issuers: [{' '.join(sorted(disallowed))}]")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        yield invalid(path, url, f'parse "{url}": {error}')
        return
    if parts.scheme != "https":
        yield invalid(path, url, "URL scheme must be https")
    if "@" in parts.netloc:
        yield invalid(path, url, "URL must not contain a username or password")
    if parts.query:
        yield invalid(path, url, "URL must not contain a query")
    if parts.fragment:
        yield invalid(path, url, "URL must not contain a fragment")


def _audience_errors(issuer: Issuer, path: str) -> Iterator[FieldError]:
    here, policy = f"{path}.audiences", issuer.audience_match_policy
    if not issuer.audiences:
        yield required(here, f"at least one {here} is required")
        return
    seen = set()
    for index, audience in enumerate(issuer.audiences):
        if not audience:
            yield required(f"{here}[{index}]")
        if audience in seen:
            yield duplicate(f"{here}[{index}]", audience)
        seen.add(audience)
    if len(issuer.audiences) > 1 and policy != "MatchAny":
        text = "audienceMatchPolicy must be MatchAny for multiple audiences"
        yield invalid(f"{path}.audienceMatchPolicy", policy, text)
    elif policy not in ("", "MatchAny"):
        text = "audienceMatchPolicy must be empty or MatchAny for single audience"
        yield invalid(f"{path}.audienceMatchPolicy", policy, text)


def _is_authority(pem: str) -> bool:
    from cryptography import x509

    try:
        return bool(x509.load_pem_x509_certificates(pem.encode()))
    except ValueError:
        return False


def _key_errors(key: str, path: str) -> Iterator[FieldError]:
    """What is wrong with the key of extra information."""
    domain, slash, rest = key.partition("/")
    if not key:
        yield required(path)
    elif not (domain and slash and rest):
        yield invalid(path, key, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        for message in formats.dns_subdomain(domain):
            yield invalid(path, domain, message)
        if not _PATH.fullmatch(rest):
            text = formats.regex_message("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
            yield invalid(path, rest, text)
    if key != key.lower():
        yield invalid(path, key, "must be lowercase")
    if slash and any(domain == one or domain.endswith(f".{one}") for one in ("kubernetes.io", "k8s.io")):
        yield invalid(path, key, _RESERVED)
