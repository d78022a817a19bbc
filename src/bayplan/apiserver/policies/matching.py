"""Which policies and bindings are about a request, by the rules that webhooks have too, and by names.

Source: `k8s.io/apiserver/pkg/admission/plugin/policy/matching`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.api.kinds import Kind
from bayplan.api.selectors.labels import LabelSelector, compile_selector
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import meta_v1
from bayplan.apiserver.admission.chain import AdmissionRequest
from bayplan.apiserver.webhooks.matching import GROUP, Hook, version_asked

_POLICIES = frozenset(
    (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    )
)
_ANYTHING = types.NamedRuleWithOperations(
    operations=("*",), api_groups=("*",), api_versions=("*",), resources=("*", "*/*")
)
_EVERYTHING = compile_selector(meta_v1.LabelSelector())


def is_exempt(kind: Kind) -> bool:
    """Whether policies are never about objects of a kind: they could lock everybody out."""
    return kind.group == GROUP and kind.kind in _POLICIES


@dataclass(frozen=True, slots=True, eq=False)
class Criteria:
    """What a policy or binding is about."""

    rules: Sequence[types.NamedRuleWithOperations]
    excluded: Sequence[types.NamedRuleWithOperations]
    match_policy: str | None
    namespaces: LabelSelector
    objects: LabelSelector

    @classmethod
    def of(cls, resources: types.MatchResources) -> Criteria:
        """Those of an object of the API."""
        namespaces = compile_selector(resources.namespace_selector or meta_v1.LabelSelector())
        objects = compile_selector(resources.object_selector or meta_v1.LabelSelector())
        rules = resources.resource_rules or (_ANYTHING,)
        return cls(rules, resources.exclude_resource_rules, resources.match_policy, namespaces, objects)

    def version_for(self, request: AdmissionRequest) -> Kind | None:
        """The version of the request's kind that is meant; None if the request is not. Raises ApiError for a namespace that is gone."""
        if self.excluded and self._version(request, self.excluded, _EVERYTHING, _EVERYTHING) is not None:
            return None
        return self._version(request, self.rules, self.namespaces, self.objects)

    def _version(
        self,
        request: AdmissionRequest,
        rules: Sequence[types.NamedRuleWithOperations],
        namespaces: LabelSelector,
        objects: LabelSelector,
    ) -> Kind | None:
        named = tuple(
            types.RuleWithOperations(
                operations=one.operations,
                api_groups=one.api_groups,
                api_versions=one.api_versions,
                resources=one.resources,
                scope=one.scope,
            )
            for one in rules
            if not one.resource_names or request.object_name in one.resource_names
        )
        if not named:
            return None
        webhook = types.ValidatingWebhook(rules=named, match_policy=self.match_policy)
        return version_asked(Hook("", webhook, namespaces, objects), request)
