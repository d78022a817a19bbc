"""Which webhooks are to be asked about a request.

Source of the behaviour: Kubernetes' `apiserver/pkg/admission/plugin/webhook/{generic,predicates}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bayplan.api.errors import not_found_error
from bayplan.api.kinds import Kind
from bayplan.api.selectors.labels import LabelSelector, compile_selector
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionRequest
from bayplan.apiserver.context import Context

if TYPE_CHECKING:
    from bayplan.apiserver.policies.expressions import PolicyExpressions

GROUP = "admissionregistration.k8s.io"
_API_VERSION = f"{GROUP}/v1"
Webhook = types.MutatingWebhook | types.ValidatingWebhook


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One webhook of a configuration."""

    configuration: str
    webhook: Webhook
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: PolicyExpressions | None = None
    """Its `matchConditions`, if it has some."""
    source: core_v1.ObjectReference = field(default_factory=core_v1.ObjectReference)
    """The configuration, as events refer to it."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those of the configuration."""

    @property
    def name(self) -> str:
        """As errors name it."""
        return self.webhook.name

    @property
    def ignores_failures(self) -> bool:
        """Whether a request goes on if the webhook cannot be asked."""
        return self.webhook.failure_policy == "Ignore"


class Hooks:
    """All webhooks of one kind of configuration, in the order in which they are asked."""

    def __init__(self, kind_name: str) -> None:
        self._kind_name = kind_name
        self._made_of = -1
        self._hooks: tuple[Hook, ...] = ()

    def current(self, context: Context) -> Sequence[Hook]:
        """Those of now. Cheap if there are none, or if they did not change."""
        kind = context.kinds.of_kind(_API_VERSION, self._kind_name)
        if kind is None:
            return ()
        cache = context.objects.cache(kind)
        if cache.revision != self._made_of:
            self._hooks = tuple(_hooks(self._kind_name, (cache.shared(entry) for entry in cache.ordered())))
            self._made_of = cache.revision
        return self._hooks


def _hooks(kind_name: str, configurations: Iterator[Any]) -> Iterator[Hook]:
    for one in configurations:
        metadata = one.metadata
        source = core_v1.ObjectReference(kind=kind_name, api_version=_API_VERSION, name=metadata.name, uid=metadata.uid)
        for webhook in one.webhooks:
            conditions = _conditions(webhook) if webhook.match_conditions else None
            namespaces, objects = (
                compile_selector(each or meta_v1.LabelSelector())
                for each in (webhook.namespace_selector, webhook.object_selector)
            )
            yield Hook(metadata.name, webhook, namespaces, objects, conditions, source, metadata.annotations)


def _conditions(webhook: Webhook) -> PolicyExpressions:
    from bayplan.apiserver.policies.expressions import PolicyExpressions  # few webhooks have conditions

    return PolicyExpressions(
        types.ValidatingAdmissionPolicySpec(
            match_conditions=webhook.match_conditions, failure_policy=webhook.failure_policy
        )
    )


def is_exempt(kind: Kind) -> bool:
    """Whether webhooks are never asked about objects of a kind: they could lock everybody out."""
    return kind.group == GROUP


def version_asked(hook: Hook, request: AdmissionRequest) -> Kind | None:
    """The version of the request's kind that a webhook wants to see; None if it is not to be asked. Raises ApiError (404)."""
    kind = _version_ruled(hook, request)
    if kind is None or not _namespace_fits(hook, request) or not _object_fits(hook, request):
        return None
    return kind


def _version_ruled(hook: Hook, request: AdmissionRequest) -> Kind | None:
    """The version by the rules alone, which look at nothing but what is asked for."""
    call = request.call
    rules = hook.webhook.rules
    if any(_matches(rule, call.kind, request) for rule in rules):
        return call.kind
    if hook.webhook.match_policy == "Exact":
        return None
    kinds = [one for one in _equivalent(request) if one is not call.kind]
    return next((kind for rule in rules for kind in kinds if _matches(rule, kind, request)), None)


def _equivalent(request: AdmissionRequest) -> Iterator[Kind]:
    """The same resource in other versions and groups."""
    prefix = request.kind.storage_prefix
    return (one for one in request.call.context.kinds if one.is_stored and one.storage_prefix == prefix)


def _matches(rule: types.RuleWithOperations, kind: Kind, request: AdmissionRequest) -> bool:
    return (
        _has(rule.operations, request.operation)
        and _has(rule.api_groups, kind.group)
        and _has(rule.api_versions, kind.version)
        and _in_scope(rule.scope, kind)
        and any(_is_resource(one, kind.plural, request.subresource) for one in rule.resources)
    )


def _has(items: Sequence[str], wanted: str) -> bool:
    return wanted in items or "*" in items


def _in_scope(scope: str | None, kind: Kind) -> bool:
    return scope in (None, "*") or (scope == "Namespaced") == kind.namespaced


def _is_resource(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, sub = pattern.partition("/")
    return resource in ("*", plural) and sub in ("*", subresource)


def _namespace_fits(hook: Hook, request: AdmissionRequest) -> bool:
    """Objects without namespace fit any selector, namespaces by their own labels."""
    if hook.namespaces.is_everything():
        return True
    kind, call = request.kind, request.call
    if kind.kind == "Namespace" and not kind.group:
        subject = request.obj if request.operation in (CREATE, UPDATE) and not request.subresource else request.old
        labels = subject.metadata.labels if subject is not None else _labels_of_namespace(call.context, request.name)
        return hook.namespaces.matches(labels)
    if not kind.namespaced:
        return True
    return hook.namespaces.matches(_labels_of_namespace(call.context, request.namespace))


def _labels_of_namespace(context: Context, name: str) -> dict[str, str]:
    kind = context.kinds.of_kind("v1", "Namespace")
    entry = context.objects.cache(kind).get("", name) if kind is not None else None
    if entry is None:
        raise not_found_error("namespaces", "", name)
    return entry.labels


def _object_fits(hook: Hook, request: AdmissionRequest) -> bool:
    if hook.objects.is_everything():
        return True
    found = (getattr(one, "metadata", None) for one in (request.obj, request.old))  # options of connections have none
    return any(metadata is not None and hook.objects.matches(metadata.labels) for metadata in found)
