"""Which rule of an audit policy a request meets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.apiserver.audit.policy import RESPONSE_STARTED, STAGES, Level, Policy
from bayplan.apiserver.audit.policy_file import parse_policy
from bayplan.apiserver.authorization.attributes import Attributes, attributes_of
from bayplan.apiserver.requests import Request, User

TIM = User("tim@k8s.io", ("humans", "developers"))


def policy(*rules: dict[str, Any], **rest: Any) -> Policy:
    tree = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **rest}
    return parse_policy(msgspec.json.encode(tree))


def asked(method: str, path: str, user: User = TIM, **query: str) -> Attributes:
    return attributes_of(Request(method, path, query, user))


POD = asked("GET", "/api/v1/namespaces/default/pods/busybox")
LOG = asked("GET", "/api/v1/namespaces/default/pods/busybox/log")
SCALE = asked("PATCH", "/apis/apps/v1/namespaces/web/deployments/d/scale")
NODES = asked("GET", "/api/v1/nodes")
HEALTH = asked("GET", "/healthz/etcd")
LOGS = asked("GET", "/logs/kubelet.log")


@pytest.mark.parametrize(
    ("rule", "request_", "fits"),
    [
        pytest.param({}, POD, True, id="a rule without conditions fits all"),
        pytest.param({}, HEALTH, True, id="and what is no resource"),
        pytest.param({"users": ["tim@k8s.io"]}, POD, True, id="a user"),
        pytest.param({"users": ["tim"]}, POD, False, id="another user"),
        pytest.param({"userGroups": ["robots", "humans"]}, POD, True, id="one of the groups"),
        pytest.param({"userGroups": ["robots"]}, POD, False, id="no group"),
        pytest.param({"verbs": ["get"]}, POD, True, id="a verb"),
        pytest.param({"verbs": ["list"]}, NODES, True, id="the verb of a collection"),
        pytest.param({"verbs": ["update"]}, POD, False, id="another verb"),
        pytest.param({"verbs": ["get"]}, HEALTH, True, id="the method of what is no resource"),
        pytest.param({"namespaces": ["default"]}, POD, True, id="a namespace"),
        pytest.param({"namespaces": ["default"]}, NODES, False, id="a namespace, but the resource has none"),
        pytest.param({"namespaces": [""]}, NODES, True, id="no namespace"),
        pytest.param({"namespaces": [""]}, POD, False, id="no namespace, but the resource has one"),
        pytest.param({"namespaces": ["", "default"]}, HEALTH, False, id="namespaces fit resources only"),
        pytest.param({"resources": [{}]}, POD, True, id="the core group"),
        pytest.param({"resources": [{}]}, SCALE, False, id="the core group, but it is another"),
        pytest.param({"resources": [{"group": "*"}]}, SCALE, True, id="all groups"),
        pytest.param({"resources": [{"group": "*"}]}, HEALTH, False, id="all groups, but it is no resource"),
        pytest.param({"resources": [{"resources": ["pods"]}]}, POD, True, id="a resource"),
        pytest.param({"resources": [{"resources": ["pods"]}]}, LOG, False, id="its subresource is not it"),
        pytest.param({"resources": [{"resources": ["pods/log"]}]}, LOG, True, id="a subresource"),
        pytest.param({"resources": [{"resources": ["pods/log"]}]}, POD, False, id="a subresource, but it is whole"),
        pytest.param({"resources": [{"resources": ["pods/*"]}]}, LOG, True, id="all subresources"),
        pytest.param({"resources": [{"resources": ["pods/*"]}]}, POD, True, id="with the resource itself"),
        pytest.param({"resources": [{"resources": ["*/log"]}]}, LOG, True, id="a subresource of all"),
        pytest.param({"resources": [{"resources": ["*/scale"]}]}, LOG, False, id="another subresource of all"),
        pytest.param({"resources": [{"group": "apps", "resources": ["*/scale"]}]}, SCALE, True, id="of a group"),
        pytest.param({"resources": [{"resources": ["*"]}]}, LOG, True, id="all of a group"),
        pytest.param({"resources": [{"resources": ["pods"], "resourceNames": ["busybox"]}]}, POD, True, id="a name"),
        pytest.param({"resources": [{"resources": ["pods"], "resourceNames": ["x"]}]}, POD, False, id="another name"),
        pytest.param({"resources": [{"resources": ["nodes"], "resourceNames": ["x"]}]}, NODES, False, id="no name"),
        pytest.param({"resources": [{"group": "batch"}, {"resources": ["pods"]}]}, POD, True, id="the second of two"),
        pytest.param({"nonResourceURLs": ["/healthz/etcd"]}, HEALTH, True, id="a path"),
        pytest.param({"nonResourceURLs": ["/healthz"]}, HEALTH, False, id="a part of a path"),
        pytest.param({"nonResourceURLs": ["/healthz*"]}, HEALTH, True, id="the beginning of a path"),
        pytest.param({"nonResourceURLs": ["/api*"]}, POD, False, id="a path, but it is a resource"),
        pytest.param({"nonResourceURLs": ["*"]}, LOGS, True, id="all paths"),
        pytest.param({"users": ["tim@k8s.io"], "verbs": ["get"], "namespaces": ["web"]}, POD, False, id="all must fit"),
    ],
)
def test_a_rule_fits_a_request(rule: dict[str, Any], request_: Attributes, fits: bool) -> None:
    found = policy({"level": "Metadata", **rule}).decide(request_)
    assert found.level is (Level.METADATA if fits else Level.NONE)


def test_the_first_rule_that_fits_counts() -> None:
    rules = policy(
        {"level": "None", "users": ["system:kube-proxy"]},
        {"level": "Request", "verbs": ["get"], "resources": [{"resources": ["pods"]}]},
        {"level": "RequestResponse", "resources": [{}]},
    )
    assert rules.decide(POD).level is Level.REQUEST
    assert rules.decide(LOG).level is Level.REQUEST_RESPONSE
    assert rules.decide(SCALE).level is Level.NONE
    assert rules.decide(asked("GET", "/api/v1/nodes", User("system:kube-proxy"))).level is Level.NONE


def test_stages_are_left_out_by_rule_and_by_policy() -> None:
    rules = policy(
        {"level": "Metadata", "verbs": ["get"], "omitStages": ["ResponseStarted", "Panic"]},
        {"level": "Metadata"},
        omitStages=["RequestReceived"],
    )
    assert rules.decide(POD).omitted == {"RequestReceived", "ResponseStarted", "Panic"}
    assert rules.decide(NODES).omitted == {"RequestReceived"}


def test_a_rule_knows_better_than_the_policy_whether_managed_fields_are_left_out() -> None:
    rules = policy(
        {"level": "Request", "verbs": ["get"], "omitManagedFields": False},
        {"level": "Request", "verbs": ["list"], "omitManagedFields": True},
        {"level": "Request"},
        omitManagedFields=True,
    )
    assert [rules.decide(one).omits_managed_fields for one in (POD, NODES, SCALE)] == [False, True, True]


_WORDS = st.sampled_from(["pods", "deployments", "log", "scale"])
_RESOURCE = st.one_of(
    _WORDS, st.just("*"), st.builds("{}/{}".format, _WORDS | st.just("*"), _WORDS), st.builds("{}/*".format, _WORDS)
)


@given(rule=_RESOURCE, resource=_WORDS, subresource=_WORDS | st.just(""))
def test_wildcards_of_resources(rule: str, resource: str, subresource: str) -> None:
    """As a pattern with two parts."""
    found = policy({"level": "Metadata", "resources": [{"resources": [rule]}]})
    request_ = Attributes(TIM, "get", resource=resource, subresource=subresource)
    first, slash, second = rule.partition("/")
    if rule == "*":
        expected = True
    elif slash and second == "*":
        expected = first == resource
    elif slash:
        expected = first in ("*", resource) and second == subresource
    else:
        expected = (first, "") == (resource, subresource)
    assert (found.decide(request_).level is Level.METADATA) == expected


def test_levels_are_in_order_and_stages_have_their_names() -> None:
    assert [level.word for level in Level] == ["None", "Metadata", "Request", "RequestResponse"]
    assert RESPONSE_STARTED in STAGES
