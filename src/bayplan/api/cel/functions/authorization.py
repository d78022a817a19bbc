"""Questions about permissions: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

What is allowed is not known here: who evaluates an expression gives an `AuthorizerValue` with a function that answers. Source:
`k8s.io/apiserver/pkg/cel/library/authz.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bayplan.api.cel.functions.registry import STRING, Table
from bayplan.api.cel.values import EvaluationError, Opaque, no_such_overload
from bayplan.api.validation.values.formats import dns_label, dns_subdomain

TABLE = Table()


@dataclass(frozen=True, slots=True)
class Question:
    """May somebody do something?"""

    service_account: tuple[str, str] | None = None
    """Namespace and name of who is meant; None is who sent the request."""
    path: str = ""
    """Of what is no resource; empty for resources."""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    verb: str = ""


class _Same(Opaque):
    """Values that are equal only if they are the same."""

    __slots__ = ()

    def equals(self, other: Any) -> bool:
        """Whether this is the same value. Raises EvaluationError for one of another type."""
        if type(other) is not type(self):
            raise no_such_overload()
        return self is other


@dataclass(frozen=True, slots=True, eq=False)
class Decision(_Same):
    """An answer."""

    type_name = "kubernetes.authorization.Decision"
    is_allowed: bool
    reason: str = ""
    error: str = ""


Answer = Callable[[Question], Decision]


@dataclass(frozen=True, slots=True, eq=False)
class AuthorizerValue(_Same):
    """Who answers, and for whom."""

    type_name = "kubernetes.authorization.Authorizer"
    answer: Answer
    question: Question = Question()


@dataclass(frozen=True, slots=True, eq=False)
class PathCheck(_Same):
    """A question about a path."""

    type_name = "kubernetes.authorization.PathCheck"
    answer: Answer
    question: Question


@dataclass(frozen=True, slots=True, eq=False)
class GroupCheck(_Same):
    """The beginning of a question about a resource."""

    type_name = "kubernetes.authorization.GroupCheck"
    answer: Answer
    question: Question


@dataclass(frozen=True, slots=True, eq=False)
class ResourceCheck(_Same):
    """A question about a resource."""

    type_name = "kubernetes.authorization.ResourceCheck"
    answer: Answer
    question: Question


@TABLE.member("path", AuthorizerValue, STRING)
def _path(value: AuthorizerValue, path: str) -> PathCheck:
    if not path:
        raise EvaluationError("path must not be empty")
    return PathCheck(value.answer, replace(value.question, path=path))


@TABLE.member("group", AuthorizerValue, STRING)
def _group(value: AuthorizerValue, group: str) -> GroupCheck:
    return GroupCheck(value.answer, replace(value.question, group=group))


@TABLE.member("serviceAccount", AuthorizerValue, STRING, STRING)
def _service_account(value: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if dns_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if dns_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return AuthorizerValue(value.answer, replace(value.question, service_account=(namespace, name)))


@TABLE.member("resource", GroupCheck, STRING)
def _resource(value: GroupCheck, resource: str) -> ResourceCheck:
    if not resource:
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(value.answer, replace(value.question, resource=resource))


def _add_detail(function: str, field: str) -> None:
    def detailed(value: ResourceCheck, text: str) -> ResourceCheck:
        detail: dict[str, Any] = {field: text}
        return ResourceCheck(value.answer, replace(value.question, **detail))

    TABLE.add(function, (ResourceCheck, STRING), detailed, member=True)


for _function, _field in (
    ("subresource", "subresource"),
    ("namespace", "namespace"),
    ("name", "name"),
    ("fieldSelector", "field_selector"),
    ("labelSelector", "label_selector"),
):
    _add_detail(_function, _field)


def _check(value: PathCheck | ResourceCheck, verb: str) -> Decision:
    return value.answer(replace(value.question, verb=verb))


TABLE.add("check", (PathCheck, STRING), _check, member=True)
TABLE.add("check", (ResourceCheck, STRING), _check, member=True)


@TABLE.member("allowed", Decision)
def _allowed(value: Decision) -> bool:
    return value.is_allowed


@TABLE.member("reason", Decision)
def _reason(value: Decision) -> str:
    return value.reason


@TABLE.member("errored", Decision)
def _errored(value: Decision) -> bool:
    return bool(value.error)


@TABLE.member("error", Decision)
def _error(value: Decision) -> str:
    return value.error
