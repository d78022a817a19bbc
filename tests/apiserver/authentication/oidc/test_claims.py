"""Which users claims become."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.apiserver.authentication.configuration import AuthenticationConfiguration
from bayplan.apiserver.authentication.oidc.claims import ClaimError, Mappings
from bayplan.apiserver.authentication.oidc.validation import validated
from bayplan.apiserver.requests import User
from bayplan.support.configuration import convert

ISSUER = {"url": "https://issuer.example", "audiences": ["me"]}
BY_SUBJECT = {"username": {"claim": "sub", "prefix": "oidc:"}}


def mappings(claim_mappings: dict[str, Any] = BY_SUBJECT, **more: Any) -> Mappings:
    """How the claims of an issuer become users."""
    tree = {"jwt": [{"issuer": ISSUER, "claimMappings": claim_mappings, **more}]}
    found, errors = validated(convert(tree, AuthenticationConfiguration), ())
    assert not errors, list(map(str, errors))
    return found[0]


def test_claims_with_prefixes() -> None:
    found = mappings(
        {**BY_SUBJECT, "groups": {"claim": "groups", "prefix": "g:"}, "uid": {"claim": "id"}},
    ).user({"sub": "jane", "groups": ["a", "b"], "id": "7", "jti": "t1"})
    credential = {"authentication.kubernetes.io/credential-id": ("JTI=t1",)}
    assert found == User("oidc:jane", ("g:a", "g:b"), "7", credential)


@pytest.mark.parametrize(("groups", "expected"), [("one", ("one",)), ([], ()), (None, ()), (["a", "b"], ("a", "b"))])
def test_a_claim_of_groups_may_be_one_group(groups: Any, expected: tuple[str, ...]) -> None:
    given = mappings({**BY_SUBJECT, "groups": {"claim": "groups", "prefix": ""}})
    assert given.user({"sub": "jane", "groups": groups}).groups == expected
    assert given.user({"sub": "jane"}).groups == ()


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({}, 'parse username claims "sub": claim not present'),
        ({"sub": ""}, 'parse username claims "sub": the claim is empty'),
        ({"sub": None}, "the claim is empty"),
        ({"sub": 7}, "json: cannot unmarshal number into Go value of type string"),
        ({"sub": ["a"]}, "json: cannot unmarshal array"),
        ({"sub": "jane", "groups": 7}, 'parse groups claim "groups"'),
        ({"sub": "jane", "groups": ["a", 7]}, 'parse groups claim "groups"'),
        ({"sub": "jane", "groups": {}}, 'parse groups claim "groups"'),
    ],
)
def test_claims_of_the_wrong_form_are_nobody(claims: dict[str, Any], problem: str) -> None:
    with pytest.raises(ClaimError, match=problem):
        mappings({**BY_SUBJECT, "groups": {"claim": "groups", "prefix": ""}}).user(claims)


@pytest.mark.parametrize(
    ("verified", "is_known"), [(True, True), (False, False), ("true", False), (None, False), (1, False)]
)
def test_an_email_that_is_not_verified_is_nobody(verified: Any, is_known: bool) -> None:
    given = mappings({"username": {"claim": "email", "prefix": ""}})
    claims = {"email": "j@example.com", "email_verified": verified}
    if is_known:
        assert given.user(claims).name == "j@example.com"
    else:
        with pytest.raises(ClaimError, match="email"):
            given.user(claims)
    assert given.user({"email": "j@example.com"}).name == "j@example.com"


def test_expressions_make_users() -> None:
    found = mappings(
        {
            "username": {"expression": "claims.org + ':' + claims.sub"},
            "groups": {"expression": "claims.roles.split(',')"},
            "uid": {"expression": "claims.nested.id"},
            "extra": [
                {"key": "example.com/tenant", "valueExpression": "claims.tenant"},
                {"key": "example.com/none", "valueExpression": "''"},
                {"key": "example.com/many", "valueExpression": "['a', '', 'b']"},
                {"key": "example.com/dotted", "valueExpression": "claims.nested.a__dot__b"},
            ],
        }
    ).user({"org": "x", "sub": "jane", "roles": "a,b", "nested": {"id": "7", "a.b": "deep"}, "tenant": "t"})
    assert (found.name, found.groups, found.uid) == ("x:jane", ("a", "b"), "7")
    assert found.extra == {
        "example.com/tenant": ("t",),
        "example.com/many": ("a", "b"),
        "example.com/dotted": ("deep",),
    }


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("claims.missing", "no such key: missing"),
        ("''", "empty username via CEL expression is not allowed"),
        ("claims.number", "username claim expression must return a string"),
        ("claims.number == 7 ? claims.sub : ''", ""),
        ("has(claims.sub) ? claims.sub : 'nobody'", ""),
    ],
)
def test_expressions_of_names(expression: str, problem: str) -> None:
    given = mappings({"username": {"expression": expression}})
    claims = {"sub": "jane", "number": 7}
    if problem:
        with pytest.raises(ClaimError, match=problem):
            given.user(claims)
    else:
        assert given.user(claims).name == "jane"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("claims.g", ("a",)), ("null", ()), ("['a', '']", ("a",)), ("claims.n", None), ("[1]", None)],
)
def test_expressions_of_groups(expression: str, expected: tuple[str, ...] | None) -> None:
    given = mappings({**BY_SUBJECT, "groups": {"expression": expression}})
    claims = {"sub": "jane", "g": "a", "n": 1}
    if expected is None:
        with pytest.raises(ClaimError, match="expression must return a string or a list of strings"):
            given.user(claims)
    else:
        assert given.user(claims).groups == expected


def test_required_claims_and_rules() -> None:
    given = mappings(
        claimValidationRules=[
            {"claim": "hd", "requiredValue": "example.com"},
            {"expression": "claims.exp - claims.nbf <= 86400", "message": "at most a day"},
        ],
        userValidationRules=[
            {"expression": "!user.username.startsWith('oidc:system:')", "message": "reserved"},
            {"expression": "user.groups.all(g, !g.startsWith('system:'))"},
        ],
    )
    good = {"sub": "jane", "hd": "example.com", "exp": 100, "nbf": 0}
    assert given.user(good).name == "oidc:jane"
    for changes, problem in {
        (("hd", "other.com"),): "required claim hd value does not match. Got = other.com, want = example.com",
        (("exp", 90_000),): "validation expression 'claims.exp - claims.nbf <= 86400' failed: at most a day",
        (("sub", "system:admin"),): "error evaluating user info validation rule: .* failed: reserved",
        (("exp", "x"),): "resulted in error",
    }.items():
        with pytest.raises(ClaimError, match=problem):
            given.user(good | dict(changes))
    with pytest.raises(ClaimError, match="required claim hd not present in ID token"):
        given.user({"sub": "jane"})


def test_an_expression_that_costs_too_much_is_nobody() -> None:
    given = mappings(
        {"username": {"expression": "dyn(claims.l).all(a, dyn(claims.l).all(b, a != b + 'x')) ? 'jane' : ''"}}
    )
    assert given.user({"l": ["a", "b"]}).name == "jane"
    with pytest.raises(ClaimError, match="cost limit exceeded"):
        given.user({"l": [str(number) for number in range(2000)]})
