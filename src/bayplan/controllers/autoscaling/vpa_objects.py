"""VerticalPodAutoscaler objects of upstream (`autoscaling.k8s.io/v1`), where their custom resource is installed: what they ask for, and their status.

An autoscaler of a workload goes before annotations of that workload. `evictionRequirements` and `startupBoost` are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bayplan.api.types import meta_v1
from bayplan.controllers.autoscaling.vpa_annotations import IN_PLACE, INITIAL, OFF, RECREATE
from bayplan.controllers.autoscaling.vpa_rules import RESOURCES, Policy, Recommendation, amount

GROUP: Final = "autoscaling.k8s.io"
KIND: Final = "VerticalPodAutoscaler"
MODES: Final = {OFF: OFF, INITIAL: INITIAL, RECREATE: RECREATE, IN_PLACE: IN_PLACE, "Auto": RECREATE}
"""What people write -> what it means; Auto is an older name."""
ANY_CONTAINER: Final = "*"
LEAST_REPLICAS: Final = 2
"""Fewer pods than that are not evicted, unless the autoscaler says otherwise."""
_PROVIDED, _UNSUPPORTED, _NO_PODS = "RecommendationProvided", "ConfigUnsupported", "NoPodsMatched"

Tree = Mapping[str, Any]


class AutoscalerError(ValueError):
    """An autoscaler cannot be understood; the message names the field and says what is expected."""


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """What a VerticalPodAutoscaler asks for."""

    mode: str
    policies: Mapping[str, Policy]
    """By container; `*` for all others."""
    least_replicas: int = LEAST_REPLICAS

    def of(self, containers: Iterable[str]) -> dict[str, Policy]:
        """What is allowed for each container."""
        others = self.policies.get(ANY_CONTAINER, Policy())
        return {name: self.policies.get(name, others) for name in containers}


def target_of(metadata: meta_v1.ObjectMeta, content: Tree, kinds: Iterable[str]) -> str:
    """`Kind/namespace/name` of the workload that is scaled. Raises AutoscalerError."""
    reference = _mapping(_mapping(content.get("spec"), "spec").get("targetRef"), "spec.targetRef")
    kind, name = reference.get("kind"), reference.get("name")
    group = str(reference.get("apiVersion", "")).partition("/")[0]
    if group != "apps" or kind not in set(kinds):
        known = ", ".join(sorted(kinds))
        raise AutoscalerError(
            f"spec.targetRef: {kind!r} of {reference.get('apiVersion')!r} is not one of {known} of apps/v1"
        )
    if not isinstance(name, str) or not name:
        raise AutoscalerError("spec.targetRef.name: must name a workload")
    return f"{kind}/{metadata.namespace}/{name}"


def autoscaler_of(content: Tree) -> Autoscaler:
    """What the specification asks for. Raises AutoscalerError."""
    spec = _mapping(content.get("spec"), "spec")
    update = _mapping(spec.get("updatePolicy") or {}, "spec.updatePolicy")
    mode = update.get("updateMode") or RECREATE
    if mode not in MODES:
        raise AutoscalerError(f"spec.updatePolicy.updateMode: {mode!r} is not one of {', '.join(MODES)}")
    least = update.get("minReplicas")
    least = LEAST_REPLICAS if least is None else least
    if not isinstance(least, int) or least < 1:
        raise AutoscalerError(f"spec.updatePolicy.minReplicas: {least!r} must be a whole number of at least 1")
    resources = _mapping(spec.get("resourcePolicy") or {}, "spec.resourcePolicy")
    policies = {}
    for index, item in enumerate(resources.get("containerPolicies") or ()):
        path = f"spec.resourcePolicy.containerPolicies[{index}]"
        one = _mapping(item, path)
        policies[str(one.get("containerName") or ANY_CONTAINER)] = _policy(one, path)
    return Autoscaler(MODES[mode], policies, least)


def _policy(one: Tree, path: str) -> Policy:
    controlled = one.get("controlledResources")
    resources = RESOURCES if controlled is None else tuple(controlled)
    if unknown := [name for name in resources if name not in RESOURCES]:
        raise AutoscalerError(f"{path}.controlledResources: {unknown[0]!r} is not one of {', '.join(RESOURCES)}")
    values = one.get("controlledValues") or "RequestsAndLimits"
    if values not in ("RequestsOnly", "RequestsAndLimits"):
        raise AutoscalerError(f"{path}.controlledValues: {values!r} is neither RequestsOnly nor RequestsAndLimits")
    mode = one.get("mode") or "Auto"
    if mode not in ("Auto", OFF):
        raise AutoscalerError(f"{path}.mode: {mode!r} is neither Auto nor Off")
    least, most = (_amounts(one.get(name), f"{path}.{name}") for name in ("minAllowed", "maxAllowed"))
    return Policy(least, most, resources, values == "RequestsOnly", mode == OFF)


def _amounts(value: Any, path: str) -> dict[str, int]:
    found = {}
    for name, quantity in _mapping(value or {}, path).items():
        if name not in RESOURCES:
            continue
        try:
            found[name] = amount(name, quantity)
        except ValueError as error:
            raise AutoscalerError(f"{path}.{name}: {error}") from error
    return found


def _mapping(value: Any, path: str) -> Tree:
    if not isinstance(value, Mapping):
        raise AutoscalerError(f"{path}: must be an object")
    return value


# Status


def status_of(
    before: Tree, recommendations: Sequence[Recommendation], *, problem: str, has_pods: bool, now: str
) -> dict[str, Any]:
    """The status that an autoscaler should have. `problem`: why nothing can be recommended; empty if that is not so."""
    status = dict(before)
    if recommendations:
        status["recommendation"] = {"containerRecommendations": [one.to_dict() for one in recommendations]}
    wanted = {
        _PROVIDED: (bool(status.get("recommendation")) and not problem, "", ""),
        _UNSUPPORTED: (bool(problem), "", problem),
        _NO_PODS: (not has_pods and not problem, "NoPodsMatched", "No pods match this VPA object"),
    }
    known = {one.get("type"): one for one in before.get("conditions") or () if isinstance(one, Mapping)}
    conditions = []
    for kind, (is_true, reason, message) in wanted.items():
        if not is_true and kind != _PROVIDED:
            continue
        condition = {"type": kind, "status": "True" if is_true else "False", "lastTransitionTime": now}
        condition |= {"reason": reason} if reason else {}
        condition |= {"message": message} if message else {}
        old = known.get(kind)
        if old is not None and old.get("status") == condition["status"]:
            condition["lastTransitionTime"] = old.get("lastTransitionTime", now)
        conditions.append(condition)
    status["conditions"] = conditions
    return status
