"""What is wrong with authorization configurations, in kube-apiserver's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.apiserver.authorization.configuration import read_authorization_configuration
from bayplan.apiserver.configuration.files import ConfigurationError

HEAD = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}
HERE = str(Path(__file__))


def webhook(**changes: Any) -> dict[str, Any]:
    """A webhook that is right but for the changes; fields of None are left out."""
    given = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": HERE},
        **changes,
    }
    return {"type": "Webhook", "name": "hook", "webhook": {k: v for k, v in given.items() if v is not None}}


def data(*authorizers: dict[str, Any], version: str = "v1") -> bytes:
    head = {**HEAD, "apiVersion": f"apiserver.config.k8s.io/{version}"}
    return json.dumps({**head, "authorizers": authorizers}).encode()


NODE, RBAC = {"type": "Node", "name": "node"}, {"type": "RBAC", "name": "rbac"}


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_a_configuration_that_is_right(version: str) -> None:
    given = webhook(
        matchConditions=[{"expression": "request.user == 'a'"}], matchConditionSubjectAccessReviewVersion="v1"
    )
    found = read_authorization_configuration(data(NODE, RBAC, given, {**webhook(), "name": "other"}, version=version))
    assert [one.type for one in found.authorizers] == ["Node", "RBAC", "Webhook", "Webhook"]
    hook = found.authorizers[2].webhook
    assert hook is not None
    assert (hook.authorized_seconds, hook.unauthorized_seconds, float(hook.timeout)) == (300, 30, 3)
    without = webhook(cacheAuthorizedRequests=False, unauthorizedTTL="1m")
    hook = read_authorization_configuration(data(without)).authorizers[0].webhook
    assert hook is not None
    assert (hook.authorized_seconds, hook.unauthorized_seconds) == (0, 60)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), "authorizers: Required value: at least one authorization mode must be defined"),
        (({"name": "a"},), "authorizers[0].type: Required value"),
        (
            ({"type": "Other", "name": "a"},),
            'authorizers[0].type: Unsupported value: "Other": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"',
        ),
        ((RBAC, RBAC), 'authorizers[1].type: Duplicate value: "RBAC"'),
        (({"type": "RBAC"},), "authorizers[0].name: Required value"),
        ((webhook(), webhook()), 'authorizers[1].name: Duplicate value: "hook"'),
        (
            ({**webhook(), "name": "A_"},),
            'authorizers[0].name: Invalid value: "A_": authorizer name is invalid: a lowercase RFC 1123 subdomain',
        ),
        (({"type": "RBAC", "name": "mine"},), "expected name rbac for authorizer RBAC instead of mine"),
        (({"type": "Webhook", "name": "a"},), "authorizers[0].webhook: Required value: required when type=Webhook"),
        (
            ({**RBAC, "webhook": webhook()["webhook"]},),
            'authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook',
        ),
        ((webhook(timeout=None),), "authorizers[0].timeout: Required value"),
        ((webhook(timeout="31s"),), 'authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s'),
        ((webhook(subjectAccessReviewVersion=None),), "authorizers[0].subjectAccessReviewVersion: Required value"),
        (
            (webhook(subjectAccessReviewVersion="v2"),),
            'subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1"',
        ),
        (
            (webhook(matchConditions=[{"expression": "true"}]),),
            "matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
        ),
        (
            (webhook(matchConditionSubjectAccessReviewVersion="v1beta1"),),
            'matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1"',
        ),
        ((webhook(failurePolicy=None),), "authorizers[0].failurePolicy: Required value"),
        (
            (webhook(failurePolicy="Allow"),),
            'failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny"',
        ),
        ((webhook(connectionInfo={}),), "authorizers[0].connectionInfo.type: Required value"),
        ((webhook(connectionInfo={"type": "X"}),), 'connectionInfo.type: Unsupported value: "X"'),
        ((webhook(connectionInfo={"type": "KubeConfigFile"}),), "connectionInfo.kubeConfigFile: Required value"),
        (
            (webhook(connectionInfo={"type": "KubeConfigFile", "kubeConfigFile": "a"}),),
            'kubeConfigFile: Invalid value: "a": must be an absolute path',
        ),
        (
            (webhook(connectionInfo={"type": "KubeConfigFile", "kubeConfigFile": "/none/a"}),),
            "error loading file: stat /none/a",
        ),
        ((webhook(connectionInfo={"type": "KubeConfigFile", "kubeConfigFile": "/tmp"}),), "must be a regular file"),
        ((webhook(connectionInfo={"type": "InClusterConfig"}),), "an API server is not a client in its own cluster"),
        (
            (webhook(matchConditions=[{"expression": " "}], matchConditionSubjectAccessReviewVersion="v1"),),
            "matchConditions[0].expression: Required value",
        ),
        (
            (webhook(matchConditions=[{"expression": "1"}], matchConditionSubjectAccessReviewVersion="v1"),),
            'expression: Invalid value: "1": must evaluate to bool but got int',
        ),
        (
            (webhook(matchConditions=[{"expression": "true"}] * 2, matchConditionSubjectAccessReviewVersion="v1"),),
            'matchConditions[1].expression: Duplicate value: "true"',
        ),
        (
            (
                webhook(
                    matchConditions=[{"expression": f"true || {n} == 1"} for n in range(65)],
                    matchConditionSubjectAccessReviewVersion="v1",
                ),
            ),
            "matchConditions: Too many: 65: must have at most 64 items",
        ),
        (
            (webhook(failedPolicy="Deny"),),
            'failed to load AuthorizationConfiguration from file: strict decoding error: unknown field "authorizers[0].webhook.failedPolicy"',
        ),
        ((webhook(timeout="soon"),), "timeout"),
    ],
)
def test_each_mistake_is_named(given: tuple[dict[str, Any], ...], expected: str) -> None:
    with pytest.raises(ConfigurationError) as found:
        read_authorization_configuration(data(*given))
    assert expected in str(found.value)


def test_what_was_there_at_the_start_must_stay() -> None:
    read_authorization_configuration(data(NODE, RBAC), {"Node", "RBAC"})
    with pytest.raises(ConfigurationError, match=r"missing required types: \[Node RBAC\]"):
        read_authorization_configuration(data(webhook()), {"Node", "RBAC"})
