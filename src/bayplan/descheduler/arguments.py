"""Values that the arguments of several plugins have in common, and the checks of them.

Arguments are structs with the fields of upstream's Go types. An empty list of errors means that they are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Final

import msgspec

from bayplan.api.selectors.labels import EVERYTHING, LabelSelector, SelectorError, compile_selector
from bayplan.api.types import core_v1, meta_v1

Count = Annotated[int, msgspec.Meta(ge=0)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Thresholds = dict[str, float]
"""Resource -> percent."""
ONE_OF_BOTH: Final = "only one of Include/Exclude namespaces can be set"


class Fields(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all that a policy file may contain."""


class Arguments(Fields, frozen=True, kw_only=True):
    """Base of the arguments of plugins."""

    api_version: str = ""
    kind: str = ""

    def errors(self) -> list[str]:
        """What is wrong with the values, in upstream's words."""
        return []


class Namespaces(Fields, frozen=True, kw_only=True):
    """Namespaces to look at, or not to look at."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def errors(self) -> list[str]:
        """Only one of both lists may be given."""
        return [ONE_OF_BOTH] if self.include and self.exclude else []

    def contain(self, namespace: str) -> bool:
        """Whether pods of a namespace are looked at."""
        return (not self.include or namespace in self.include) and namespace not in self.exclude


class PodSelection(Arguments, frozen=True, kw_only=True):
    """Arguments of strategies that look at pods of some namespaces and labels."""

    namespaces: Namespaces = Namespaces()
    label_selector: meta_v1.LabelSelector | None = None

    def errors(self) -> list[str]:
        return [*self.namespaces.errors(), *selector_errors(self.label_selector, "strategy's params")]

    def selects(self) -> Callable[[core_v1.Pod], bool]:
        """Whether a pod is looked at, as a function."""
        selector = selector_of(self.label_selector)
        return lambda pod: self.namespaces.contain(pod.metadata.namespace) and selector.matches(pod.metadata.labels)


def selector_of(selector: meta_v1.LabelSelector | None) -> LabelSelector:
    """A selector compiled; without one, everything is selected."""
    return EVERYTHING if selector is None else compile_selector(selector)


def selector_errors(selector: meta_v1.LabelSelector | None, where: str) -> list[str]:
    """What is wrong with a label selector."""
    try:
        selector_of(selector)
    except SelectorError as error:
        return [f"failed to get label selectors from {where}: {error}"]
    return []


def threshold_errors(thresholds: Mapping[str, float]) -> list[str]:
    """Thresholds are percentages, and there is at least one."""
    if not thresholds:
        return ["no resource threshold is configured"]
    return [
        f"{name} threshold not in [0, 100] range" for name, percent in thresholds.items() if not 0 <= percent <= 100
    ]


def one_of(values: Iterable[str], allowed: Iterable[str], what: str) -> list[str]:
    """All values must be among those that are allowed."""
    known = sorted(allowed)
    return [] if set(values) <= set(known) else [f"{what} must be one of [{' '.join(known)}]"]
