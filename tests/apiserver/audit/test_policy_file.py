"""Files that are no audit policies, and what is said of them."""

from __future__ import annotations

import logging

import pytest

from bayplan.apiserver.audit.policy import Level
from bayplan.apiserver.audit.policy_file import PolicyError, parse_policy

HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
STAGES = "allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(HEAD, "loaded illegal policy with 0 rules", id="no rules"),
        pytest.param(
            HEAD + "rules: [{}]",
            "rules[0].level: Required value",
            id="a rule without a level",
        ),
        pytest.param(
            HEAD + "rules: [{level: Everything}]",
            'rules[0].level: Unsupported value: "Everything": '
            'supported values: "None", "Metadata", "Request", "RequestResponse"',
            id="a level that there is not",
        ),
        pytest.param(
            HEAD + "rules: [{level: None, nonResourceURLs: [logs, /a*/b]}]",
            "[rules[0].nonResourceURLs[0]: Invalid value: \"logs\": non-resource URL rules must begin with a '/' character, "
            'rules[0].nonResourceURLs[1]: Invalid value: "/a*/b": '
            "non-resource URL wildcards '*' must be the final character of the rule]",
            id="paths that are none",
        ),
        pytest.param(
            HEAD + "rules: [{level: None, nonResourceURLs: [/logs], namespaces: [a]}]",
            'rules[0].nonResourceURLs: Invalid value: ["/logs"]: '
            "rules cannot apply to both regular resources and non-resource URLs",
            id="paths and namespaces",
        ),
        pytest.param(
            HEAD + "rules: [{level: None, resources: [{group: rbac.authorization.k8s.io/v1}]}]",
            'rules[0].resources.group: Invalid value: "rbac.authorization.k8s.io/v1": a lowercase RFC 1123 subdomain must '
            "consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            id="a group with its version",
        ),
        pytest.param(
            HEAD + "rules: [{level: None, resources: [{resourceNames: [leader]}]}]",
            'rules[0].resources.resourceNames: Invalid value: ["leader"]: using resourceNames requires at least one resource',
            id="names without a resource",
        ),
        pytest.param(
            HEAD + "omitStages: [Never]\nrules: [{level: None, omitStages: [RequestReceived, Later]}]",
            f'[omitStages[0]: Invalid value: "Never": {STAGES}, rules[0].omitStages[1]: Invalid value: "Later": {STAGES}]',
            id="stages that there are not",
        ),
        pytest.param(
            HEAD + "rules: [{level: None, users: admin}]",
            "failed decoding: json: cannot unmarshal string into Go struct field PolicyRule.rules.users of type []string",
            id="a text for a list",
        ),
        pytest.param(
            HEAD + "rules: [{level: None, resources: [{group: [a]}]}]",
            "failed decoding: json: cannot unmarshal array into Go struct field GroupResources.rules.resources.group of type string",
            id="a list for a text",
        ),
        pytest.param(
            HEAD + "rules: none",
            "failed decoding: json: cannot unmarshal string into Go struct field Policy.rules of type []v1.PolicyRule",
            id="a text for rules",
        ),
        pytest.param(
            "kind: Policy\n",
            "failed decoding: Object 'apiVersion' is missing in 'kind: Policy\n'",
            id="no version",
        ),
        pytest.param(
            "apiVersion: audit.k8s.io/v1\n",
            "failed decoding: Object 'Kind' is missing in 'apiVersion: audit.k8s.io/v1\n'",
            id="no kind",
        ),
        pytest.param("", "failed decoding: Object 'Kind' is missing in ''", id="nothing"),
        pytest.param(
            "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]",
            'failed decoding: no kind "Policy" is registered for version "audit.k8s.io/v1beta1" '
            'in scheme "k8s.io/apiserver/pkg/audit/scheme.go:30"',
            id="an old version",
        ),
        pytest.param("rules: [", "failed decoding: yaml: line 1: did not find expected node content", id="no YAML"),
    ],
)
def test_a_bad_policy_is_refused(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        parse_policy(text.encode())
    assert str(refused.value) == message


def test_what_nobody_knows_is_told_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    text = HEAD + "rules:\n- level: Metadata\n  user: [a]\n  level: Request\nmore: 1\n"
    with caplog.at_level(logging.WARNING):
        found = parse_policy(text.encode())
    assert found.rules[0].decision.level is Level.REQUEST
    assert caplog.messages == [
        "Audit policy contains errors, falling back to lenient decoding: strict decoding error: "
        'line 6: key "level" already set in map, unknown field "more", unknown field "rules[0].user"'
    ]


def test_json_and_metadata_are_fine() -> None:
    tree = b'{"apiVersion":"audit.k8s.io/v1","kind":"Policy","metadata":{"name":"p"},"rules":[{"level":"None","users":null}]}'
    assert parse_policy(tree).rules[0].decision.level is Level.NONE
