"""Conditions under which an authorization webhook is asked, in CEL over the access review that it would get. Pure.

Source: `k8s.io/apiserver/pkg/authorization/cel`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bayplan.api.cel.checker import Environment
from bayplan.api.cel.types import BOOL, STRING, list_of, map_of, struct
from bayplan.api.cel.values import from_json
from bayplan.apiserver.authorization.rbac import aggregate
from bayplan.apiserver.configuration.expressions import Expression, ExpressionError

_SPEC: Final = "kubernetes.SubjectAccessReviewSpec"
_RESOURCE: Final = "kubernetes.ResourceAttributes"
_OTHER: Final = "kubernetes.NonResourceAttributes"
_FIELDS: Final = "kubernetes.FieldSelectorAttributes"
_LABELS: Final = "kubernetes.LabelSelectorAttributes"
_REQUIREMENT: Final = "kubernetes.SelectorRequirement"
_TEXTS: Final = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_SELECTOR: Final = {"rawSelector": STRING, "requirements": list_of(struct(_REQUIREMENT))}
_REVIEW: Final = Environment(
    {"request": struct(_SPEC)},
    {
        _SPEC: {
            "resourceAttributes": struct(_RESOURCE),
            "nonResourceAttributes": struct(_OTHER),
            "user": STRING,
            "groups": list_of(STRING),
            "extra": map_of(STRING, list_of(STRING)),
            "uid": STRING,
        },
        _RESOURCE: {
            **dict.fromkeys(_TEXTS, STRING),
            "fieldSelector": struct(_FIELDS),
            "labelSelector": struct(_LABELS),
        },
        _OTHER: {"path": STRING, "verb": STRING},
        _FIELDS: _SELECTOR,
        _LABELS: _SELECTOR,
        _REQUIREMENT: {"key": STRING, "operator": STRING, "values": list_of(STRING)},
    },
)


class ConditionError(ValueError):
    """It is not known whether a webhook is to be asked."""


def compiled(text: str) -> Expression:
    """A condition. Raises CompilationError."""
    return Expression(text, _REVIEW, BOOL, says_what_it_is=True)


def match(conditions: Sequence[Expression], spec: Mapping[str, Any]) -> bool:
    """Whether all conditions are true of a review's spec (version v1). One that is false settles it; errors do not matter then. Raises ConditionError."""
    request = from_json(_seen(spec))
    errors = []
    for one in conditions:
        try:
            found = one.evaluate(request=request)
        except ExpressionError as error:
            errors.append(f"cel evaluation error: {error}")
            continue
        if found is False:
            return False
    if errors:
        raise ConditionError(aggregate(errors))
    return True


def _seen(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as conditions see it: all texts are there, also empty ones."""
    seen: dict[str, Any] = {
        "user": spec.get("user", ""),
        "uid": spec.get("uid", ""),
        "groups": list(spec.get("groups") or ()),
        "extra": {key: list(values) for key, values in (spec.get("extra") or {}).items()},
    }
    if (resource := spec.get("resourceAttributes")) is not None:
        seen["resourceAttributes"] = {**dict.fromkeys(_TEXTS, ""), **resource}
    if (other := spec.get("nonResourceAttributes")) is not None:
        seen["nonResourceAttributes"] = {"path": "", "verb": "", **other}
    return seen
