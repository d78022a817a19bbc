"""Affinity rules that hold while a pod runs: where they stand in a pod, and what they say together with the rules of Kubernetes.

    spec.affinity.*.requiredDuringSchedulingRequiredDuringExecution     fields, served with the feature gate AffinityDuringExecution
    spec.affinity.*.preferredDuringSchedulingRequiredDuringExecution
    bayplan.dev/affinity-during-execution: {"nodeAffinity": {...}}      the same as JSON, for API servers that drop the fields
    bayplan.dev/affinity-eviction-grace: 60 or podAffinity=60,...       seconds for which a broken rule is put up with

`with_annotation_rules` turns the annotation into the fields, so that everything else looks at the fields alone. Pure.

Source of the behaviour: KEP-4328, and the comments on these fields in Kubernetes' API types since 1.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from bayplan.api.types import core_v1
from bayplan.support.memory.memo import memoized

ANNOTATION: Final = "bayplan.dev/affinity-during-execution"
GRACE: Final = "bayplan.dev/affinity-eviction-grace"
REQUIRED: Final = "requiredDuringSchedulingRequiredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingRequiredDuringExecution"
MOST_COMBINATIONS: Final = 1024
"""Terms of one required node selector times those of the other: a node has to match one of each, and all pairs are looked at."""
KINDS: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")

_FIELDS: Final = (
    "required_during_scheduling_required_during_execution",
    "preferred_during_scheduling_required_during_execution",
)
_OTHER_FIELDS: Final = (
    "required_during_scheduling_ignored_during_execution",
    "preferred_during_scheduling_ignored_during_execution",
)
_PARTS: Final = ("node_affinity", "pod_affinity", "pod_anti_affinity")
PodRules = core_v1.PodAffinity | core_v1.PodAntiAffinity


class RuleError(ValueError):
    """An annotation that cannot be read; the message names it and says why."""


def required_node_selector(rules: core_v1.NodeAffinity | None) -> core_v1.NodeSelector | None:
    """What a node has to match when a pod is scheduled, by rules of both kinds; None for nothing."""
    if rules is None:
        return None
    one = rules.required_during_scheduling_ignored_during_execution
    other = rules.required_during_scheduling_required_during_execution
    if one is None or other is None:
        return other if one is None else one
    return core_v1.NodeSelector(
        node_selector_terms=tuple(
            core_v1.NodeSelectorTerm(
                match_expressions=(*left.match_expressions, *right.match_expressions),
                match_fields=(*left.match_fields, *right.match_fields),
            )
            for left in one.node_selector_terms
            for right in other.node_selector_terms
            if not (_is_empty(left) or _is_empty(right))  # an empty term matches no node
        )
    )


def combinations(*rules: core_v1.NodeAffinity | None) -> int:
    """How many combinations of terms the required node selectors of some rules have, all of which have to match."""
    selectors = [
        selector
        for one in rules
        if one is not None
        for selector in (
            one.required_during_scheduling_ignored_during_execution,
            one.required_during_scheduling_required_during_execution,
        )
        if selector is not None
    ]
    return math.prod(len(selector.node_selector_terms) for selector in selectors) if len(selectors) > 1 else 0


def _is_empty(term: core_v1.NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def preferred_node_terms(rules: core_v1.NodeAffinity | None) -> tuple[core_v1.PreferredSchedulingTerm, ...]:
    """What nodes are preferred by, by rules of both kinds."""
    if rules is None:
        return ()
    preferred = rules.preferred_during_scheduling_ignored_during_execution
    more = rules.preferred_during_scheduling_required_during_execution
    return (*preferred, *more) if more else preferred


def required_pod_terms(rules: PodRules | None) -> tuple[core_v1.PodAffinityTerm, ...]:
    """What is required of the pods near a pod when it is scheduled, by rules of both kinds."""
    if rules is None:
        return ()
    required = rules.required_during_scheduling_ignored_during_execution
    more = rules.required_during_scheduling_required_during_execution
    return (*required, *more) if more else required


def preferred_pod_terms(rules: PodRules | None) -> tuple[core_v1.WeightedPodAffinityTerm, ...]:
    """What is preferred of the pods near a pod, by rules of both kinds."""
    if rules is None:
        return ()
    preferred = rules.preferred_during_scheduling_ignored_during_execution
    more = rules.preferred_during_scheduling_required_during_execution
    return (*preferred, *more) if more else preferred


def has_rules(affinity: core_v1.Affinity | None) -> bool:
    """Whether an affinity has a rule that holds while the pod runs."""
    return affinity is not None and any(
        getattr(part, name)
        for part in (affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity)
        if part is not None
        for name in _FIELDS
    )


def kept_rules(new: core_v1.Affinity | None, old: core_v1.Affinity | None) -> core_v1.Affinity | None:
    """A pod's new affinity with the rules of the old one that a client left out which does not know the fields.

    Rules cannot be taken from a pod, so what is missing was not meant to go.
    """
    if new is None or old is None or not has_rules(old):
        return new
    changes = {}
    for name in _PARTS:
        before, after = getattr(old, name), getattr(new, name)
        if before is None or after is None or any(getattr(after, field) for field in _FIELDS):
            continue
        changes[name] = msgspec.structs.replace(after, **{field: getattr(before, field) for field in _FIELDS})
    return msgspec.structs.replace(new, **changes)


# Annotations


@memoized(1024)
def rules_in(text: str) -> core_v1.Affinity:
    """The rules that an annotation states. Raises RuleError."""
    try:
        found = msgspec.json.decode(text, type=core_v1.Affinity)
    except msgspec.DecodeError as error:
        raise RuleError(f"{ANNOTATION}: {error}") from None
    for name, part in zip(KINDS, (found.node_affinity, found.pod_affinity, found.pod_anti_affinity), strict=True):
        if part is not None and any(getattr(part, field) for field in _OTHER_FIELDS):
            raise RuleError(f"{ANNOTATION}: {name}: only {REQUIRED} and {PREFERRED} may stand here")
    if not has_rules(found):
        raise RuleError(f"{ANNOTATION}: states no rule; give {', '.join(KINDS)} with {REQUIRED} or {PREFERRED}")
    if problem := _first_error(found):
        raise RuleError(f"{ANNOTATION}: {problem}")
    return found


def _first_error(affinity: core_v1.Affinity) -> str:
    from bayplan.api.validation.pods.scheduling import check_affinity  # which imports this module

    errors: list[object] = []
    check_affinity(errors, "affinity", affinity)  # type: ignore[arg-type]
    if errors:
        return str(errors[0])
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity):
        preferred = (one.pod_affinity_term for one in preferred_pod_terms(part))
        if any(term.match_label_keys or term.mismatch_label_keys for term in (*required_pod_terms(part), *preferred)):
            return "matchLabelKeys and mismatchLabelKeys have no effect here; write the values into the labelSelector"
    return ""


def annotation_errors(annotations: Mapping[str, str]) -> list[str]:
    """What is wrong with the annotations of a pod or a template that this module reads."""
    found = []
    for name, read in ((ANNOTATION, rules_in), (GRACE, graces_in)):
        if name in annotations:
            try:
                read(annotations[name])
            except RuleError as error:
                found.append(str(error))
    return found


def with_annotation_spec(spec: core_v1.PodSpec, annotations: Mapping[str, str]) -> core_v1.PodSpec:
    """A spec with the rules of the annotation among those of the fields; unchanged if there is none that can be read."""
    text = annotations.get(ANNOTATION)
    if text is None:
        return spec
    try:
        stated = rules_in(text)
    except RuleError:
        return spec
    own = spec.affinity or core_v1.Affinity()
    if combinations(own.node_affinity, stated.node_affinity) > MOST_COMBINATIONS:
        return spec
    changes = {name: _both(getattr(own, name), getattr(stated, name)) for name in _PARTS}
    return msgspec.structs.replace(spec, affinity=msgspec.structs.replace(own, **changes))


def with_annotation_rules(pod: core_v1.Pod) -> core_v1.Pod:
    """A pod with the rules of its annotation among those of the fields; the pod itself if there is none that can be read."""
    if ANNOTATION not in pod.metadata.annotations:
        return pod
    spec = with_annotation_spec(pod.spec, pod.metadata.annotations)
    return pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)


def _both(own: object, stated: object) -> object:
    """One part of an affinity with the rules of both; of two required node selectors both have to match."""
    if own is None or stated is None:
        return stated if own is None else own
    changes: dict[str, object] = {}
    for name in _FIELDS:
        left, right = getattr(own, name), getattr(stated, name)
        if isinstance(left, tuple):
            changes[name] = (*left, *right)
        else:
            both = core_v1.NodeAffinity(
                required_during_scheduling_ignored_during_execution=left,
                required_during_scheduling_required_during_execution=right,
            )
            changes[name] = required_node_selector(both)
    return msgspec.structs.replace(own, **changes)  # type: ignore[type-var]


@memoized(1024)
def graces_in(text: str) -> Mapping[str, float]:
    """Seconds by kind of rule that an annotation states: `60`, or `podAffinity=60,nodeAffinity=0`. Raises RuleError."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.strip().rpartition("=")
        if equals and name.strip() not in KINDS:
            raise RuleError(f"{GRACE}: {name.strip()!r} is none of {', '.join(KINDS)}")
        if not value.strip().isascii() or not value.strip().isdigit():
            raise RuleError(f"{GRACE}: {value.strip()!r} is no number of seconds")
        found |= dict.fromkeys((name.strip(),) if equals else KINDS, float(value))
    return found


def grace_of(annotations: Mapping[str, str], kind: str, default: float) -> float:
    """Seconds for which a pod puts up with a broken rule of a kind; `default` if its annotation says nothing that can be read."""
    text = annotations.get(GRACE)
    if text is None:
        return default
    try:
        return graces_in(text).get(kind, default)
    except RuleError:
        return default
