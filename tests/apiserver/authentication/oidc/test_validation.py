"""What is wrong with authentication configurations, in kube-apiserver's words."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.apiserver.authentication.configuration import (
    AuthenticationConfiguration,
    read_authentication_configuration,
)
from bayplan.apiserver.authentication.oidc.validation import validated
from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.support.configuration import convert

ISSUER = {"url": "https://issuer.example", "audiences": ["me"]}
BY_SUBJECT = {"username": {"claim": "sub", "prefix": ""}}


def errors_of(*issuers: dict[str, Any], **more: Any) -> list[str]:
    """What is wrong."""
    return [
        str(one)
        for one in validated(convert({"jwt": issuers, **more}, AuthenticationConfiguration), ("https://own",))[1]
    ]


def one(
    issuer: dict[str, Any] | None = None, claim_mappings: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """An issuer that is right but for what is given."""
    return {"issuer": {**ISSUER, **(issuer or {})}, "claimMappings": {**BY_SUBJECT, **(claim_mappings or {})}, **more}


def test_a_configuration_that_is_right() -> None:
    assert errors_of(one(), one({"url": "https://second.example"})) == []
    assert errors_of() == []


PATH = "jwt[0]"
SAME = "claim and expression can't both be set"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (one({"url": ""}), "issuer.url: Required value"),
        (one({"url": "http://a"}), 'issuer.url: Invalid value: "http://a": URL scheme must be https'),
        (one({"url": "https://u:p@a"}), "URL must not contain a username or password"),
        (one({"url": "https://a?b"}), "URL must not contain a query"),
        (one({"url": "https://a#b"}), "URL must not contain a fragment"),
        (one({"url": "https://own"}), "URL must not overlap with disallowed issuers: [https://own]"),
        (
            one({"discoveryURL": "https://issuer.example/"}),
            "discoveryURL must be different from URL",
        ),
        (one({"discoveryURL": "http://x"}), "URL scheme must be https"),
        (
            one({"audiences": []}),
            f"{PATH}.issuer.audiences: Required value: at least one {PATH}.issuer.audiences is required",
        ),
        (one({"audiences": [""]}), "issuer.audiences[0]: Required value"),
        (
            one({"audiences": ["a", "a"], "audienceMatchPolicy": "MatchAny"}),
            'issuer.audiences[1]: Duplicate value: "a"',
        ),
        (
            one({"audiences": ["a", "b"]}),
            'issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences',
        ),
        (one({"audienceMatchPolicy": "All"}), "audienceMatchPolicy must be empty or MatchAny for single audience"),
        (
            one({"certificateAuthority": "x"}),
            'issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain',
        ),
        (one({"egressSelectorType": "x"}), "egress selector must be either controlplane or cluster"),
        (
            one(claim_mappings={"username": {}}),
            "claimMappings.username: Required value: claim or expression is required",
        ),
        (
            one(claim_mappings={"username": {"claim": "a"}}),
            "claimMappings.username.prefix: Required value: prefix is required when claim is set",
        ),
        (one(claim_mappings={"username": {"claim": "a", "expression": "'b'"}}), SAME),
        (
            one(claim_mappings={"username": {"expression": "'a'", "prefix": "b"}}),
            'username.prefix: Invalid value: "b": may not be specified',
        ),
        (
            one(claim_mappings={"username": {"expression": "claims.a +"}}),
            'username.expression: Invalid value: "claims.a +": compilation failed: ERROR',
        ),
        (one(claim_mappings={"username": {"expression": "foo.bar"}}), "undeclared reference to 'foo'"),
        (
            one(claim_mappings={"username": {"expression": "claims.email"}}),
            "claims.email_verified must be used in claimMappings.username.expression or",
        ),
        (
            one(claim_mappings={"username": {"expression": "claims.?email.orValue('')"}}),
            "claims.email_verified must be used",
        ),
        (one(claim_mappings={"groups": {"claim": "g"}}), "claimMappings.groups.prefix: Required value"),
        (
            one(claim_mappings={"uid": {"claim": "g", "expression": "'a'"}}),
            f'claimMappings.uid: Invalid value: "": {SAME}',
        ),
        (one(claim_mappings={"extra": [{"key": "a", "valueExpression": "'a'"}]}), "must be a domain-prefixed path"),
        (
            one(claim_mappings={"extra": [{"key": "a.b/C", "valueExpression": "'a'"}]}),
            'extra[0].key: Invalid value: "a.b/C": must be lowercase',
        ),
        (
            one(claim_mappings={"extra": [{"key": "x.k8s.io/c", "valueExpression": "'a'"}]}),
            "reserved for Kubernetes use",
        ),
        (one(claim_mappings={"extra": [{"key": "a.b/c"}]}), "extra[0].valueExpression: Required value"),
        (
            one(claim_mappings={"extra": [{"key": "a.b/c", "valueExpression": "'a'"}] * 2}),
            'extra[1].key: Duplicate value: "a.b/c"',
        ),
        (one(claimValidationRules=[{}]), "claimValidationRules[0]: Required value: claim or expression is required"),
        (one(claimValidationRules=[{"claim": "a", "message": "m"}]), "may not be specified when claim is set"),
        (one(claimValidationRules=[{"claim": "a"}] * 2), 'claimValidationRules[1].claim: Duplicate value: "a"'),
        (
            one(claimValidationRules=[{"expression": "true", "requiredValue": "b"}]),
            "may not be specified when expression is set",
        ),
        (
            one(claimValidationRules=[{"expression": "'a'"}]),
            "claimValidationRules[0].expression: Invalid value: \"'a'\": must evaluate to bool",
        ),
        (one(claimValidationRules=[{"expression": "claims.a"}]), "must evaluate to bool"),
        (one(userValidationRules=[{}]), "userValidationRules[0].expression: Required value"),
        (one(userValidationRules=[{"expression": "user.name == 'a'"}]), "undefined field 'name'"),
        (one(userValidationRules=[{"expression": "claims.a"}]), "undeclared reference to 'claims'"),
    ],
)
def test_each_mistake_is_named(given: dict[str, Any], expected: str) -> None:
    found = errors_of(given)
    assert len(found) == 1, found
    assert found[0].startswith(PATH)
    assert expected in found[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"claim_mappings": {"username": {"expression": "claims.email_verified ? claims.email : claims.sub"}}},
        {
            "claim_mappings": {"username": {"expression": "claims.email"}},
            "claimValidationRules": [{"expression": "claims.?email_verified.orValue(true) == true"}],
        },
        {
            "claim_mappings": {
                "username": {"expression": "claims.email"},
                "extra": [{"key": "a.b/c", "valueExpression": "string(claims.email_verified)"}],
            }
        },
    ],
)
def test_an_email_may_be_used_where_it_is_looked_at_whether_it_is_verified(changes: dict[str, Any]) -> None:
    assert errors_of(one(**changes)) == []


def test_issuers_are_named_once() -> None:
    twice = one({"discoveryURL": "https://d.example"})
    assert errors_of(twice, twice) == [
        'jwt[1].issuer.url: Duplicate value: "https://issuer.example"',
        'jwt[1].issuer.discoveryURL: Duplicate value: "https://d.example"',
    ]
    assert errors_of(*[one()] * 65) == ["jwt: Too many: 65: must have at most 64 items"]


def test_conditions_of_anonymous_requests_need_them_enabled() -> None:
    found = errors_of(anonymous={"enabled": False, "conditions": [{"path": "/livez"}]})
    assert found == [
        'anonymous.conditions: Invalid value: [{"Path":"/livez"}]: enabled should be set to true when conditions are defined'
    ]


HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_a_file_of_each_version_is_read(version: str) -> None:
    text = HEAD.replace("/v1", f"/{version}") + "jwt:\n- issuer: {url: https://a, audiences: [b]}\nanonymous:\n"
    found = read_authentication_configuration(text.encode())
    assert (found.jwt[0].issuer.url, found.jwt[0].issuer.audiences, found.anonymous) == ("https://a", ("b",), None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty config data"),
        ("kind: x", "Object 'apiVersion' is missing"),
        ("apiVersion: x", "Object 'Kind' is missing"),
        (HEAD.replace("Authentication", "Authorization"), 'no kind "AuthorizationConfiguration" is registered'),
        (HEAD.replace("/v1", "/v2"), 'for version "apiserver.config.k8s.io/v2"'),
        (HEAD + "jwts: []", 'strict decoding error: unknown field "jwts"'),
        (HEAD + "jwt: [{issuer: {uri: a}}]", 'unknown field "jwt\\[0\\].issuer.uri"'),
        (HEAD + "jwt: []\njwt: []", 'key "jwt" already set in map'),
        (
            HEAD + "jwt: [{issuer: {url: 1}}]",
            "json: cannot unmarshal number into Go struct field Issuer.jwt.issuer.url of type string",
        ),
        (
            HEAD + "jwt: {}",
            r"cannot unmarshal object into Go struct field AuthenticationConfiguration.jwt of type \[\]v1.JWTAuthenticator",
        ),
        (
            HEAD + "jwt: [{issuer: a}]",
            "cannot unmarshal string into Go struct field JWTAuthenticator.jwt.issuer of type v1.Issuer",
        ),
        (
            HEAD + "jwt: [{issuer: {audiences: [1]}}]",
            "cannot unmarshal number into Go struct field Issuer.jwt.issuer.audiences of type string",
        ),
        (HEAD + "anonymous: {enabled: 'yes'}", "field AnonymousAuthConfig.anonymous.enabled of type bool"),
        (HEAD + "jwt: {", "yaml"),
        ("[]", "json: cannot unmarshal array"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read_authentication_configuration(text.encode())
