"""Policy rules: what they match, what they cover, how they are shown."""

from __future__ import annotations

import pytest

from bayplan.api.types import rbac_v1
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.rules import CompiledRule, compacted, missing, show
from bayplan.apiserver.requests import User
from tests.apiserver.authorization.roles import rule

USER = User("u")
MATCHING = [
    (rule("get", "pods"), Attributes(USER, "get", resource="pods"), True),
    (rule("get", "pods"), Attributes(USER, "list", resource="pods"), False),
    (rule("get", "pods"), Attributes(USER, "get", resource="pods", subresource="log"), False),
    (rule("get", "pods/log"), Attributes(USER, "get", resource="pods", subresource="log"), True),
    (rule("*", "*", ("*",)), Attributes(USER, "get", group="x", resource="pods", subresource="log"), True),
    (rule("get", "*/scale", ("*",)), Attributes(USER, "get", group="x", resource="foos", subresource="scale"), True),
    (rule("get", "*/scale", ("*",)), Attributes(USER, "get", group="x", resource="foos"), False),
    (rule("get", "pods", names="a"), Attributes(USER, "get", resource="pods", name="a"), True),
    (rule("get", "pods", names="a"), Attributes(USER, "get", resource="pods"), False),
    (rule("get", "pods"), Attributes(USER, "get", path="/pods", is_resource=False), False),
]


@pytest.mark.parametrize(("given", "asked", "expected"), MATCHING)
def test_matching(given: rbac_v1.PolicyRule, asked: Attributes, expected: bool) -> None:
    assert CompiledRule(given).matches(asked) is expected


@pytest.mark.parametrize(
    ("path", "expected"), [("/metrics", True), ("/healthz/ping", True), ("/healthz", False), ("/other", False)]
)
def test_paths_match_by_name_or_prefix(path: str, expected: bool) -> None:
    given = CompiledRule(rbac_v1.PolicyRule(verbs=("get",), non_resource_urls=("/metrics", "/healthz/*")))
    assert given.matches(Attributes(USER, "get", path=path, is_resource=False)) is expected


COVERING = [
    ([rule("get list", "pods")], [rule("get", "pods")], []),
    ([rule("*", "pods")], [rule("*", "pods")], []),
    ([rule("get", "pods")], [rule("*", "pods")], ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}']),
    ([rule("get", "*/scale", ("*",))], [rule("get", "foos/scale", ("x",))], []),
    ([rule("get", "pods", names="a b")], [rule("get", "pods", names="a")], []),
    (
        [rule("get", "pods", names="a")],
        [rule("get", "pods")],
        ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
    ),
    (
        [],
        [rule("get list", "pods", names="x")],
        ['{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["get" "list"]}'],
    ),
    (
        [],
        [rbac_v1.PolicyRule(verbs=("get", "post"), non_resource_urls=("/x",))],
        ['{NonResourceURLs:["/x"], Verbs:["get"]}', '{NonResourceURLs:["/x"], Verbs:["post"]}'],
    ),
]


@pytest.mark.parametrize(("owned", "wanted", "expected"), COVERING)
def test_covering(owned: list[rbac_v1.PolicyRule], wanted: list[rbac_v1.PolicyRule], expected: list[str]) -> None:
    assert [show(one) for one in compacted(missing(owned, wanted))] == expected
