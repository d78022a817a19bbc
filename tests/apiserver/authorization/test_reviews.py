"""Questions about permissions."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from tests.apiserver.authorization.roles import CAROL, NODE, binding, role, rule, run, subject
from tests.apiserver.serving import ADMIN

PATH = "/apis/authorization.k8s.io/v1"
PODS = {"namespace": "default", "verb": "get", "resource": "pods"}


async def post(api: ApiServer, path: str, spec: object, user: User = ADMIN) -> tuple[int, dict[str, dict[str, object]]]:
    """A review as it is answered."""
    body = msgspec.json.encode({"spec": spec})
    answer = await api.handle(Request("POST", f"{PATH}/{path}", {}, user, body, "application/json"))
    return answer.code, msgspec.json.decode(answer.body)


def test_a_review_says_whether_and_why() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(role("reader", rule("get", "pods")))
        await admin.create(binding("reader", subject("User", "carol")))
        spec = {"resourceAttributes": PODS, "user": "carol"}
        _, found = await post(api, "subjectaccessreviews", spec)
        assert found["status"] == {
            "allowed": True,
            "reason": 'RBAC: allowed by RoleBinding "reader/default" of Role "reader" to User "carol"',
        }
        _, found = await post(api, "namespaces/default/localsubjectaccessreviews", {**spec, "user": "alice"})
        assert found["status"] == {"allowed": False}

    run(case)


@pytest.mark.parametrize(
    ("path", "spec", "field"),
    [
        ("subjectaccessreviews", {"resourceAttributes": PODS}, "spec.user"),
        ("selfsubjectaccessreviews", {}, "spec.resourceAttributes"),
        (
            "selfsubjectaccessreviews",
            {"resourceAttributes": {**PODS, "labelSelector": {}}},
            "spec.resourceAttributes.labelSelector.requirements",
        ),
        (
            "namespaces/other/localsubjectaccessreviews",
            {"resourceAttributes": PODS, "user": "u"},
            "spec.resourceAttributes.namespace",
        ),
    ],
)
def test_questions_that_make_no_sense_are_refused(path: str, spec: object, field: str) -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        code, found = await post(api, path, spec)
        assert code == 422
        causes = found["details"]["causes"]
        assert isinstance(causes, list)
        assert [cause["field"] for cause in causes] == [field]

    run(case)


def test_a_namespace_of_a_review_that_has_none_is_forgotten() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        review = {"metadata": {"namespace": "other"}, "spec": {"resourceAttributes": PODS}}
        body = msgspec.json.encode(review)
        answer = await api.handle(
            Request("POST", f"{PATH}/selfsubjectaccessreviews", {}, ADMIN, body, "application/json")
        )
        assert answer.code == 201
        assert "namespace" not in msgspec.json.decode(answer.body)["metadata"]

    run(case)


def test_rules_of_a_user_are_listed_and_nodes_are_told_that_there_is_more() -> None:
    async def case(api: ApiServer, admin: Client) -> None:
        await admin.create(role("reader", rule("get", "pods", names="a")))
        await admin.create(binding("reader", subject("User", "carol")))
        _, found = await post(api, "selfsubjectrulesreviews", {"namespace": "default"}, CAROL)
        rules = found["status"]["resourceRules"]
        assert isinstance(rules, list)
        assert {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]} in rules
        assert found["status"]["incomplete"] is False
        _, found = await post(api, "selfsubjectrulesreviews", {"namespace": "default"}, NODE)
        assert found["status"]["incomplete"] is True

    run(case)
