"""Scores that depend on more than the row: normalised over the feasible nodes, or counting pods elsewhere.

What is kept, and what makes it void: the raw score per row (the plugin says which rows moved), the extremes among the
rows that take part, and the weighted final score per row. If an extreme moves, all rows are scaled again; if not, only
those whose raw score moved. Everything starts over with a new structure of the cluster, with the plugin's word
(`rescore` gives None), and when many verdicts changed at once.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bayplan.scheduler.framework.extension_points import (
    EVERY_ROW,
    FEW_ROWS,
    Moved,
    Plugin,
    ScaledScorePlugin,
    Scope,
    ScorePlugin,
)
from bayplan.scheduler.framework.meter import timed_plugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Codes, PluginError, Skip
from bayplan.scheduler.missing_points import score_failure
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.snapshot.labels import Bools, ChangedRows, IntRows, Ints, listed

_FEW: Final = 4
"""Up to so many rows it costs least to look at them one by one."""
_LOOKED_UP: Final = 4
"""So many rows for each raw score that there may be make up for scaling all of these."""
_BEYOND: Final = {size: int(np.iinfo(f"i{size}").max) for size in (1, 2, 4, 8)}
"""The largest integer of so many bytes: it stands for rows that take no part when the least raw score is looked for."""


def pre_score(plugin: Plugin, state: CycleState, shape: PodShape, feasible: Ints, profile: Profile) -> Skip | None:
    """Run the plugin's PreScore, if it has one. Raises PluginError.

    A plugin whose PreScore the profile leaves out prepares itself if it can, and has something to say in any case.
    """
    name = plugin.name
    missing = profile.missing_for_scores.get(name)
    if missing:
        raise PluginError(name, missing)
    preparing = profile.pre_scoring.get(name)
    if preparing is None:
        return None
    try:
        if profile.meter is None:
            skip = preparing.pre_score(state, shape, feasible)
        else:
            with timed_plugin(profile.meter, name, "PreScore"):
                skip = preparing.pre_score(state, shape, feasible)
    except PluginError as error:
        where = f'running PreScore plugin "{name}": ' if missing is None else score_failure(name)
        raise PluginError(name, f"{where}{error}") from error
    if missing is not None:
        return None
    if skip is None:
        profile.evaluations[name, "PreScore"].value += 1.0
    return skip


class CrossNodeScores:
    """The scores of one plugin that are asked for all feasible rows again whenever anything changed.

    `final`: normalised and weighted, per row; means nothing on rows that are not feasible. `skip`: PreScore's
    word that the plugin has nothing to say at the moment, if it has none; `final` is zero then.
    """

    def __init__(self, plugin: ScorePlugin, weight: int, raw: Ints | None, profile: Profile) -> None:
        self.plugin = plugin
        self.weight = weight
        self.profile = profile
        self.meter = profile.meter
        self.asked = profile.evaluations[plugin.name, "Score"]
        """About how many nodes the plugin was asked, for all pods of the profile."""
        self.skip: Skip | None = None
        self.final: Ints = np.zeros(0, dtype=profile.total_type)
        self.given = raw
        """Raw scores that depend on nodes only, known already; None if PreScore and Score are to be asked."""

    def start(self, state: CycleState, shape: PodShape, codes: Codes, feasible: Ints | None = None) -> None:
        """Work everything out. feasible: the rows with code 0, if somebody has looked for them already. Raises PluginError."""
        if feasible is None:
            feasible = (codes == 0).nonzero()[0]
        self.final = np.zeros(len(codes), dtype=self.profile.total_type)
        self.skip = self._pre_score(state, shape, feasible)
        if self.skip is not None:
            return
        plugin = self.plugin
        if self.given is not None:
            scores: Ints = self.given[feasible]
        else:
            with timed_plugin(self.meter, plugin.name, "Score"):
                scores = plugin.score(state, shape, feasible)
            self.asked.value += len(feasible)
        self.final[feasible] = plugin.normalize(state, shape, feasible, scores) * self.weight

    def catch_up(self, state: CycleState, shape: PodShape, codes: Codes, rows: ChangedRows) -> Moved:
        """Pods came or went on some rows, or their verdict changed. Returns the rows whose final score may be new."""
        self.start(state, shape, codes)
        return EVERY_ROW

    def _pre_score(self, state: CycleState, shape: PodShape, feasible: Ints | None) -> Skip | None:
        """What PreScore says. feasible: None only where raw scores are given, and nobody is to be asked."""
        if self.given is not None or feasible is None:
            return None
        return pre_score(self.plugin, state, shape, feasible, self.profile)


class KeptScores(CrossNodeScores):
    """The scores of a plugin that scales by extremes, kept up to date row by row."""

    def __init__(self, plugin: ScaledScorePlugin, weight: int, raw: Ints | None, profile: Profile) -> None:
        super().__init__(plugin, weight, raw, profile)
        self.scaled = plugin
        self._raw: Ints = np.zeros(0, dtype=np.int64)
        self._low: Ints | None = None
        self._high: Ints | None = None
        """The raw scores of rows that take part, `_beyond` or its opposite in place of the others; None if all do."""
        self._beyond = 0
        """Beyond every raw score."""
        self._counted: Bools | None = None
        self._lowest = self._highest = 0
        self._level: int | None = None
        """The final score, if it is the same on all rows that are counted."""

    def start(self, state: CycleState, shape: PodShape, codes: Codes, feasible: Ints | None = None) -> None:
        self._level = None
        if self.given is None and feasible is None:
            feasible = (codes == 0).nonzero()[0]
        self.skip = self._pre_score(state, shape, feasible)
        if self.skip is not None:
            self.final = np.zeros(len(codes), dtype=self.profile.total_type)
            return
        self._counted = self.scaled.counted(state, shape)
        if self._counted is not None and self._counted.all():
            self._counted = None
        self._take_all(state, shape, codes)

    def catch_up(self, state: CycleState, shape: PodShape, codes: Codes, rows: ChangedRows) -> Moved:
        if self.meter is None:
            return self._catch_up(state, shape, codes, rows)
        with timed_plugin(self.meter, self.plugin.name, "Score"):
            return self._catch_up(state, shape, codes, rows)

    def _catch_up(self, state: CycleState, shape: PodShape, codes: Codes, rows: ChangedRows) -> Moved:
        moved: Moved | None = None
        if self.skip is None:
            moved = self._rescore(state, shape, codes, rows)
        if moved is None:
            self.start(state, shape, codes)
            return EVERY_ROW
        if isinstance(moved, slice) or len(moved) > FEW_ROWS:
            return EVERY_ROW if self._take_all(state, shape, codes) else []
        if len(moved) <= _FEW:
            for row in moved:
                self._raw[row] = self.plugin.score_row(state, shape, row)
        else:
            index = np.array(moved, dtype=np.intp)
            self._raw[index] = self.plugin.score(state, shape, index)
        self.asked.value += len(moved)
        self._put_in(codes, rows)
        self._put_in(codes, moved)
        if self._find_extremes():
            return EVERY_ROW if self._scale_all(state, shape) else []
        if moved and self._level is None:
            self._scale_few(state, shape, moved)
        return moved

    def _rescore(self, state: CycleState, shape: PodShape, codes: Codes, rows: ChangedRows) -> Moved | None:
        scope = self.plugin.score_scope
        if scope is Scope.CLUSTER:
            return self.scaled.rescore(state, shape, codes, rows)
        return listed(rows) if scope is Scope.ROW else []

    def _take_all(self, state: CycleState, shape: PodShape, codes: Codes) -> bool:
        """Ask for all raw scores, find out who takes part, and scale; tells whether a final score may be new."""
        if self.given is not None:
            self._raw = self.given
        else:
            with timed_plugin(self.meter, self.plugin.name, "Score"):
                self._raw = self.plugin.score(state, shape, slice(0, len(codes)))
            self.asked.value += self.profile.snapshot.node_count
        part = codes == 0
        if self._counted is not None:
            part &= self._counted
        self._low = self._high = None
        self._beyond = _BEYOND[self._raw.itemsize]
        if np.count_nonzero(part) < len(part):
            self._low = np.where(part, self._raw, self._beyond)
            self._high = np.where(part, self._raw, -self._beyond)
        self._find_extremes()
        return self._scale_all(state, shape)

    def _put_in(self, codes: Codes, rows: ChangedRows) -> None:
        """Let the extremes take in what is said of some rows now."""
        low, high = self._low, self._high
        if len(rows) > _FEW:
            self._put_in_many(codes, np.asarray(rows, dtype=np.intp))
            return
        for row in listed(rows):
            takes_part = codes.item(row) == 0 and (self._counted is None or self._counted.item(row))
            if low is None or high is None:
                if takes_part:
                    continue
                self._low, self._high = low, high = self._raw.copy(), self._raw.copy()
            low[row] = self._raw[row] if takes_part else self._beyond
            high[row] = self._raw[row] if takes_part else -self._beyond

    def _put_in_many(self, codes: Codes, rows: IntRows) -> None:
        part = codes[rows] == 0
        if self._counted is not None:
            part &= self._counted[rows]
        if self._low is None or self._high is None:
            if np.count_nonzero(part) == len(part):
                return
            self._low, self._high = self._raw.copy(), self._raw.copy()
        self._low[rows] = np.where(part, self._raw[rows], self._beyond)
        self._high[rows] = np.where(part, self._raw[rows], -self._beyond)

    def _find_extremes(self) -> bool:
        """Find the least and the greatest raw score of those that take part; tells whether one is new."""
        low = self._raw if self._low is None else self._low
        high = self._raw if self._high is None else self._high
        lowest, highest = int(np.minimum.reduce(low)), int(np.maximum.reduce(high))
        if lowest > highest:
            lowest = highest = 0
        if lowest == self._lowest and highest == self._highest:
            return False
        self._lowest, self._highest = lowest, highest
        return True

    def _scale_all(self, state: CycleState, shape: PodShape) -> bool:
        """All final scores; tells whether one may be new."""
        lowest, highest, counted = self._lowest, self._highest, self._counted
        if lowest == highest:
            level = self.scaled.scale_one(state, shape, lowest, lowest, highest) * self.weight
            if level == self._level:
                return False
            self._level = level
            final: Ints = np.full(len(self._raw), level, dtype=self.profile.total_type)
        else:
            self._level = None
            final = self._scaled(state, shape)
        if counted is not None:
            final = np.where(counted, final, final.dtype.type(0))
        self.final = final
        return True

    def _scaled(self, state: CycleState, shape: PodShape) -> Ints:
        """The final scores of all rows; of rows that take no part, any. Where there are few raw scores, each is scaled once and then looked up."""
        raw, lowest, highest, weighed = self._raw, self._lowest, self._highest, self.profile.weighed
        span = highest - lowest + 1
        if span * _LOOKED_UP > len(raw):
            return weighed(self.scaled.scale(state, shape, raw, lowest, highest), self.weight)
        each = np.arange(lowest, highest + 1, dtype=raw.dtype)
        table = weighed(self.scaled.scale(state, shape, each, lowest, highest), self.weight)
        return table.take(np.subtract(raw, lowest, dtype=np.intp), mode="clip")

    def _scale_few(self, state: CycleState, shape: PodShape, rows: list[int]) -> None:
        """The final scores of some rows, while the extremes stay."""
        for row in rows:
            if self._counted is None or self._counted.item(row):
                score = self.scaled.scale_one(state, shape, self._raw.item(row), self._lowest, self._highest)
                self.final[row] = score * self.weight


def cross_node_scores(plugin: ScorePlugin, weight: int, raw: Ints | None, profile: Profile) -> CrossNodeScores:
    """The keeper of a plugin's scores. `raw`: those that depend on nodes only, if they are known."""
    if isinstance(plugin, ScaledScorePlugin):
        return KeptScores(plugin, weight, raw, profile)
    return CrossNodeScores(plugin, weight, raw, profile)
