"""Scores that pods of many shapes have in common: those that follow from a row and from what a pod asks for.

A cluster has many shapes of pods (those of each Deployment are one), but few sets of requests. So what one shape was told
is kept for the next, and asked for again only on the rows whose pods changed since then.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from bayplan.scheduler.framework.extension_points import ScorePlugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.snapshot.labels import ChangedRows, Ints, listed
from bayplan.scheduler.snapshot.snapshot import Snapshot

_FEW: Final = 8
"""Up to so many rows are asked about one by one."""


@dataclass(slots=True)
class _Kept:
    """Raw scores of all rows, as of a structure of the cluster and a position in its log."""

    scores: Ints
    structure: int
    position: int


class RowScores:
    """The raw scores of one profile's plugins, by `ScorePlugin.row_key`."""

    LIMIT: Final = 64
    """Sets of scores that are kept; the one that was not asked for the longest goes first."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._kept: dict[tuple[str, Hashable], _Kept] = {}

    def of(self, plugin: ScorePlugin, state: CycleState, shape: PodShape) -> tuple[Ints, int]:
        """What `score` says of all rows, which is not to be changed, and about how many nodes the plugin was asked. Raises PluginError."""
        snapshot = self._snapshot
        needs = plugin.row_key(state)
        if needs is None:
            return plugin.score(state, shape, snapshot.all_rows), snapshot.node_count
        key = (plugin.name, needs)
        kept = self._kept.pop(key, None)
        rows = self._rows_to_ask(kept)
        if kept is None or rows is None:
            kept = _Kept(plugin.score(state, shape, snapshot.all_rows), snapshot.structure, snapshot.position)
        else:
            if len(rows) <= _FEW:
                for row in listed(rows):
                    kept.scores[row] = plugin.score_row(state, shape, row)
            else:
                index = np.asarray(rows, dtype=np.intp)
                kept.scores[index] = plugin.score(state, shape, index)
            kept.position = snapshot.position
        if len(self._kept) >= self.LIMIT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = kept
        return kept.scores, snapshot.node_count if rows is None else len(rows)

    def _rows_to_ask(self, kept: _Kept | None) -> ChangedRows | None:
        """The rows whose pods changed since then; None if all have to be asked about."""
        if kept is None or kept.structure != self._snapshot.structure:
            return None
        return self._snapshot.changed_rows(kept.position)
