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

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from bayplan.scheduler.framework.extension_points import FilterPlugin, Plugin, PreFilterPlugin, ScorePlugin
from bayplan.scheduler.framework.state import PodShape
from bayplan.scheduler.framework.verdicts import Codes
from bayplan.scheduler.snapshot.labels import IntRows, Ints

if TYPE_CHECKING:
    from bayplan.scheduler.snapshot.snapshot import Snapshot

NO_NODE: Final = -1
"""The verdict of rows that are not nodes, and the total of rows that are not feasible."""

_BYTES_PER_ROW: Final = 24
"""Three scores, or six verdicts, at most."""

Parts = tuple[Hashable | None, ...]
"""What each plugin reads of a pod, in the plugins' order; None where it reads the pod as a whole."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class SharedVerdicts:
    """What PreFilter and Filter say of all pods of which the plugins read the same."""

    skipped: frozenset[str]
    """Plugins that skip such pods at PreFilter."""
    data: dict[str, Any]
    """What they, and those that looked at nodes, keep in `CycleState.data`."""
    pre_filters: tuple[PreFilterPlugin, ...]
    """The plugins that are left to be asked at PreFilter."""
    filters: tuple[FilterPlugin | Codes, ...]
    """In the order of the profile, plugins that are left to be asked, and verdicts on all rows by those that look at nodes only."""


@dataclass(frozen=True, slots=True, eq=False)
class RowScore:
    """One active score plugin. `final` is normalised and weighted, valid on feasible rows."""

    plugin: ScorePlugin
    final: Ints


@dataclass(frozen=True, slots=True)
class SharedScores:
    """What PreScore and Score say of all pods of which the plugins read the same."""

    others: tuple[ScorePlugin, ...]
    """The plugins that are left to be asked."""
    scores: tuple[RowScore, ...]
    """Scores that no choice of feasible nodes changes."""
    total: Ints
    """Their sum per row; not to be changed."""
    raw: tuple[tuple[ScorePlugin, Ints], ...]
    """Raw scores that are normalised over the feasible nodes."""


class SharedAnswers:
    """What one profile's plugins said, by what they read.

    `pre_filters`, `filters`, `scores`: the plugins of these extension points, in order. Those in `alone` have to make ready at
    Filter or Score what they should have at another extension point; they are asked about every shape.
    """

    LIMIT: Final = 256
    """Combinations of parts that are kept, for verdicts and for scores; the one not used for the longest goes first."""
    BYTES: Final = 64 << 20
    """Memory for each of the two, as which fewer are kept of large clusters; about `_BYTES_PER_ROW` go to a combination."""

    def __init__(
        self,
        snapshot: Snapshot,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        scores: Sequence[ScorePlugin],
        alone: Container[str],
        total_type: type[np.signedinteger[Any]],
    ) -> None:
        """total_type: of sums of scores."""
        self._snapshot = snapshot
        self._pre_filters, self._filters, self._scorers = pre_filters, filters, scores
        both: Iterable[Plugin] = dict.fromkeys((*pre_filters, *filters))
        self._filter_readers = _Readers(plugin for plugin in both if plugin.name not in alone)
        self._score_readers = _Readers(plugin for plugin in scores if plugin.name not in alone)
        self._total_type = total_type
        self._structure = -1
        self._verdicts: dict[Parts, SharedVerdicts] = {}
        self._scores: dict[Parts, SharedScores] = {}
        self._nodes: Codes = np.zeros(0, dtype=np.int32)
        self._rows: IntRows | None = None
        """Those of all nodes."""

    def nodes(self) -> Codes:
        """0 for each row that is a node, `NO_NODE` for the others; not to be changed."""
        self._look_at_structure()
        return self._nodes

    def is_every_node(self, codes: Codes) -> bool:
        """Whether verdicts are known to refuse no node, and every row is one."""
        return codes is self.nodes() and self._snapshot.node_count == self._snapshot.size

    def feasible(self, codes: Codes) -> IntRows:
        """The rows with code 0; not to be changed."""
        if codes is self.nodes() and self._rows is not None:
            return self._rows
        rows: IntRows = (codes == 0).nonzero()[0]
        if codes is self._nodes:
            self._rows = rows
        return rows

    def filter_parts(self, shape: PodShape) -> Parts:
        """What the plugins of PreFilter and Filter read of a shape."""
        return self._filter_readers.parts(shape)

    def score_parts(self, shape: PodShape) -> Parts:
        """What the plugins of Score read of a shape."""
        return self._score_readers.parts(shape)

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
        readers = self._filter_readers.named(parts)
        passed = frozenset(name for name in readers if name in skipped)
        judged = {name: found for name, found in codes.items() if name in readers}
        silent = passed | {name for name, found in judged.items() if not found.any()}
        kept = {name: data[name] for name in (*passed, *judged) if name in data}
        pre_filters = tuple(one for one in self._pre_filters if one.name not in passed and one.name not in judged)
        filters = tuple(judged.get(one.name, one) for one in self._filters if one.name not in silent)
        _keep(self._verdicts, parts, SharedVerdicts(passed, kept, pre_filters, filters), self._room())

    def keep_scores(
        self,
        parts: Parts,
        silent: Iterable[str],
        scores: Iterable[RowScore],
        raw: Iterable[tuple[ScorePlugin, Ints]],
    ) -> SharedScores:
        """Remember what was worked out since the last look: who has nothing to say, fixed scores, and raw ones to normalise.

        What has been said by plugins that read more than a part is left out.
        """
        readers = self._score_readers.named(parts)
        fixed = tuple(item for item in scores if item.plugin.name in readers)
        open_ones = tuple(item for item in raw if item[0].name in readers)
        known = {name for name in silent if name in readers}
        known |= {item.plugin.name for item in fixed} | {plugin.name for plugin, _ in open_ones}
        total = np.zeros(self._snapshot.size, dtype=self._total_type)
        for item in fixed:
            total += item.final
        others = tuple(plugin for plugin in self._scorers if plugin.name not in known)
        answer = SharedScores(others, fixed, total, open_ones)
        _keep(self._scores, parts, answer, self._room())
        return answer

    def _room(self) -> int:
        return max(1, min(self.LIMIT, self.BYTES // (_BYTES_PER_ROW * max(self._snapshot.size, 1))))

    def _look_at_structure(self) -> None:
        snapshot = self._snapshot
        if self._structure == snapshot.structure:
            return
        self._structure = snapshot.structure
        self._verdicts.clear()
        self._scores.clear()
        self._rows = None
        self._nodes = np.where(snapshot.alive[snapshot.all_rows], 0, NO_NODE).astype(np.int32)


class _Readers:
    """The plugins of which it is asked what they read."""

    __slots__ = ("_names", "_reads")

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        found = tuple(plugins)
        self._names = [plugin.name for plugin in found]
        self._reads = [plugin.reads for plugin in found]

    def parts(self, shape: PodShape) -> Parts:
        """What each of them reads of a shape."""
        return tuple([reads(shape) for reads in self._reads])

    def named(self, parts: Parts) -> set[str]:
        """The names of those that read no more than a part."""
        return {name for name, part in zip(self._names, parts, strict=True) if part is not None}


def _used(table: dict[Parts, Answer], parts: Parts) -> Answer | None:
    found = table.pop(parts, None)
    if found is not None:
        table[parts] = found
    return found


def _keep(table: dict[Parts, Answer], parts: Parts, answer: Answer, limit: int) -> None:
    if len(table) >= limit:
        del table[next(iter(table))]
    table[parts] = answer
