"""What requests are about."""

from __future__ import annotations

import pytest

from bayplan.apiserver.authorization.attributes import attributes_of
from bayplan.apiserver.requests import Request, User

CASES = [
    ("GET", "/api/v1/namespaces/a/pods/p", {}, ("get", "", "pods", "", "a", "p")),
    ("HEAD", "/api/v1/namespaces/a/pods", {}, ("list", "", "pods", "", "a", "")),
    ("GET", "/api/v1/pods", {"watch": "true"}, ("watch", "", "pods", "", "", "")),
    ("GET", "/api/v1/pods", {"watch": "0"}, ("list", "", "pods", "", "", "")),
    ("GET", "/api/v1/watch/namespaces/a/pods/p", {}, ("watch", "", "pods", "", "a", "p")),
    ("GET", "/api/v1/namespaces/a", {}, ("get", "", "namespaces", "", "a", "a")),
    ("PUT", "/api/v1/namespaces/a/status", {}, ("update", "", "namespaces", "status", "a", "a")),
    ("POST", "/api/v1/namespaces/a/pods/p/binding", {}, ("create", "", "pods", "binding", "a", "p")),
    ("DELETE", "/apis/apps/v1/namespaces/a/deployments", {}, ("deletecollection", "apps", "deployments", "", "a", "")),
    ("GET", "/api/v1/secrets", {"fieldSelector": "metadata.name=x"}, ("list", "", "secrets", "", "", "x")),
    ("GET", "/api/v1/secrets", {"fieldSelector": "metadata.name!=x"}, ("list", "", "secrets", "", "", "")),
    ("GET", "/apis/no.such/v1/things", {}, ("list", "no.such", "things", "", "", "")),
]


@pytest.mark.parametrize(("method", "path", "query", "expected"), CASES)
def test_resource_requests(method: str, path: str, query: dict[str, str], expected: tuple[str, ...]) -> None:
    found = attributes_of(Request(method, path, query, User("u")))
    assert found.is_resource
    assert (found.verb, found.group, found.resource, found.subresource, found.namespace, found.name) == expected


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/healthz/ping"])
def test_other_paths_have_the_method_as_verb(path: str) -> None:
    found = attributes_of(Request("GET", path, {}, User("u")))
    assert (found.is_resource, found.verb, found.path) == (False, "get", path)


def test_a_refusal_says_who_may_not_do_what() -> None:
    error = attributes_of(Request("GET", "/apis/apps/v1/deployments", {}, User("a<b"))).refused("why")
    assert error.code == 403
    assert error.message == (
        'deployments.apps is forbidden: User "a&lt;b" cannot list resource "deployments" in API group "apps" '
        "at the cluster scope: why"
    )
