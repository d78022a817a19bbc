"""Stages of kwok (`kwok.x-k8s.io/v1alpha1`): what happens to simulated nodes and the pods on them, as users describe it.

    stages whose selector matches ─▶ one of them, by weight ─▶ its delay ─▶ event, finalizers, patches of the status, or deletion

With stages of kind Pod they alone decide about pods on simulated nodes, instead of `pods`. Stages of kind Node come on top of what nodes do by themselves: they
register, are ready, and renew their leases. What cannot be
carried out (impersonation, template functions that are not known) is refused when a stage is read, with its name and field.

Source of the behaviour: kwok's lifecycle package and its default stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml

from bayplan.client.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from bayplan.kubelet.simulator.durations import parse_seconds
from bayplan.kubelet.simulator.errors import KwokFileError, StageError
from bayplan.kubelet.simulator.stages import stage_paths
from bayplan.kubelet.simulator.stages.stage_expressions import StageExpression, read_expression
from bayplan.kubelet.simulator.stages.stage_paths import PathError, parse_path
from bayplan.kubelet.simulator.stages.template_parser import TemplateError
from bayplan.kubelet.simulator.stages.templates import Function, Template

__all__ = ["Stage", "StageError", "body_of", "choose", "delay", "object_of", "read_stage"]

CONTEXT = (
    "Now",
    "StartTime",
    "NodeName",
    "NodePort",
    "NodeIP",
    "NodeIPs",
    "NodeIPWith",
    "NodeIPsWith",
    "PodIP",
    "PodIPs",
    "PodIPWith",
    "PodIPsWith",
    "NodeConditions",
)
"""Functions of templates that depend on the moment and the pod."""
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_PATCHES = {"json": JSON_PATCH, "merge": MERGE_PATCH, "strategic": STRATEGIC_PATCH}
_APPLIES = {"apply": APPLY_PATCH, "merge": MERGE_PATCH, "strategic": STRATEGIC_PATCH}


@dataclass(frozen=True, slots=True)
class Match:
    """One demand of a selector."""

    path: stage_paths.Path | StageExpression
    operator: str
    values: tuple[str, ...]

    def holds(self, data: Any) -> bool:
        """Whether plain data meets it."""
        found = [_text(one) for one in self.path.values(data)]
        if self.operator in ("In", "NotIn"):
            return any(one in self.values for one in found) == (self.operator == "In")
        return bool(found) == (self.operator == "Exists")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number that stands in the stage or, if it is there, in the object."""

    fixed: float | None
    path: stage_paths.Path | StageExpression | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of the object: what a template makes, below `root`, written to a subresource."""

    template: Template
    root: str
    subresource: str
    content_type: str


@dataclass(frozen=True, slots=True)
class Apply:
    """Any object that a template makes: it is created, or patched if it is there."""

    template: Template
    subresource: str
    """If set, the object must be there, and this of it is patched."""
    content_type: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Finalizers:
    """A change of the finalizers."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    empty: bool = False

    def apply(self, before: Sequence[str]) -> list[str]:
        """The finalizers after it."""
        kept = [] if self.empty else [one for one in before if one not in self.remove]
        return kept + [one for one in self.add if one not in kept]


@dataclass(frozen=True, slots=True)
class Delete:
    """The object goes."""


