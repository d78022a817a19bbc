"""Answers that pods of many shapes have in common, because their plugins read the same of each.

Most plugins have nothing to say about most pods, and what others say follows from the nodes and a small part of the pod
(its tolerations, say). A profile keeps such answers by what its plugins read (`Plugin.reads`), joined to one array each
for verdicts and scores, so that a new shape asks only the plugins that look at pods on nodes.

Worked example: no pod has volumes or host ports, and all have the same two tolerations. The first shape asks
every plugin; for the second one the profile finds that NodePorts and the four volume plugins skip it, that no node is
refused for its taints, and that TaintToleration gives 300 to every node. Left to ask are NodeResourcesFit and
InterPodAffinity.

Everything is forgotten when nodes or objects of the catalog change.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from bayplan.scheduler.framework.extension_points import Plugin, ScorePlugin
from bayplan.scheduler.framework.state import PodShape
from bayplan.scheduler.framework.verdicts import Codes
from bayplan.scheduler.snapshot.labels import Ints

if TYPE_CHECKING:
    from bayplan.scheduler.snapshot.snapshot import Snapshot

NO_NODE: Final = -1
"""The verdict of rows that are not nodes, and the total of rows that are not feasible."""

_BYTES_PER_ROW: Final = 24
"""Three scores, or six verdicts."""

Parts = tuple[Hashable | None, ...]
"""What each plugin reads of a pod, in the plugins' order; None where it reads the pod as a whole."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class SharedVerdicts:
    """What PreFilter and Filter say of all pods of which the plugins read the same."""

    skipped: frozenset[str]
    """Plugins that skip such pods at PreFilter."""
    codes: dict[str, Codes | None]
    """Verdicts on all rows by plugins that look at nodes only; None if no node is refused."""
    data: dict[str, Any]
    """What these plugins keep in `CycleState.data`."""


@dataclass(frozen=True, slots=True)
class RowScore:
    """One active score plugin. `final` is normalised and weighted, valid on feasible rows."""

    plugin: ScorePlugin
    weight: int
    final: Ints
    fixed: bool
    """Depends on nodes only: never asked again while the structure stays."""


@dataclass(frozen=True, slots=True)
class SharedScores:
    """What PreScore and Score say of all pods of which the plugins read the same."""

    known: frozenset[str]
    """The plugins whose answers are here; those that have nothing to say included."""
    scores: tuple[RowScore, ...]
    """Scores that no choice of feasible nodes changes."""
    total: Ints
    """Their sum per row; not to be changed."""
    raw: tuple[tuple[ScorePlugin, Ints], ...]
    """Raw scores that are normalised over the feasible nodes."""


class SharedAnswers:
    """What one profile's plugins said, by what they read.

    `filters`: the plugins of PreFilter and Filter, `scores`: those of Score. Those in `alone` have to make ready at
    Filter or Score what they should have at another extension point; they are asked about every shape.
    """

    LIMIT: Final = 256
    """Combinations of parts that are kept, for verdicts and for scores; the one not used for the longest goes first."""
    BYTES: Final = 64 << 20
    """Memory for each of the two, as which fewer are kept of large clusters; about `_BYTES_PER_ROW` go to a combination."""

    def __init__(
        self, snapshot: Snapshot, filters: Iterable[Plugin], scores: Iterable[Plugin], alone: Container[str]
    ) -> None:
        self._snapshot = snapshot
        self._filters = tuple(plugin for plugin in filters if plugin.name not in alone)
        self._scorers = tuple(plugin for plugin in scores if plugin.name not in alone)
        self._structure = -1
        self._verdicts: dict[Parts, SharedVerdicts] = {}
        self._scores: dict[Parts, SharedScores] = {}
        self._nodes: Codes = np.zeros(0, dtype=np.int32)

    def nodes(self) -> Codes:
        """0 for each row that is a node, `NO_NODE` for the others; not to be changed."""
        self._look_at_structure()
        return self._nodes

    def filter_parts(self, shape: PodShape) -> Parts:
        """What the plugins of PreFilter and Filter read of a shape."""
        return tuple([plugin.reads(shape) for plugin in self._filters])

    def score_parts(self, shape: PodShape) -> Parts:
        """What the plugins of Score read of a shape."""
        return tuple([plugin.reads(shape) for plugin in self._scorers])

    def verdicts(self, parts: Parts) -> SharedVerdicts | None:
        """What is known of pods of which the filter plugins read this."""
        self._look_at_structure()
        return _used(self._verdicts, parts)

    def scores(self, parts: Parts) -> SharedScores | None:
        """What is known of pods of which the score plugins read this."""
        self._look_at_structure()
        return _used(self._scores, parts)

    def keep_verdicts(
        self, parts: Parts, skipped: Container[str], codes: Mapping[str, Codes], data: Mapping[str, Any]
    ) -> None:
        """Remember what was worked out since the last look: who skips, and the verdicts of plugins that look at nodes only.

        What has been said by plugins that read more than a part is left out.
        """
        readers = _readers(self._filters, parts)
        passed = frozenset(name for name in readers if name in skipped)
        judged = {name: found if found.any() else None for name, found in codes.items() if name in readers}
        kept = {name: data[name] for name in (*passed, *judged) if name in data}
        _keep(self._verdicts, parts, SharedVerdicts(passed, judged, kept), self._room())

    def keep_scores(
        self,
        parts: Parts,
        silent: Iterable[str],
        scores: Iterable[RowScore],
        raw: Iterable[tuple[ScorePlugin, Ints]],
    ) -> None:
        """Remember what was worked out since the last look: who has nothing to say, fixed scores, and raw ones to normalise.

        What has been said by plugins that read more than a part is left out.
        """
        readers = _readers(self._scorers, parts)
        fixed = tuple(item for item in scores if item.plugin.name in readers)
        open_ones = tuple(item for item in raw if item[0].name in readers)
        known = {name for name in silent if name in readers}
        known |= {item.plugin.name for item in fixed} | {plugin.name for plugin, _ in open_ones}
        total = np.zeros(self._snapshot.size, dtype=np.int64)
        for item in fixed:
            total += item.final
        _keep(self._scores, parts, SharedScores(frozenset(known), fixed, total, open_ones), self._room())

    def _room(self) -> int:
        return max(1, min(self.LIMIT, self.BYTES // (_BYTES_PER_ROW * max(self._snapshot.size, 1))))

    def _look_at_structure(self) -> None:
        snapshot = self._snapshot
        if self._structure == snapshot.structure:
            return
        self._structure = snapshot.structure
        self._verdicts.clear()
        self._scores.clear()
        self._nodes = np.where(snapshot.alive[snapshot.all_rows], 0, NO_NODE).astype(np.int32)


def _readers(plugins: tuple[Plugin, ...], parts: Parts) -> set[str]:
    """The names of the plugins that read no more than a part."""
    return {plugin.name for plugin, part in zip(plugins, parts, strict=True) if part is not None}


def _used(table: dict[Parts, Answer], parts: Parts) -> Answer | None:
    found = table.pop(parts, None)
    if found is not None:
        table[parts] = found
    return found


def _keep(table: dict[Parts, Answer], parts: Parts, answer: Answer, limit: int) -> None:
    if len(table) >= limit:
        del table[next(iter(table))]
    table[parts] = answer
