"""Which group grows, of those that could help: the expanders of the cluster autoscaler. Pure functions; chance is passed in.

    options ─▶ priority ─▶ least-waste ─▶ ... ─▶ one at random of those that are left

Each expander of the chain keeps the options that it likes best; the first that leaves a single one decides.

Source of the behaviour and of the messages: cluster-autoscaler's `expander` packages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.api.types import core_v1
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import Option

RANDOM, MOST_PODS, LEAST_WASTE, LEAST_NODES, PRIORITY = "random", "most-pods", "least-waste", "least-nodes", "priority"
EXPANDERS = (RANDOM, MOST_PODS, LEAST_WASTE, LEAST_NODES, PRIORITY)
PRIORITY_MAP = "cluster-autoscaler-priority-expander"
"""The ConfigMap with the priorities of groups, in the autoscaler's namespace."""
_KEY = "priorities"

Pick = Callable[[Sequence[Option]], Option]
"""One of several options, which are all as good."""
_Priorities = Mapping[int, Sequence[re.Pattern[str]]]


class _PrioritiesError(Exception):
    """Priorities cannot be understood; the message says why."""


@dataclass(slots=True)
class Choice:
    """The option that was chosen."""

    best: Option | None = None
    """None if there is none, or none can be chosen."""
    warnings: list[tuple[str, str]] = field(default_factory=list)
    """(reason, message) of events about the ConfigMap with priorities."""


def chain_of(text: str) -> tuple[str, ...]:
    """The expanders in a list with commas. Raises ValueError for a list that makes no sense."""
    names = tuple(name.strip() for name in text.split(","))
    for position, name in enumerate(names):
        if name not in EXPANDERS:
            raise ValueError(f"unknown expander {name!r}; known: {', '.join(EXPANDERS)}")
        if name in names[:position]:
            raise ValueError(f"expander {name} is named twice")
    if RANDOM in names[:-1]:
        raise ValueError(f"expanders after {RANDOM} are never asked: it leaves one option only")
    return names


def choose(options: Sequence[Option], chain: Iterable[str], config: core_v1.ConfigMap | None, pick: Pick) -> Choice:
    """The option that a chain of expanders likes best. `config`: the ConfigMap with priorities, if there is one."""
    choice, left = Choice(), list(options)
    for name in chain:
        if not left:
            break
        if name == PRIORITY:
            left = _by_priority(left, config, choice.warnings)
        elif name == RANDOM:
            left = [pick(left)]
        else:
            left = _least(left, _COSTS[name])
        if len(left) == 1:
            break
    if left:
        choice.best = left[0] if len(left) == 1 else pick(left)
    return choice


_COSTS: Mapping[str, Callable[[Option], float]] = {
    MOST_PODS: lambda option: -len(option.pods),
    LEAST_WASTE: lambda option: option.waste,
    LEAST_NODES: lambda option: option.nodes,
}


def _least(options: Sequence[Option], cost: Callable[[Option], float]) -> list[Option]:
    """All options that cost least."""
    least = min(map(cost, options))
    return [option for option in options if cost(option) == least]


def _by_priority(
    options: list[Option], config: core_v1.ConfigMap | None, warnings: list[tuple[str, str]]
) -> list[Option]:
    """Options whose groups have the highest priority; all if none has any, none if priorities cannot be read."""
    if config is None:
        return []
    try:
        priorities = _priorities_in(config)
    except _PrioritiesError as error:
        warnings.append(("PriorityConfigMapInvalid", f"{error}. Ignoring update."))
        return []
    best: list[Option] = []
    highest = -1
    for option in options:
        name = option.group.name
        matching = [number for number, rules in priorities.items() if any(rule.search(name) for rule in rules)]
        if not matching:
            text = f"node group {name} not found in priority expander configuration. The group won't be used."
            warnings.append(("PriorityConfigMapNotMatchedGroup", f"Priority expander: {text}"))
            continue
        if max(matching) > highest:
            highest, best = max(matching), []
        if max(matching) == highest:
            best.append(option)
    if not best:
        text = "no priorities info found for any of the expansion options. No options filtered."
        warnings.append(("PriorityConfigMapNoGroupMatched", f"Priority expander: {text}"))
        return options
    return best


def _priorities_in(config: core_v1.ConfigMap) -> _Priorities:
    """Priority -> expressions for names of groups. Raises _PrioritiesError."""
    import yaml  # slow to import, and seldom needed

    text = config.data.get(_KEY)
    if text is None:
        raise _PrioritiesError(f"Wrong configmap for priority expander, doesn't contain {_KEY} key")
    wrong = "Wrong configuration for priority expander: "
    if not text:
        empty = f"priority configuration in {PRIORITY_MAP} configmap is empty; please provide valid configuration"
        raise _PrioritiesError(wrong + empty)
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _PrioritiesError(f"{wrong}Can't parse YAML with priorities in the configmap: {error}") from error
    found: dict[int, list[re.Pattern[str]]] = {}
    for number, rules in _lists_in(tree, wrong).items():
        for rule in rules:
            try:
                found.setdefault(number, []).append(re.compile(rule))
            except re.error as error:
                where = f"Can't compile regexp rule for priority {number} and rule {rule}"
                raise _PrioritiesError(f"{wrong}{where}: {error}") from error
    return found


def _lists_in(tree: object, wrong: str) -> dict[int, list[str]]:
    """What was read, as lists of texts by number. Raises _PrioritiesError if it is something else."""
    if tree is None:
        return {}
    if isinstance(tree, dict) and all(
        type(number) is int and isinstance(rules, list | None) for number, rules in tree.items()
    ):
        return {number: [str(rule) for rule in rules or ()] for number, rules in tree.items()}
    problem = "expected lists of expressions by whole numbers"
    raise _PrioritiesError(f"{wrong}Can't parse YAML with priorities in the configmap: {problem}")