Action = Patch | Apply | Event | Finalizers | Delete


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage, read."""

    name: str
    matches: tuple[Match, ...]
    weight: Amount
    delay: Amount
    jitter: Amount
    actions: tuple[Action, ...]
    kind: str = "Pod"
    """Pod or Node."""

    @property
    def has_expressions(self) -> bool:
        """Whether it must be looked at within `at_moment`."""
        paths = [one.path for one in self.matches] + [one.path for one in (self.weight, self.delay, self.jitter)]
        return any(isinstance(path, StageExpression) for path in paths)

    def fits(self, data: Any) -> bool:
        """Whether an object (plain data) is where the stage begins. Raises StageError for an expression that fails."""
        return all(one.holds(data) for one in self.matches)


def read_stage(document: Mapping[str, Any]) -> Stage | None:
    """A stage of pods or nodes; None for one of other objects. Raises StageError."""
    name = str((document.get("metadata") or {}).get("name", ""))
    spec = document.get("spec") or {}
    kind = str((spec.get("resourceRef") or {}).get("kind", ""))
    if kind not in ("Pod", "Node"):
        return None
    try:
        return _Reader(name).read(spec, kind)
    except (PathError, TemplateError) as error:
        raise StageError(f"stage {name}: {error}") from error


class _Reader:
    """Reads one stage."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, field: str, why: str) -> StageError:
        return StageError(f"stage {self._name}: spec.{field}: {why}")

    def read(self, spec: Mapping[str, Any], kind: str) -> Stage:
        delay = spec.get("delay") or {}
        actions = [*self._next(spec.get("next") or {}), *self._steps(spec.get("steps") or ())]
        return Stage(
            self._name,
            self._selector(spec.get("selector")),
            self._amount(spec, "weight", "weightFrom", "", 1.0, 0.0),
            self._amount(delay, "durationMilliseconds", "durationFrom", "delay.", 1000.0, 0.0),
            self._amount(delay, "jitterDurationMilliseconds", "jitterDurationFrom", "delay.", 1000.0, None),
            tuple(actions),
            kind,
        )

    def _amount(
        self, given: Mapping[str, Any], fixed: str, source: str, where: str, unit: float, default: float | None
    ) -> Amount:
        number = given.get(fixed)
        value = default if number is None else float(number) / unit
        expression = given.get(source)
        return Amount(value, None if expression is None else self._expression(expression, where + source))

    def _cel(self, given: Any, where: str) -> StageExpression:
        try:
            return read_expression(given)
        except KwokFileError as error:
            raise self._refuse(f"{where}.cel", str(error)) from error

    def _expression(self, given: Mapping[str, Any], where: str) -> stage_paths.Path | StageExpression:
        if "cel" in given:
            return self._cel(given["cel"], where)
        text = given.get("expressionFrom") or (given.get("jq") or {}).get("expression")
        if not text:
            raise self._refuse(where, "expected expressionFrom")
        return parse_path(str(text))

    def _selector(self, given: Mapping[str, Any] | None) -> tuple[Match, ...]:
        """A stage without a selector matches nothing, which is never meant."""
        if given is None:
            raise self._refuse("selector", "is required")
        found = []
        for field, member in (("matchLabels", "labels"), ("matchAnnotations", "annotations")):
            for key, value in (given.get(field) or {}).items():
                path = stage_paths.Path(("metadata", member, str(key)))
                found.append(Match(path, "In", (str(value),)))
        for index, one in enumerate(given.get("matchExpressions") or ()):
            where = f"selector.matchExpressions[{index}]"
            if "cel" in one:
                found.append(Match(self._cel(one["cel"], where), "In", ("true",)))
                continue
            source = one.get("jq") or one
            operator = str(source.get("operator", ""))
            if operator not in _OPERATORS:
                raise self._refuse(f"{where}.operator", f"{operator!r} is not one of {', '.join(_OPERATORS)}")
            path = parse_path(str(source.get("key") or source.get("expression") or ""))
            found.append(Match(path, operator, tuple(_text(value) for value in source.get("values") or ())))
        return tuple(found)

    def _next(self, given: Mapping[str, Any]) -> list[Action]:
        actions: list[Action] = []
        if given.get("event"):
            actions.append(self._event(given["event"]))
        if given.get("finalizers"):
            actions.append(self._finalizers(given["finalizers"]))
        if given.get("delete"):
            return [*actions, Delete()]
        if given.get("statusTemplate"):
            patch = {"template": given["statusTemplate"], "root": "status", "subresource": "status"}
            actions.append(self._patch(patch, "next.statusTemplate"))
        for index, one in enumerate(given.get("patches") or ()):
            actions.append(self._patch(one, f"next.patches[{index}]"))
        return actions

    def _steps(self, given: Sequence[Mapping[str, Any]]) -> list[Action]:
        """What happens step by step; of an object that is deleted nothing is left but to tell."""
        actions: list[Action] = []
        is_deleted = False
        for index, one in enumerate(given):
            where = f"steps[{index}]"
            if one.get("event"):
                actions.append(self._event(one["event"]))
            if is_deleted:
                continue
            if one.get("finalizers"):
                actions.append(self._finalizers(one["finalizers"]))
            if one.get("delete"):
                actions.append(Delete())
                is_deleted = True
                continue
            if one.get("patch"):
                actions.append(self._patch(one["patch"], f"{where}.patch"))
            if one.get("apply"):
                actions.append(self._apply(one["apply"], f"{where}.apply"))
        return actions

    def _event(self, given: Mapping[str, Any]) -> Event:
        return Event(str(given.get("type") or "Normal"), str(given.get("reason", "")), str(given.get("message", "")))

    def _finalizers(self, given: Mapping[str, Any]) -> Finalizers:
        def values(field: str) -> tuple[str, ...]:
            return tuple(str(one["value"]) for one in given.get(field) or ())

        return Finalizers(values("add"), values("remove"), bool(given.get("empty")))

    def _patch(self, given: Mapping[str, Any], where: str) -> Patch:
        template, content_type = self._written(given, where, "strategic", _PATCHES)
        return Patch(template, str(given.get("root", "")), str(given.get("subresource", "")), content_type)

    def _apply(self, given: Mapping[str, Any], where: str) -> Apply:
        template, content_type = self._written(given, where, "apply", _APPLIES)
        return Apply(template, str(given.get("subresource", "")), content_type)

    def _written(
        self, given: Mapping[str, Any], where: str, default: str, types: Mapping[str, str]
    ) -> tuple[Template, str]:
        """The template of a write, and its content type."""
        if given.get("impersonation"):
            raise self._refuse(f"{where}.impersonation", "is not supported")
        kind = str(given.get("type") or default)
        if kind not in types:
            raise self._refuse(f"{where}.type", f"{kind!r} is not one of {', '.join(types)}")
        return Template(str(given.get("template", "")), CONTEXT), types[kind]


