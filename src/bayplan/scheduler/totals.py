"""The scores of one pod shape, their sum per row, and the best rows.

Scores that depend on the row alone are asked for again where pods changed; those that look at all feasible rows, or at
pods elsewhere, are kept by `wide_scores`. Totals and the ranking follow the rows that moved. `forget` starts everything
over, as does an error of a plugin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from bayplan.scheduler.framework.extension_points import Scope, ScorePlugin
from bayplan.scheduler.framework.meter import timed_plugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Codes
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.ranking import NameOrder, Ranking
from bayplan.scheduler.snapshot.labels import Ints
from bayplan.scheduler.wide_scores import WideScores, pre_score, wide_scores
from bayplan.support.metrics import Counter

NO_NODE: Final = -1
"""The verdict of rows that are not nodes, and the total of rows that are not feasible."""

_OUT: Final = -(1 << 52)
"""The total of rows that are not feasible while totals are added up: no score makes up for it."""


@dataclass(slots=True)
class Scoring:
    """One active score plugin. `final` is normalised and weighted, valid on feasible rows."""

    plugin: ScorePlugin
    weight: int
    final: Ints
    fixed: bool
    """Depends on nodes only: never asked again while the structure stays."""


class Totals:
    """See the module. `ranking`: the best rows; valid after `catch_up`."""

    def __init__(self, profile: Profile, shape: PodShape) -> None:
        self.profile = profile
        self.shape = shape
        self.ranking = Ranking(np.zeros(0, dtype=np.int64), NameOrder(()))
        self._settled: list[Scoring] = []
        self._settled_total: Ints | None = None
        """Per row, the sum of the scores that depend on that row alone; None before the first time."""
        self._wide: list[WideScores] = []
        self._base: Ints = np.zeros(0, dtype=np.int64)
        """`_settled_total`, `_OUT` where not feasible."""
        self._totals: Ints = self._base
        """`_base` and the wide scores; the very same array if there are none."""
        self._shared = False
        self._asked: list[Counter] = []
        """How often the plugins were asked whose scores are asked for again row by row."""

    @property
    def is_known(self) -> bool:
        """Whether there are scores that can be brought up to date."""
        return self._settled_total is not None

    def forget(self) -> None:
        """Nodes or objects changed: start over when scores are needed next."""
        self._settled_total = None
        self._shared = False

    def share(self) -> None:
        """The scores are referred to from outside: leave them as they are and change copies from now on."""
        self._shared = True
        for wide in self._wide:
            wide.share()

    def scorings(self) -> list[Scoring]:
        """The scores per plugin."""
        return [*self._settled, *_said(self._wide)]

    def catch_up(self, state: CycleState, codes: Codes, rows: list[int], many: bool, order: NameOrder) -> None:
        """Bring everything up to date. On `rows` pods or verdicts changed; with `many`, verdicts did on others as well.

        Raises PluginError.
        """
        settled_total, self._settled_total = self._settled_total, None
        if settled_total is None:
            settled_total = self._settle(state, codes)
            self._add_up(codes, settled_total, order)
        else:
            self._own()
            for row in rows:
                self._score_row(state, row, settled_total)
            for counter in self._asked:
                counter.value += len(rows)
            if many:
                for wide in self._wide:
                    wide.start(state, self.shape, codes)
                self._add_up(codes, settled_total, order)
            else:
                self._follow(state, codes, rows, settled_total, order)
        self._settled_total = settled_total

    def among(self, state: CycleState, codes: Codes) -> tuple[list[Scoring], Ints]:
        """Scores and totals if exactly the rows with code 0 were feasible; -1 for the others. Raises PluginError."""
        if self._settled_total is None:
            raise LookupError("no scores are known; bring them up to date first")
        wide = [wide_scores(item.plugin, item.weight, item.given, self.profile) for item in self._wide]
        totals = self._settled_total.copy()
        separate = state.for_scores()
        for item in wide:
            item.start(separate, self.shape, codes)
            totals += item.final
        totals[codes != 0] = NO_NODE
        return [*self._settled, *_said(wide)], totals

    def _settle(self, state: CycleState, codes: Codes) -> Ints:
        """Divide the score plugins into those with one answer per row and those that look at all feasible nodes."""
        shape, snapshot, meter = self.shape, self.profile.snapshot, self.profile.meter
        alive = snapshot.alive[: snapshot.size]
        feasible = np.flatnonzero(codes == 0)
        self._settled, self._wide, self._asked = [], [], []
        settled_total = np.zeros(snapshot.size, dtype=np.int64)
        for preparing in self.profile.pre_score:
            if self.profile.score and preparing.name not in self.profile.weights:
                pre_score(preparing, state, shape, feasible, self.profile)
        for plugin in self.profile.score:
            weight = self.profile.weights[plugin.name]
            if plugin.score_scope is Scope.CLUSTER:
                self._widen(state, codes, plugin, None)
                continue
            if pre_score(plugin, state, shape, feasible, self.profile) is not None:
                continue
            with timed_plugin(meter, plugin.name, "Score"):
                scores, asked = self.profile.row_scores.of(plugin, state, shape)
            counter = self.profile.evaluations[plugin.name, "Score"]
            counter.value += asked
            if plugin.normalizes:
                level = scores[alive]
                if not plugin.equal_stays_equal or (level != level[:1]).any():
                    self._widen(state, codes, plugin, scores if plugin.score_scope is Scope.NODE else None)
                    continue
                scores = plugin.normalize(state, shape, snapshot.all_rows, np.full_like(scores, level[0]))
            final = scores * weight
            settled_total += final
            self._settled.append(Scoring(plugin, weight, final, plugin.score_scope is Scope.NODE))
            if plugin.score_scope is not Scope.NODE:
                self._asked.append(counter)
        return settled_total

    def _widen(self, state: CycleState, codes: Codes, plugin: ScorePlugin, raw: Ints | None) -> None:
        """Keep a plugin's scores from now on, unless it has nothing to say for good."""
        wide = wide_scores(plugin, self.profile.weights[plugin.name], raw, self.profile)
        wide.start(state, self.shape, codes)
        if wide.skip is None or not wide.skip.lasting:
            self._wide.append(wide)

    def _follow(self, state: CycleState, codes: Codes, rows: list[int], settled_total: Ints, order: NameOrder) -> None:
        """Totals and ranking after changes on a few rows; all of them anew if a plugin's scores moved everywhere."""
        base = self._base
        moved: list[int] | None = rows
        for wide in self._wide:
            more = wide.catch_up(state, self.shape, codes, rows)
            if isinstance(more, slice):
                moved = None
            elif moved is not None and more:
                moved = moved + more
        if moved is None:
            for row in rows:
                base[row] = settled_total.item(row) if codes.item(row) == 0 else _OUT
            self._add_wide(order)
            return
        totals = self._totals
        for row in moved:
            before = totals.item(row)
            total = settled_total.item(row) if codes.item(row) == 0 else _OUT
            base[row] = total
            if self._wide:
                for wide in self._wide:
                    total += wide.final.item(row)
                totals[row] = total
            self.ranking.update(row, before, total)

    def _add_up(self, codes: Codes, settled_total: Ints, order: NameOrder) -> None:
        """All totals, and the ranking, from the scores."""
        self._base = np.where(codes == 0, settled_total, _OUT)
        self._add_wide(order)

    def _add_wide(self, order: NameOrder) -> None:
        totals = self._base
        for wide in self._wide:
            totals = totals + wide.final
        self._totals = totals
        self.ranking.start(totals, order)

    def _score_row(self, state: CycleState, row: int, settled_total: Ints) -> None:
        total = settled_total.item(row)
        for item in self._settled:
            if not item.fixed:
                score = item.plugin.score_row(state, self.shape, row) * item.weight
                total += score - item.final.item(row)
                item.final[row] = score
        settled_total[row] = total

    def _own(self) -> None:
        if not self._shared:
            return
        self._shared = False
        self._settled = [
            item if item.fixed else Scoring(item.plugin, item.weight, item.final.copy(), False)
            for item in self._settled
        ]


def _said(wide: list[WideScores]) -> list[Scoring]:
    return [Scoring(item.plugin, item.weight, item.final, False) for item in wide if item.skip is None]
