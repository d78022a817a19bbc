"""Which rule counts for a container or port: that of the pod's own object, or else of the first object for many pods that has one.

A rule that names no containers (ports) counts for those that no other rule of its object names.
Source: kwok's `pkg/kwok/server/debugging*.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from bayplan.kubelet.simulator.answers.metric_objects import MetricPage
from bayplan.kubelet.simulator.answers.objects import (
    AnswerObject,
    AttachRule,
    ExecRule,
    ForwardRule,
    LogRule,
    Rule,
    UsageRule,
)

R = TypeVar("R", bound=Rule)


class Target(NamedTuple):
    """What a client wants to reach: a container, or a port, of a pod."""

    namespace: str
    name: str
    part: str | int


class Rules:
    """All rules, by the kind of the object that has them."""

    def __init__(self, objects: Iterable[AnswerObject]) -> None:
        """objects: in the order in which they count. Of one pod, the first of its kind counts alone."""
        self._own: dict[tuple[str, str, str], AnswerObject] = {}
        self._of_many: dict[str, list[AnswerObject]] = {}
        self.has_usage = False
        """Whether any object says what containers use."""
        for each in objects:
            self.has_usage = self.has_usage or each.kind == "ResourceUsage"
            if each.namespace:
                self._own.setdefault((each.kind, each.namespace, each.name), each)
            else:
                self._of_many.setdefault(each.kind, []).append(each)

    def log(self, target: Target) -> LogRule | None:
        """Where a container's log is; None if nothing says so."""
        return self._find("Logs", LogRule, target)

    def attach(self, target: Target) -> AttachRule | None:
        """What those see who attach to a container."""
        return self._find("Attach", AttachRule, target)

    def exec(self, target: Target) -> ExecRule | None:
        """Where commands of a container run."""
        return self._find("Exec", ExecRule, target)

    def forward(self, target: Target) -> ForwardRule | None:
        """What answers at a port."""
        return self._find("PortForward", ForwardRule, target)

    def usage(self, target: Target) -> UsageRule | None:
        """What a container uses."""
        return self._find("ResourceUsage", UsageRule, target)

    @property
    def pages(self) -> list[MetricPage]:
        """All pages of metrics."""
        found = self._of_many.get("Metric", ())
        return [page for each in found for page in each.rules if isinstance(page, MetricPage)]

    def forwards(self, namespace: str, name: str) -> bool:
        """Whether anything answers at any port of a pod."""
        if (own := self._own.get(("PortForward", namespace, name))) is not None:
            return bool(own.rules)
        return any(one.selector.holds(namespace, name) for one in self._of_many.get("PortForward", ()))

    def _find(self, kind: str, type_: type[R], target: Target) -> R | None:
        own = self._own.get((kind, target.namespace, target.name))
        if own is not None:
            return _choose(own.rules, type_, target.part)
        for each in self._of_many.get(kind, ()):
            if each.selector.holds(target.namespace, target.name):
                found = _choose(each.rules, type_, target.part)
                if found is not None:
                    return found
        return None


def _choose(rules: Sequence[Rule], type_: type[R], part: str | int) -> R | None:
    mine = [rule for rule in rules if isinstance(rule, type_)]
    named = next((rule for rule in mine if part in _parts(rule)), None)
    return named or next((rule for rule in mine if not _parts(rule)), None)


def _parts(rule: Rule) -> tuple[str, ...] | tuple[int, ...]:
    if isinstance(rule, MetricPage):
        return ()
    return rule.ports if isinstance(rule, ForwardRule) else rule.containers
