"""Changes that help only together: pairs, and if there are none, three at a time.

What comes into question after a change may not have before it: a node says one thing at a time. Three are searched for
from the smallest on, and no longer than a number of tries that shrinks with the cluster, so that the answer takes
seconds and does not depend on the machine.

    node wants tolerations for x and y and an uncordon: {x, y} does not help -> its reasons bring up the uncordon -> {x, y, uncordon} helps
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations
from typing import Final

from bayplan.simulation.fixes.base import Candidate, Fix, strongest
from bayplan.simulation.fixes.trial import Trial

_ONE_BY_ONE: Final = frozenset(
    {
        "lower-request",
        "add-toleration",
        "drop-node-selector",
        "drop-node-affinity",
        "drop-pod-affinity",
        "drop-pod-anti-affinity",
        "raise-max-skew",
        "relax-spread",
        "drop-host-port",
    }
)
"""Changes of the pod alone, any number of which can be made together."""
_MOST_TOGETHER: Final = 8
"""More changes than these are no fix but another pod."""
_COMBINED: Final = 25
"""Candidates that are tried together."""
_MOST_TRIES: Final = 3_000
_NODES_ASKED: Final = 3_000_000
"""Tries times nodes."""


def pairs(trial: Trial, known: Sequence[Candidate]) -> Iterator[Fix]:
    """Two changes together."""
    tried: set[frozenset[str]] = set()
    first_ones = _smallest(known)
    for first in first_ones:
        a = strongest(first)
        for second in (*first_ones, *_further(trial, (first,))):
            if not _excluded((first, second)) and (key := _key((first, second))) not in tried:
                tried.add(key)
                fix = trial.fix((first, second))
                if fix is not None:
                    yield fix
        if a.kind not in ("lower-request", "add-node"):
            yield from trial.evictions((a,))


def triples(trial: Trial, known: Sequence[Candidate], most: int) -> list[Fix]:
    """Three changes together, at most so many, where no two of those in question help."""
    first_ones = _smallest(known)
    seen: set[frozenset[str]] = set()
    waiting: list[tuple[int, int, tuple[Candidate, ...]]] = []
    found: list[Fix] = []

    def ask_later(group: tuple[Candidate, ...]) -> None:
        if not _excluded(group) and (key := _key(group)) not in seen:
            seen.add(key)
            heappush(waiting, (_size(group), len(seen), group))

    last = trial.tried + min(_MOST_TRIES, _NODES_ASKED // max(len(trial.nodes), 1))
    for first in first_ones:
        for second in (*first_ones, *_further(trial, (first,))):
            ask_later((first, second))
    while waiting and trial.tried < last and len(found) < most:
        _, _, group = heappop(waiting)
        if len(group) == 2:
            for third in (*first_ones, *_further(trial, group)):
                ask_later((*group, third))
            if all(strongest(one).kind not in ("lower-request", "add-node") for one in group):
                found += trial.evictions(tuple(strongest(one) for one in group))
        elif (fix := trial.fix(group)) is not None:
            found.append(_without_idle(trial, group, fix))
    return found


def together(trial: Trial) -> list[Fix]:
    """All that is wrong, made right at once: every change that comes into question, less those that are not needed, the largest
    of them left out first. For pods that ask for many things which no node has."""
    known: dict[str, Candidate] = {}
    group: tuple[Candidate, ...] = ()
    while len(known) <= _COMBINED:
        before = len(known)
        for one in _further(trial, group):
            if strongest(one).kind in _ONE_BY_ONE and not any(same_field(one, other) for other in known.values()):
                known.setdefault(strongest(one).text, one)
        group = tuple(known.values())
        if len(known) == before or trial.fix(group) is not None:
            break
    if not group or trial.fix(group) is None:
        return []
    for one in sorted(group, key=lambda one: -strongest(one).size):
        fewer = tuple(other for other in group if other is not one)
        if fewer and trial.fix(fewer) is not None:
            group = fewer
    fix = trial.fix(group) if len(group) <= _MOST_TOGETHER else None
    return [fix] if fix is not None else []


def same_field(one: Candidate, other: Candidate) -> bool:
    """Whether two changes are about the same field, so that one of them is enough."""
    a, b = strongest(one), strongest(other)
    keys = ("topologyKey", "of", "resource", "key")
    return {a.kind, b.kind} <= {"raise-max-skew", "relax-spread"} and all(
        a.detail.get(k) == b.detail.get(k) for k in keys
    )


def _without_idle(trial: Trial, group: tuple[Candidate, ...], fix: Fix) -> Fix:
    """Without what is not needed: two of the three may never have been tried alone."""
    smaller = (trial.fix(two) for two in combinations(group, 2))
    return next((one for one in smaller if one is not None), fix)


def _further(trial: Trial, group: tuple[Candidate, ...]) -> list[Candidate]:
    """What comes into question once some changes are made."""
    return trial.candidates(trial.after(strongest(one) for one in group))


def _smallest(known: Sequence[Candidate]) -> list[Candidate]:
    return sorted(known, key=lambda one: strongest(one).size)[:_COMBINED]


def _size(group: tuple[Candidate, ...]) -> int:
    return sum(strongest(one).size for one in group)


def _key(group: tuple[Candidate, ...]) -> frozenset[str]:
    return frozenset(strongest(one).text for one in group)


def _excluded(group: tuple[Candidate, ...]) -> bool:
    """Whether some of the changes exclude each other, or are the same."""
    added = sum(strongest(one).kind == "add-node" for one in group)
    return len(_key(group)) < len(group) or added > 1