def choose(fitting: Sequence[Stage], data: Any, chance: float) -> Stage | None:
    """One of the stages that fit an object (`Stage.fits`), by weight; evenly if none has any. `chance`: a number in [0, 1)."""
    if len(fitting) <= 1:
        return fitting[0] if fitting else None
    weights = [max(_number(one.weight, data), 0.0) for one in fitting]
    if not sum(weights):
        weights = [1.0] * len(fitting)
    left = chance * sum(weights)
    for stage, weight in zip(fitting, weights, strict=True):
        left -= weight
        if left < 0:
            return stage
    return fitting[-1]


def delay(stage: Stage, data: Any, now: float, chance: float) -> float:
    """Seconds until a stage takes effect: its duration, or anything between that and the jitter; the jitter if that is less."""
    duration = _seconds(stage.delay, data, now) or 0.0
    jitter = _seconds(stage.jitter, data, now)
    if jitter is None:
        return max(duration, 0.0)
    return max(jitter if jitter < duration else duration + (jitter - duration) * chance, 0.0)


def body_of(patch: Patch, data: Any, functions: Mapping[str, Function]) -> Any:
    """What a patch writes. Raises StageError."""
    found = _made(patch.template, data, functions)
    if patch.content_type == JSON_PATCH:
        return found or []
    return {patch.root: found or {}} if patch.root else found or {}


def object_of(apply: Apply, data: Any, functions: Mapping[str, Function]) -> dict[str, Any]:
    """What is applied, with apiVersion, kind and metadata. Raises StageError."""
    found = _made(apply.template, data, functions)
    if not (isinstance(found, dict) and found.get("apiVersion") and found.get("kind")):
        raise StageError("the template makes no object with apiVersion and kind")
    if not isinstance(found.setdefault("metadata", {}), dict):
        raise StageError("the template makes an object whose metadata are none")
    return found


def _made(template: Template, data: Any, functions: Mapping[str, Function]) -> Any:
    """What a template makes. Raises StageError."""
    try:
        return yaml.load(template.render(data, functions), Loader=_Loader)
    except TemplateError as error:
        raise StageError(str(error)) from error
    except yaml.YAMLError as error:
        raise StageError(f"the template makes no YAML: {error}") from error


class _Loader(yaml.SafeLoader):
    """Times stay text, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _number(amount: Amount, data: Any) -> float:
    for value in amount.path.values(data) if amount.path is not None else ():
        try:
            return float(value)
        except (TypeError, ValueError):
            continue
    return amount.fixed or 0.0


def _seconds(amount: Amount, data: Any, now: float) -> float | None:
    """A duration, or the time until a moment, from the object; what the stage says if the object says nothing that can be read."""
    for value in amount.path.values(data) if amount.path is not None else ():
        try:
            return parse_seconds(str(value))
        except ValueError:
            pass
        try:
            return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp() - now
        except ValueError:
            continue
    return amount.fixed
