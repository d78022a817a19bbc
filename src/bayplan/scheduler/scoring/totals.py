"""The sum per row of the scores of one pod shape, and the best rows.

Scores that depend on the row alone are asked for again where pods changed, and only their sum is kept; those that look at all
feasible rows, or at pods elsewhere, are kept by `cross_node_scores`. Totals and the ranking follow the rows that moved. `forget`
starts everything over, as does an error of a plugin.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bayplan.scheduler.framework.extension_points import Scope, ScorePlugin
from bayplan.scheduler.framework.meter import timed_plugin
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Codes
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.scoring.cross_node_scores import CrossNodeScores, cross_node_scores, pre_score
from bayplan.scheduler.scoring.ranking import NameOrder, Ranking
from bayplan.scheduler.scoring.shared_answers import NO_NODE, Parts, RowScore
from bayplan.scheduler.snapshot.labels import ChangedRows, IntRows, Ints, listed
from bayplan.support.metrics.instruments import Counter

_FEW: Final = 4
"""Up to so many rows it costs least to look at them one by one."""

_NO_RANKING: Final = Ranking(np.zeros(0, dtype=np.int64), NameOrder(()))


class Totals:
    """See the module. `ranking`: the best rows; valid after `catch_up`."""

    def __init__(self, profile: Profile, shape: PodShape) -> None:
        self.profile = profile
        self.shape = shape
        self.ranking: Ranking = _NO_RANKING
        self._fixed: tuple[RowScore, ...] = ()
        """Scores that depend on nodes only."""
        self._fixed_total: Ints = np.zeros(0, dtype=np.int64)
        """Their sum per row, which others may use as well."""
        self._by_row: list[tuple[ScorePlugin, int, Counter]] = []
        """The plugins that are asked again row by row, with their weights and how often they were asked."""
        self._settled_total: Ints | None = None
        """Per row, the sum of the scores that depend on that row alone; None before the first time."""
        self._cross_node: list[CrossNodeScores] = []
        self._totals: Ints = self._fixed_total
        """All scores, less than 0 where not feasible."""
        self._parts: Parts = ()
        """What the plugins read of the shape when the scores were worked out."""

    @property
    def is_known(self) -> bool:
        """Whether there are scores that can be brought up to date."""
        return self._settled_total is not None

    @property
    def cross_node_plugins(self) -> int:
        """How many plugins' scores depend on other rows."""
        return len(self._cross_node)

    def forget(self) -> None:
        """Nodes or objects changed: start over when scores are needed next."""
        self._settled_total = None

    def look_at_images(self) -> None:
        """Images came to nodes or left them: start over if a plugin reads something else of the shape by now."""
        if self.is_known and self._parts != self.profile.shared_answers.score_parts(self.shape):
            self.forget()

    def scorings(self, state: CycleState) -> list[RowScore]:
        """The scores per plugin, in the order of the profile, right after `catch_up`. Raises PluginError."""
        return self._in_order([*self._row_scores(state), *_said(self._cross_node)])

    def scores_on(self, state: CycleState, row: int) -> dict[str, int]:
        """The scores of one feasible row by plugin, right after `catch_up`. Raises PluginError."""
        found = {item.plugin.name: item.final.item(row) for item in self._fixed}
        for plugin, weight, _ in self._by_row:
            found[plugin.name] = plugin.score_row(state, self.shape, row) * weight
        return found | {item.plugin.name: item.final.item(row) for item in self._cross_node if item.skip is None}

    def catch_up(self, state: CycleState, codes: Codes, rows: ChangedRows, many: bool, order: NameOrder) -> None:
        """Bring everything up to date. On `rows` pods or verdicts changed; with `many`, verdicts did on others as well.

        Raises PluginError.
        """
        settled_total, self._settled_total = self._settled_total, None
        if settled_total is None:
            settled_total = self._settle(state, codes)
            self._add_up(codes, settled_total, order)
        else:
            if len(rows) <= _FEW:
                for row in listed(rows):
                    self._score_row(state, row, settled_total)
            else:
                self._score_rows(state, np.asarray(rows, dtype=np.intp), settled_total)
            if many:
                for cross_node in self._cross_node:
                    cross_node.start(state, self.shape, codes)
                self._add_up(codes, settled_total, order)
            else:
                self._follow(state, codes, rows, settled_total, order)
        self._settled_total = settled_total

    def among(self, state: CycleState, codes: Codes, *, scored: bool) -> tuple[list[RowScore], Ints]:
        """Scores (if `scored`) and totals if exactly the rows with code 0 were feasible; -1 for the others. Raises PluginError."""
        if self._settled_total is None:
            raise LookupError("no scores are known; bring them up to date first")
        cross_node = [
            cross_node_scores(item.plugin, item.weight, item.given, self.profile) for item in self._cross_node
        ]
        totals = self._settled_total.astype(np.int64)
        separate = state.for_scores()
        for item in cross_node:
            item.start(separate, self.shape, codes)
            totals += item.final
        totals[codes != 0] = NO_NODE
        if not scored:
            return [], totals
        return self._in_order([*self._row_scores(state), *_said(cross_node)]), totals

    def of_few(self, state: CycleState, codes: Codes, rows: IntRows) -> Ints | None:
        """Totals if exactly these rows were feasible, as `among` has them, by asking about these alone.

        None if it is not known yet what pods have in common of which the plugins read the same. codes: 0 on `rows` only. Raises PluginError.
        """
        shape, profile = self.shape, self.profile
        known = profile.shared_answers.scores(profile.shared_answers.score_parts(shape))
        if known is None:
            return None
        separate = state.for_scores()
        for preparing in profile.only_pre_score:
            pre_score(preparing, separate, shape, rows, profile)
        few = known.total.take(rows).astype(np.int64)
        cross_node: list[tuple[ScorePlugin, Ints | None]] = list(known.raw)
        for plugin in known.others:
            if plugin.score_scope is Scope.CLUSTER:
                cross_node.append((plugin, None))
            elif pre_score(plugin, separate, shape, rows, profile) is None:
                with timed_plugin(profile.meter, plugin.name, "Score"):
                    scores = plugin.score(separate, shape, rows)
                profile.evaluations[plugin.name, "Score"].value += len(rows)
                if plugin.normalizes:
                    scores = plugin.normalize(separate, shape, rows, scores)
                few += profile.weighed(scores, profile.weights[plugin.name])
        for plugin, raw in cross_node:
            item = cross_node_scores(plugin, profile.weights[plugin.name], raw, profile)
            item.start(separate, shape, codes, rows)
            few += item.final.take(rows)
        totals: Ints = np.full(len(codes), NO_NODE, dtype=np.int64)
        totals[rows] = few
        return totals

    def _row_scores(self, state: CycleState) -> list[RowScore]:
        """The scores that depend on one row each."""
        rows = self.profile.snapshot.all_rows
        return [
            *self._fixed,
            *(
                RowScore(plugin, plugin.score(state, self.shape, rows).astype(np.int64) * weight)
                for plugin, weight, _ in self._by_row
            ),
        ]

    def _in_order(self, scores: list[RowScore]) -> list[RowScore]:
        by_name = {item.plugin.name: item for item in scores}
        return [by_name[plugin.name] for plugin in self.profile.score if plugin.name in by_name]

    def _settle(self, state: CycleState, codes: Codes) -> Ints:
        """Divide the score plugins into those with one answer per row and those that look at all feasible nodes."""
        shape, profile = self.shape, self.profile
        feasible = profile.shared_answers.feasible(codes)
        self._by_row, self._cross_node = [], []
        parts = self._parts = profile.shared_answers.score_parts(shape)
        known = profile.shared_answers.scores(parts)
        for preparing in profile.only_pre_score:
            pre_score(preparing, state, shape, feasible, profile)
        silent: list[str] = []
        fixed: list[RowScore] = []
        raws: list[tuple[ScorePlugin, Ints]] = []
        scored: Ints | None = None
        for plugin in profile.score if known is None else known.others:
            if plugin.score_scope is Scope.CLUSTER:
                if not self._keep_cross_node(state, codes, feasible, plugin, None):
                    silent.append(plugin.name)
                continue
            if pre_score(plugin, state, shape, feasible, profile) is not None:
                silent.append(plugin.name)
                continue
            is_fixed = plugin.score_scope is Scope.NODE
            scores, is_final = self._ask(state, plugin)
            if not is_final:
                self._keep_cross_node(state, codes, feasible, plugin, scores if is_fixed else None)
                if is_fixed:
                    raws.append((plugin, scores))
            elif is_fixed:
                fixed.append(RowScore(plugin, scores))
            else:
                self._by_row.append((plugin, profile.weights[plugin.name], profile.evaluations[plugin.name, "Score"]))
                scored = scores if scored is None else scored + scores
        if known is None:
            known = profile.shared_answers.keep_scores(parts, silent, fixed, raws)
        else:
            for plugin, raw in known.raw:
                self._keep_cross_node(state, codes, feasible, plugin, raw)
        own = [item for item in fixed if item not in known.scores]
        self._fixed = (*known.scores, *own)
        self._fixed_total = sum((item.final for item in own), known.total) if own else known.total
        return self._fixed_total.copy() if scored is None else scored + self._fixed_total

    def _ask(self, state: CycleState, plugin: ScorePlugin) -> tuple[Ints, bool]:
        """Ask a plugin for all rows: final scores, or raw ones (and False) if they depend on those of other rows."""
        profile, rows = self.profile, self.profile.snapshot.all_rows
        with timed_plugin(profile.meter, plugin.name, "Score"):
            scores = plugin.score(state, self.shape, rows)
        profile.evaluations[plugin.name, "Score"].value += profile.snapshot.node_count
        if plugin.normalizes:
            level = scores[profile.snapshot.alive[: profile.snapshot.size]]
            if not plugin.equal_stays_equal or (level != level[:1]).any():
                return scores, False
            scores = plugin.normalize(state, self.shape, rows, np.full_like(scores, level[0]))
        return profile.weighed(scores, profile.weights[plugin.name]), True

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
        others: list[int] = []
        everywhere = False
        for cross_node in self._cross_node:
            more = cross_node.catch_up(state, self.shape, codes, rows)
            if isinstance(more, slice):
                everywhere = True
            else:
                others += more
        if everywhere:
            self._add_up(codes, settled_total, order)
            return
        totals, out = self._totals, self.profile.out
        if len(rows) + len(others) > _FEW:
            index = np.asarray(rows, dtype=np.intp)
            if others:
                index = np.concatenate((index, np.array(others, dtype=np.intp)))
            changed: Ints = settled_total.take(index)
            for cross_node in self._cross_node:
                changed += cross_node.final.take(index)
            verdicts = codes.take(index)
            if np.count_nonzero(verdicts):
                changed[verdicts != 0] = out
            totals[index] = changed
            self.ranking.start(totals, order)
            return
        for row in [*listed(rows), *others]:
            before = totals.item(row)
            if codes.item(row) == 0:
                total = settled_total.item(row)
                for cross_node in self._cross_node:
                    total += cross_node.final.item(row)
            else:
                total = out
            totals[row] = total
            self.ranking.update(row, before, total)

    def _add_up(self, codes: Codes, settled_total: Ints, order: NameOrder) -> None:
        """All totals, and the ranking, from the scores."""
        totals = settled_total.copy()
        for cross_node in self._cross_node:
            totals += cross_node.final
        if not self.profile.shared_answers.is_every_node(codes) and np.count_nonzero(codes):
            totals[codes != 0] = self.profile.out
        self._totals = totals
        if self.ranking is _NO_RANKING:
            self.ranking = Ranking(totals, order)
        else:
            self.ranking.start(totals, order)

    def _score_row(self, state: CycleState, row: int, settled_total: Ints) -> None:
        total = self._fixed_total.item(row)
        for plugin, weight, asked in self._by_row:
            total += plugin.score_row(state, self.shape, row) * weight
            asked.value += 1
        settled_total[row] = total

    def _score_rows(self, state: CycleState, rows: IntRows, settled_total: Ints) -> None:
        """`_score_row` for many rows, each of them once."""
        total = self._fixed_total.take(rows)
        for plugin, weight, asked in self._by_row:
            total += self.profile.weighed(plugin.score(state, self.shape, rows), weight)
            asked.value += len(rows)
        settled_total[rows] = total


def _said(cross_node: list[CrossNodeScores]) -> list[RowScore]:
    return [RowScore(item.plugin, item.final.astype(np.int64)) for item in cross_node if item.skip is None]
