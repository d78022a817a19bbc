"""Which schema takes a request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.api.codec import decode
from bayplan.api.types import flowcontrol_v1 as fc
from bayplan.apiserver.flow_control.matching import distinguisher_of, in_matching_order, matches
from bayplan.apiserver.request_info import parse_request_info
from bayplan.apiserver.requests import User

GROUPS = ("system:authenticated", "dev")
ALICE, ACCOUNT = User("alice", GROUPS), User("system:serviceaccount:shop:web")
EVERYONE = [{"kind": "Group", "group": {"name": "*"}}]
ALL = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}


def schema(
    subjects: list[Any], resources: tuple[Any, ...] = (ALL,), urls: tuple[Any, ...] = (), **spec: Any
) -> fc.FlowSchema:
    rule = {"subjects": subjects, "resourceRules": list(resources), "nonResourceRules": list(urls)}
    body = {"metadata": {"name": "s"}, "spec": {"priorityLevelConfiguration": {"name": "l"}, "rules": [rule], **spec}}
    found: fc.FlowSchema = decode(fc.FlowSchema, json.dumps(body).encode())
    return found


@pytest.mark.parametrize(
    ("subject", "user", "expected"),
    [
        ({"kind": "User", "user": {"name": "alice"}}, ALICE, True),
        ({"kind": "User", "user": {"name": "*"}}, ALICE, True),
        ({"kind": "User", "user": {"name": "alic"}}, ALICE, False),
        ({"kind": "User"}, ALICE, False),
        ({"kind": "Group", "group": {"name": "dev"}}, ALICE, True),
        ({"kind": "Group", "group": {"name": "ops"}}, ALICE, False),
        ({"kind": "Group", "group": {"name": "*"}}, User("nobody"), True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "web"}}, ACCOUNT, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "*"}}, ACCOUNT, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "we"}}, ACCOUNT, False),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "sho", "name": "*"}}, ACCOUNT, False),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "*"}}, ALICE, False),
    ],
)
def test_subjects(subject: dict[str, Any], user: User, expected: bool) -> None:
    info = parse_request_info("GET", "/api/v1/nodes", {})
    assert matches(schema([subject]), info, user) is expected


@pytest.mark.parametrize(
    ("changes", "method", "path", "expected"),
    [
        ({}, "GET", "/api/v1/namespaces/a/pods/p", True),
        ({"verbs": ["get"]}, "GET", "/api/v1/namespaces/a/pods/p", True),
        ({"verbs": ["list"]}, "GET", "/api/v1/namespaces/a/pods/p", False),
        ({"resources": ["pods"]}, "GET", "/api/v1/namespaces/a/pods/p", True),
        ({"resources": ["pods"]}, "GET", "/api/v1/namespaces/a/pods/p/status", False),
        ({"resources": ["pods/status"]}, "GET", "/api/v1/namespaces/a/pods/p/status", True),
        ({"apiGroups": [""]}, "GET", "/apis/apps/v1/namespaces/a/deployments", False),
        ({"apiGroups": ["apps"]}, "GET", "/apis/apps/v1/namespaces/a/deployments", True),
        ({"namespaces": ["b"]}, "GET", "/api/v1/namespaces/a/pods", False),
        ({"namespaces": ["a", "b"]}, "GET", "/api/v1/namespaces/a/pods", True),
        ({"clusterScope": False}, "GET", "/api/v1/pods", False),
        ({"namespaces": [], "clusterScope": True}, "GET", "/api/v1/namespaces/a/pods", False),
        ({"namespaces": [], "clusterScope": True}, "GET", "/api/v1/nodes", True),
        ({}, "GET", "/healthz", False),
    ],
)
def test_resource_rules(changes: dict[str, Any], method: str, path: str, expected: bool) -> None:
    info = parse_request_info(method, path, {})
    assert matches(schema(EVERYONE, ({**ALL, **changes},)), info, ALICE) is expected


@pytest.mark.parametrize(
    ("verbs", "urls", "path", "expected"),
    [
        (["get"], ["/healthz"], "/healthz", True),
        (["get"], ["/healthz"], "/healthz/etcd", True),
        (["get"], ["/healthz"], "/healthzz", False),
        (["get"], ["/metrics/*"], "/metrics/slis", True),
        (["get"], ["/metrics/*"], "/metrics", False),
        (["post"], ["/healthz"], "/healthz", False),
        (["*"], ["*"], "/anything", True),
        (["*"], ["*"], "/api/v1/nodes", False),
    ],
)
def test_non_resource_rules(verbs: list[str], urls: list[str], path: str, expected: bool) -> None:
    one = schema(EVERYONE, (), ({"verbs": verbs, "nonResourceURLs": urls},))
    assert matches(one, parse_request_info("GET", path, {}), ALICE) is expected


@pytest.mark.parametrize(
    ("method", "expected"), [(None, ""), ({"type": "ByUser"}, "alice"), ({"type": "ByNamespace"}, "a")]
)
def test_flows_are_told_apart(method: dict[str, str] | None, expected: str) -> None:
    one = schema(EVERYONE, distinguisherMethod=method) if method else schema(EVERYONE)
    assert distinguisher_of(one, parse_request_info("GET", "/api/v1/namespaces/a/pods", {}), ALICE) == expected


def test_schemas_are_tried_by_precedence_then_by_name() -> None:
    made = []
    for name, precedence in (("b", 100), ("a", 100), ("z", 1), ("c", 9000)):
        one = schema(EVERYONE, matchingPrecedence=precedence)
        one.metadata.name = name
        made.append(one)
    assert [one.metadata.name for one in in_matching_order(made)] == ["z", "a", "b", "c"]
