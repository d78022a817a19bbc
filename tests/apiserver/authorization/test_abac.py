"""Policies in a file: who may do what."""

from __future__ import annotations

import json

import pytest

from bayplan.apiserver.authorization.abac import AbacAuthorizer, PolicyError, parse_policies
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.requests import User

ALICE = User("alice", ("dev", "system:authenticated"))
NOBODY = User("system:anonymous", ("system:unauthenticated",))
HEAD = {"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy"}


def authorizer(*policies: dict[str, object]) -> AbacAuthorizer:
    return AbacAuthorizer(parse_policies("\n".join(map(json.dumps, policies)), "file"))


def policy(**spec: object) -> dict[str, object]:
    return {**HEAD, "spec": spec}


def reads(user: User = ALICE, verb: str = "get", namespace: str = "n", group: str = "") -> Attributes:
    return Attributes(user, verb, namespace=namespace, group=group, resource="pods", name="p")


EVERYTHING = {"namespace": "*", "resource": "*", "apiGroup": "*", "nonResourcePath": "*"}


@pytest.mark.parametrize(
    ("given", "asked", "is_allowed"),
    [
        (policy(user="alice", **EVERYTHING), reads(), True),
        (policy(user="bob", **EVERYTHING), reads(), False),
        (policy(group="dev", **EVERYTHING), reads(), True),
        (policy(group="ops", **EVERYTHING), reads(), False),
        (policy(user="alice", group="ops", **EVERYTHING), reads(), False),
        (policy(**EVERYTHING), reads(), False),
        (policy(user="*", **EVERYTHING), reads(), True),
        (policy(user="*", **EVERYTHING), reads(NOBODY), False),
        (policy(user="alice", readonly=True, **EVERYTHING), reads(verb="watch"), True),
        (policy(user="alice", readonly=True, **EVERYTHING), reads(verb="delete"), False),
        (policy(user="alice", namespace="n", resource="pods"), reads(), True),
        (policy(user="alice", namespace="m", resource="pods"), reads(), False),
        (policy(user="alice", namespace="n", resource="secrets"), reads(), False),
        (policy(user="alice", namespace="n", resource="pods"), reads(group="apps"), False),
        (policy(user="alice", nonResourcePath="/a/*"), Attributes(ALICE, "get", path="/a/b", is_resource=False), True),
        (policy(user="alice", nonResourcePath="/a/*"), Attributes(ALICE, "get", path="/b", is_resource=False), False),
        (policy(user="alice", nonResourcePath="/a"), Attributes(ALICE, "get", path="/a", is_resource=False), True),
        (policy(user="alice", namespace="*"), Attributes(ALICE, "get", path="/a", is_resource=False), False),
        ({}, reads(), True),
        ({}, reads(NOBODY), False),
        ({"user": "alice", "namespace": "m"}, reads(), False),
        ({"user": "alice", "resource": "pods"}, reads(group="apps"), True),
        ({"user": "alice", "resource": "pods"}, Attributes(ALICE, "get", path="/a", is_resource=False), False),
        ({"user": "alice"}, Attributes(ALICE, "get", path="/a", is_resource=False), True),
    ],
)
def test_what_a_policy_allows(given: dict[str, object], asked: Attributes, is_allowed: bool) -> None:
    verdict = authorizer(policy(user="nobody at all"), given).authorize(asked)
    assert verdict.allowed is is_allowed
    assert verdict.reason == ("" if is_allowed else "No policy matched.")


def test_lines_that_are_empty_or_comments_are_skipped() -> None:
    assert len(parse_policies('\n# a comment\n  \n{"user": "a"}\n', "file")) == 1


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"user": 1}', '{"kind": "Policy"}', '{"apiVersion": "v1", "kind": "Policy"}']
)
def test_a_line_that_is_no_policy_is_named(line: str) -> None:
    with pytest.raises(PolicyError, match="error reading policy file f, line 2: "):
        parse_policies(f"{{}}\n{line}", "f")


def test_rules_of_a_user() -> None:
    given = authorizer(
        policy(user="alice", namespace="n", resource="pods", readonly=True), policy(user="bob", **EVERYTHING)
    )
    (found,) = given.rules_for(ALICE, "n")
    assert (found.verbs, found.resources) == (("get", "list", "watch"), ("pods",))
    assert list(given.rules_for(ALICE, "m")) == []
