"""Policies with their bindings, and the parameters with which they are evaluated: the same for both kinds of policies.

Source: `k8s.io/apiserver/pkg/admission/plugin/policy/generic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.selectors.labels import compile_selector
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import meta_v1
from bayplan.apiserver.admission.chain import AdmissionRequest
from bayplan.apiserver.context import Context
from bayplan.apiserver.policies.expressions import PolicyExpressions, Spec
from bayplan.apiserver.policies.inputs import parameter_of
from bayplan.apiserver.policies.matching import Criteria
from bayplan.apiserver.reads.cache import ResourceCache

_API_VERSION = "admissionregistration.k8s.io/v1"
_SCALE = "scale"
Compiled = TypeVar("Compiled", bound=PolicyExpressions)
BindingSpec = types.ValidatingAdmissionPolicyBindingSpec | types.MutatingAdmissionPolicyBindingSpec


class MisconfiguredError(Exception):
    """A policy or binding cannot be applied."""


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """What puts a policy in force."""

    name: str
    spec: Any
    criteria: Criteria


@dataclass(frozen=True, slots=True, eq=False)
class Policy(Generic[Compiled]):
    """A policy in force."""

    name: str
    spec: Any
    criteria: Criteria
    compiled: Compiled
    bindings: Sequence[Binding]


@dataclass(frozen=True, slots=True, eq=False)
class Invocation:
    """One evaluation of a policy: for a binding and one of its parameters. Or, with a problem, why there is none."""

    binding: Binding | None
    kind: Kind | None = None
    """The version of the request's kind that the policy wants to see."""
    param: Any = None
    problem: str = ""


class ActivePolicies(Generic[Compiled]):
    """The policies of one kind."""

    def __init__(self, kind_name: str, compile_spec: Callable[[Any], Compiled]) -> None:
        self._kind_name = kind_name
        self._compile = compile_spec
        self._made_of = (-1, -1)
        self._policies: tuple[Policy[Compiled], ...] = ()
        self._compiled: dict[tuple[str, int], Compiled] = {}
        """By UID and generation."""

    def current(self, context: Context) -> Sequence[Policy[Compiled]]:
        """Policies with bindings. Cheap if they did not change."""
        caches = self._caches(context)
        if caches is None:
            return ()
        policies, bindings = caches
        made_of = (policies.revision, bindings.revision)
        if made_of != self._made_of:
            bound: dict[str, list[Binding]] = {}
            for entry in bindings.ordered():
                one = bindings.shared(entry)
                criteria = Criteria.of(one.spec.match_resources or types.MatchResources())
                bound.setdefault(one.spec.policy_name, []).append(Binding(one.metadata.name, one.spec, criteria))
            self._policies = tuple(self._made((policies.shared(entry) for entry in policies.ordered()), bound))
            self._made_of = made_of
        return self._policies

    def _caches(self, context: Context) -> tuple[ResourceCache, ResourceCache] | None:
        """Those of policies and bindings; None if the kinds are not served."""
        policy, binding = (
            context.kinds.of_kind(_API_VERSION, name) for name in (self._kind_name, f"{self._kind_name}Binding")
        )
        if policy is None or binding is None:
            return None
        return context.objects.cache(policy), context.objects.cache(binding)

    def _made(self, policies: Iterator[Any], bound: dict[str, list[Binding]]) -> Iterator[Policy[Compiled]]:
        kept: dict[tuple[str, int], Compiled] = {}
        for one in policies:
            bindings = bound.get(one.metadata.name)
            if not bindings:
                continue
            key = (one.metadata.uid, one.metadata.generation)
            kept[key] = self._compiled.get(key) or self._compile(one.spec)
            criteria = Criteria.of(one.spec.match_constraints or types.MatchResources())
            yield Policy(one.metadata.name, one.spec, criteria, kept[key], bindings)
        self._compiled = kept


def invocations(policy: Policy[Any], request: AdmissionRequest) -> Iterator[Invocation]:
    """The evaluations of a policy that a request calls for; problems are left out if its failures do not matter."""
    for one in _invocations(policy, request):
        if not one.problem or not policy.compiled.ignores_failures:
            yield one


def _invocations(policy: Policy[Any], request: AdmissionRequest) -> Iterator[Invocation]:
    try:
        kind = _version(policy.criteria, request)
        if kind is None:
            return
        params_kind = _params_kind(policy.spec, request.call.context)
    except MisconfiguredError as error:
        yield Invocation(None, problem=f"failed to configure policy: {error}")
        return
    for binding in policy.bindings:
        try:
            if _version(binding.criteria, request) is None:
                continue
            params = _params(binding.spec, params_kind, request)
        except MisconfiguredError as error:
            yield Invocation(binding, problem=f"failed to configure binding: {error}")
            continue
        yield from (Invocation(binding, kind, param) for param in params)


def _version(criteria: Criteria, request: AdmissionRequest) -> Kind | None:
    try:
        return criteria.version_for(request)
    except ApiError as error:
        raise MisconfiguredError(error.status.message) from error


def _params_kind(spec: Spec, context: Context) -> Kind | None:
    """The kind of a policy's parameters; None if it has none."""
    wanted = spec.param_kind
    if wanted is None:
        return None
    found = context.kinds.of_kind(wanted.api_version, wanted.kind)
    if found is None:
        group, _, version = wanted.api_version.rpartition("/")
        shown = f"{group}/{version}, Kind={wanted.kind}"
        raise MisconfiguredError(f"failed to find resource referenced by paramKind: '{shown}'")
    return found


def _params(spec: BindingSpec, kind: Kind | None, request: AdmissionRequest) -> list[Any]:
    """The parameters with which a policy is evaluated, once for each; without any there is one evaluation with null."""
    reference = spec.param_ref
    if kind is None or reference is None:
        return [None]
    if kind.namespaced:
        namespace = reference.namespace or request.namespace
        if not namespace:
            text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise MisconfiguredError(text)
    elif reference.namespace:
        raise MisconfiguredError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    else:
        namespace = ""
    context = request.call.context
    cache = context.objects.cache(context.kinds.storage_kind(kind))
    if reference.name:
        one = cache.get(namespace, reference.name)
        entries = [] if one is None else [one]
    else:
        selector = compile_selector(reference.selector or meta_v1.LabelSelector())
        entries = [entry for entry in cache.ordered(namespace) if selector.matches(entry.labels)]
    if not entries and reference.parameter_not_found_action == "Deny":
        raise MisconfiguredError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [parameter_of(request.call, cache.shared(entry), kind) for entry in entries]


def as_seen(request: AdmissionRequest) -> AdmissionRequest:
    """A request as policies see it: a change of the number of replicas is one of a Scale, not of the workload."""
    asked = request.call.path.subresource
    if asked is None or asked.name != _SCALE or request.subresource:
        return request
    from bayplan.apiserver.subresources.scale import scale_of  # it imports the verbs, which admission is a part of

    new, old = scale_of(request.kind, request.obj), scale_of(request.kind, request.old)
    for one in (new, old):
        one.kind, one.api_version = "Scale", "autoscaling/v1"
    return AdmissionRequest(request.call, request.operation, new, old, _SCALE)
