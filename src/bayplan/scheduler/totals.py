"""The scores of one pod shape, their sum per row, and the best rows.

Scores that depend on the row alone are asked for again where pods changed; those that look at all feasible rows, or at
pods elsewhere, are kept by `cross_node_scores`. Totals and the ranking follow the rows that moved. `forget` starts everything
over, as does an error of a plugin.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bayplan.scheduler.cross_node_scores import CrossNodeScores, cross_node_scores, pre_score
from bayplan.scheduler.framework.extension_points import Scope, ScorePlugin
from bayplan.scheduler.framework.meter import timed_plugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Codes
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.ranking import NameOrder, Ranking
from bayplan.scheduler.shared_answers import NO_NODE, Parts, RowScore
from bayplan.scheduler.snapshot.labels import ChangedRows, IntRows, Ints, listed
from bayplan.support.metrics import Counter

_FEW: Final = 8
"""Up to so many rows it costs least to look at them one by one."""
_OUT: Final = -(1 << 52)
"""The total of rows that are not feasible while totals are added up: no score makes up for it."""


_NO_RANKING: Final = Ranking(np.zeros(0, dtype=np.int64), NameOrder(()))


class Totals:
    """See the module. `ranking`: the best rows; valid after `catch_up`."""

    def __init__(self, profile: Profile, shape: PodShape) -> None:
        self.profile = profile
        self.shape = shape
        self.ranking: Ranking = _NO_RANKING
        self._settled: list[RowScore] = []
        self._settled_total: Ints | None = None
        """Per row, the sum of the scores that depend on that row alone; None before the first time."""
        self._cross_node: list[CrossNodeScores] = []
        self._base: Ints = np.zeros(0, dtype=np.int64)
        """`_settled_total`, `_OUT` where not feasible."""
        self._totals: Ints = self._base
        """`_base` and the cross-node scores; the very same array if there are none."""
        self._shared = False
        self._parts: Parts = ()
        """What the plugins read of the shape when the scores were worked out."""
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

    def look_at_images(self) -> None:
        """Images came to nodes or left them: start over if a plugin reads something else of the shape by now."""
        if self.is_known and self._parts != self.profile.shared_answers.score_parts(self.shape):
            self.forget()

    def share(self) -> None:
        """The scores are referred to from outside: leave them as they are and change copies from now on."""
        self._shared = True
        for cross_node in self._cross_node:
            cross_node.share()

    def scorings(self) -> list[RowScore]:
        """The scores per plugin, in the order of the profile."""
        return self._in_order([*self._settled, *_said(self._cross_node)])

    def catch_up(self, state: CycleState, codes: Codes, rows: ChangedRows, many: bool, order: NameOrder) -> None:
        """Bring everything up to date. On `rows` pods or verdicts changed; with `many`, verdicts did on others as well.

        Raises PluginError.
        """
        settled_total, self._settled_total = self._settled_total, None
        if settled_total is None:
            settled_total = self._settle(state, codes)
            self._add_up(codes, settled_total, order)
        else:
            self._own()
            if len(rows) <= _FEW:
                for row in listed(rows):
                    self._score_row(state, row, settled_total)
            else:
                self._score_rows(state, np.asarray(rows, dtype=np.intp), settled_total)
            for counter in self._asked:
                counter.value += len(rows)
            if many:
                for cross_node in self._cross_node:
                    cross_node.start(state, self.shape, codes)
                self._add_up(codes, settled_total, order)
            else:
                self._follow(state, codes, rows, settled_total, order)
        self._settled_total = settled_total

    def among(self, state: CycleState, codes: Codes) -> tuple[list[RowScore], Ints]:
        """Scores and totals if exactly the rows with code 0 were feasible; -1 for the others. Raises PluginError."""
        if self._settled_total is None:
            raise LookupError("no scores are known; bring them up to date first")
        cross_node = [
            cross_node_scores(item.plugin, item.weight, item.given, self.profile) for item in self._cross_node
        ]
        totals = self._settled_total.copy()
        separate = state.for_scores()
        for item in cross_node:
            item.start(separate, self.shape, codes)
            totals += item.final
        totals[codes != 0] = NO_NODE
        return self._in_order([*self._settled, *_said(cross_node)]), totals

    def _in_order(self, scores: list[RowScore]) -> list[RowScore]:
        by_name = {item.plugin.name: item for item in scores}
        return [by_name[plugin.name] for plugin in self.profile.score if plugin.name in by_name]

    def _settle(self, state: CycleState, codes: Codes) -> Ints:
        """Divide the score plugins into those with one answer per row and those that look at all feasible nodes."""
        shape, snapshot, profile = self.shape, self.profile.snapshot, self.profile
        feasible = (codes == 0).nonzero()[0]
        self._settled, self._cross_node, self._asked = [], [], []
        parts = self._parts = profile.shared_answers.score_parts(shape)
        known = profile.shared_answers.scores(parts)
        if known is not None:
            self._settled += known.scores
            settled_total = known.total.copy()
            for plugin, raw in known.raw:
                self._keep_cross_node(state, codes, feasible, plugin, raw)
        else:
            settled_total = np.zeros(snapshot.size, dtype=np.int64)
        for preparing in profile.pre_score:
            if profile.score and preparing.name not in profile.weights:
                pre_score(preparing, state, shape, feasible, profile)
        silent: list[str] = []
        raws: list[tuple[ScorePlugin, Ints]] = []
        for plugin in profile.score:
            if known is not None and plugin.name in known.known:
                continue
            if plugin.score_scope is Scope.CLUSTER:
                if not self._keep_cross_node(state, codes, feasible, plugin, None):
                    silent.append(plugin.name)
            elif pre_score(plugin, state, shape, feasible, profile) is not None:
                silent.append(plugin.name)
            else:
                given = self._settle_one(state, plugin, settled_total)
                if given is None:
                    continue
                is_fixed = plugin.score_scope is Scope.NODE
                self._keep_cross_node(state, codes, feasible, plugin, given if is_fixed else None)
                if is_fixed:
                    raws.append((plugin, given))
        if known is None:
            fixed = [item for item in self._settled if item.fixed]
            profile.shared_answers.keep_scores(parts, silent, fixed, raws)
        return settled_total

    def _settle_one(self, state: CycleState, plugin: ScorePlugin, settled_total: Ints) -> Ints | None:
        """Ask a plugin for all rows and add its scores up; or return them if they depend on those of other rows."""
        profile = self.profile
        with timed_plugin(profile.meter, plugin.name, "Score"):
            scores, asked = profile.row_scores.of(plugin, state, self.shape)
        counter = profile.evaluations[plugin.name, "Score"]
        counter.value += asked
        if plugin.normalizes:
            level = scores[profile.snapshot.alive[: profile.snapshot.size]]
            if not plugin.equal_stays_equal or (level != level[:1]).any():
                return scores
            scores = plugin.normalize(state, self.shape, profile.snapshot.all_rows, np.full_like(scores, level[0]))
        weight = profile.weights[plugin.name]
        final = scores * weight
        settled_total += final
        self._settled.append(RowScore(plugin, weight, final, plugin.score_scope is Scope.NODE))
        if plugin.score_scope is not Scope.NODE:
            self._asked.append(counter)
        return None

    def _keep_cross_node(
        self, state: CycleState, codes: Codes, feasible: Ints, plugin: ScorePlugin, raw: Ints | None
    ) -> bool:
        """Keep a plugin's scores from now on, unless it has nothing to say for good; tells whether it has."""
        cross_node = cross_node_scores(plugin, self.profile.weights[plugin.name], raw, self.profile)
        cross_node.start(state, self.shape, codes, feasible)
        if cross_node.skip is not None and cross_node.skip.lasting:
            return False
        self._cross_node.append(cross_node)
        return True

    def _follow(
        self, state: CycleState, codes: Codes, rows: ChangedRows, settled_total: Ints, order: NameOrder
    ) -> None:
        """Totals and ranking after changes on some rows; all of them anew if a plugin's scores moved everywhere."""
        base = self._base
        others: list[int] = []
        everywhere = False
        for cross_node in self._cross_node:
            more = cross_node.catch_up(state, self.shape, codes, rows)
            if isinstance(more, slice):
                everywhere = True
            else:
                others += more
        if everywhere:
            index = np.asarray(rows, dtype=np.intp)
            base[index] = np.where(codes.take(index) == 0, settled_total.take(index), _OUT)
            self._add_cross_node(order)
            return
        totals = self._totals
        if len(rows) + len(others) > _FEW:
            index = np.asarray(rows, dtype=np.intp)
            if others:
                index = np.concatenate((index, np.array(others, dtype=np.intp)))
            changed: Ints = settled_total.take(index)
            verdicts = codes.take(index)
            if np.count_nonzero(verdicts):
                changed[verdicts != 0] = _OUT
            base[index] = changed
            if self._cross_node:
                for cross_node in self._cross_node:
                    changed += cross_node.final.take(index)
                totals[index] = changed
            self.ranking.start(totals, order)
            return
        for row in [*rows, *others]:
            before = totals.item(row)
            total = settled_total.item(row) if codes.item(row) == 0 else _OUT
            base[row] = total
            if self._cross_node:
                for cross_node in self._cross_node:
                    total += cross_node.final.item(row)
                totals[row] = total
            self.ranking.update(row, before, total)

    def _add_up(self, codes: Codes, settled_total: Ints, order: NameOrder) -> None:
        """All totals, and the ranking, from the scores."""
        self._base = np.where(codes == 0, settled_total, _OUT)
        self._add_cross_node(order)

    def _add_cross_node(self, order: NameOrder) -> None:
        totals = self._base
        for cross_node in self._cross_node:
            totals = totals + cross_node.final
        self._totals = totals
        if self.ranking is _NO_RANKING:
            self.ranking = Ranking(totals, order)
        else:
            self.ranking.start(totals, order)

    def _score_row(self, state: CycleState, row: int, settled_total: Ints) -> None:
        total = settled_total.item(row)
        for item in self._settled:
            if not item.fixed:
                score = item.plugin.score_row(state, self.shape, row) * item.weight
                total += score - item.final.item(row)
                item.final[row] = score
        settled_total[row] = total

    def _score_rows(self, state: CycleState, rows: IntRows, settled_total: Ints) -> None:
        """`_score_row` for many rows, each of them once."""
        total = settled_total.take(rows)
        for item in self._settled:
            if not item.fixed:
                scores = item.plugin.score(state, self.shape, rows)
                if item.weight != 1:
                    scores = scores * item.weight
                total += scores
                total -= item.final.take(rows)
                item.final[rows] = scores
        settled_total[rows] = total

    def _own(self) -> None:
        if not self._shared:
            return
        self._shared = False
        self._settled = [
            item if item.fixed else RowScore(item.plugin, item.weight, item.final.copy(), False)
            for item in self._settled
        ]


def _said(cross_node: list[CrossNodeScores]) -> list[RowScore]:
    return [RowScore(item.plugin, item.weight, item.final, False) for item in cross_node if item.skip is None]
