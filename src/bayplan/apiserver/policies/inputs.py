"""What the expressions of a policy see: the object before and after, the request, its namespace, parameters, and who may be asked about permissions.

Source: `k8s.io/apiserver/pkg/admission/plugin/cel`, condition.go and activation.go.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.cel.functions.authorization import AuthorizerValue, Decision, Question, ResourceCheck
from bayplan.api.cel.values import from_json
from bayplan.api.codec import to_tree
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import AdmissionRequest
from bayplan.apiserver.admission.seen import in_version, resource_of
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import User
from bayplan.apiserver.webhooks.reviews import Tree

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_SERVICE_ACCOUNTS = "system:serviceaccounts"


def bindings_of(request: AdmissionRequest, kind: Kind) -> dict[str, Any]:
    """The variables of a request in the version that a policy wants, all but `params`."""
    authorizer = _authorizer(request)
    about = Question(
        group=kind.group,
        resource=kind.plural,
        subresource=request.subresource,
        namespace=request.namespace,
        name=request.object_name,
    )
    return {
        "authorizer": authorizer,
        "authorizer.requestResource": ResourceCheck(authorizer.answer, about),
        "namespaceObject": from_json(_namespace_tree(request)),
        "object": from_json(in_version(request, request.obj, kind)),
        "oldObject": from_json(in_version(request, request.old, kind)),
        "request": from_json(_request_tree(request, kind)),
    }


def parameter_of(call: Call, obj: Any, kind: Kind) -> Any:
    """An object of parameters as `params`, in the version that the policy names."""
    stored = type(obj).row if kind.asks_webhook else call.context.kinds.storage_kind(kind)
    served = obj if kind is stored else call.convert(obj, stored, kind)
    return from_json({"kind": kind.kind, "apiVersion": kind.api_version, **to_tree(served)})


def _authorizer(request: AdmissionRequest) -> AuthorizerValue:
    """Answers by the authorizers of the server, for who sent the request unless a service account is meant."""
    call = request.call

    def answer(question: Question) -> Decision:
        user = call.request.user
        if question.service_account is not None:
            namespace, name = question.service_account
            groups = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{namespace}", "system:authenticated")
            user = User(f"system:serviceaccount:{namespace}:{name}", groups)
        verdict = call.context.authorizer.authorize(_attributes(user, question))
        return Decision(verdict.allowed, verdict.reason)

    return AuthorizerValue(answer)


def _attributes(user: User, question: Question) -> Attributes:
    if question.path:
        return Attributes(user, question.verb, path=question.path, is_resource=False)
    return Attributes(
        user,
        question.verb,
        group=question.group,
        version="*",
        resource=question.resource,
        subresource=question.subresource,
        namespace=question.namespace,
        name=question.name,
        field_selector=question.field_selector,
        label_selector=question.label_selector,
    )


def _namespace_tree(request: AdmissionRequest) -> Tree | None:
    """The namespace of what the request is about; None if it has none, or is one."""
    if not request.namespace or (request.kind.kind == "Namespace" and not request.kind.group):
        return None
    namespace = request.call.context.find("Namespace", "", request.namespace)
    if namespace is None:
        return None
    tree: Tree = to_tree(namespace)
    tree["metadata"] = {name: value for name, value in tree["metadata"].items() if name != "managedFields"}
    return tree


def _request_tree(request: AdmissionRequest, kind: Kind) -> Tree:
    """The request as an AdmissionRequest shows it, without the objects."""
    call = request.call
    user = call.request.user
    requested, seen = resource_of(request, call.kind), resource_of(request, kind)
    namespace = request.object_name if kind.kind == "Namespace" and not kind.group else request.namespace
    tree: Tree = {
        "uid": "",
        "kind": seen.kind_tree(),
        "resource": seen.resource_tree(),
        "requestKind": requested.kind_tree(),
        "requestResource": requested.resource_tree(),
        "operation": request.operation,
        "userInfo": {"username": user.name, "uid": user.uid, "groups": list(user.groups)},
        "dryRun": call.dry_run,
        "options": {"kind": _OPTIONS.get(request.operation, "CreateOptions"), "apiVersion": "meta.k8s.io/v1"},
    }
    if user.extra:
        tree["userInfo"]["extra"] = {key: list(values) for key, values in user.extra.items()}
    for name, value in (
        ("name", request.object_name),
        ("namespace", namespace),
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
    ):
        if value:
            tree[name] = value
    return tree
