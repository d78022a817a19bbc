"""Verdicts and scores of one pod shape over all nodes, kept up to date row by row.

The first pass fills arrays over all rows. Afterwards only rows whose pods changed are looked at again, as far as the
plugins in play allow it: a plugin whose answer depends on pods elsewhere (`Scope.CLUSTER`), or whose scores are
normalised over the feasible nodes, is asked again for all rows. The result never differs from a first pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.scheduler.framework.extension_points import FilterPlugin, PreScorePlugin, Scope, ScorePlugin
from bayplan.scheduler.framework.meter import SUCCESS, timed_plugin, timed_point
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.snapshot.labels import Ints

NO_NODE = -1
"""The verdict of rows that are not nodes, and the total of rows that are not feasible."""

NOT_ASKED = -2
"""In the answers of a sparse plugin: an earlier plugin refuses the row, so this one was not asked."""

_FEW = 8
"""Catch up row by row while at most one in `_FEW` rows changed."""


@dataclass(slots=True)
class Filtering:
    """One active filter plugin: its answers, and what they depend on. `plugin` is None for PreFilter's node set."""

    plugin: FilterPlugin | None
    scope: Scope
    codes: Codes


@dataclass(slots=True)
class Scoring:
    """One active score plugin. `final` is normalised and weighted, valid on feasible rows."""

    plugin: ScorePlugin
    weight: int
    final: Ints
    fixed: bool
    """Depends on nodes only: never asked again while the structure stays."""


class Evaluation:
    """The answers about one shape under one profile.

    `codes[row]`: 0 feasible, -1 no node, else a reason of the profile's table. `total[row]`: sum of final scores, -1
    where not feasible; valid after `score()`.
    """

    def __init__(self, profile: Profile, shape: PodShape) -> None:
        self.profile = profile
        self.snapshot = profile.snapshot
        self.shape = shape
        self.state = CycleState(self.snapshot)
        self.rejection: tuple[str, Reject] | None = None
        self.narrowed: frozenset[str] | None = None
        self.narrowed_by: tuple[str, ...] = ()
        self.codes: Codes = np.zeros(0, dtype=np.int32)
        self.total: Ints = np.zeros(0, dtype=np.int64)
        self.scorings: list[Scoring] = []
        self._filterings: list[Filtering] = []
        self._telling: list[Filtering] = []
        self._wide_filters: list[FilterPlugin] = []
        self._settled: list[Scoring] = []
        self._settled_total: Ints | None = None
        self._wide_scores: list[ScorePlugin] = []
        self._raw: dict[str, Ints] = {}
        self._stale: set[int] = set()
        self._scored = False
        self._structure = -1
        self._term_epoch = -1
        self._position = 0
        self._shared = False

    def refresh(self) -> None:
        """Bring the verdicts up to date with the snapshot. Raises PluginError."""
        meter = self.profile.meter
        if meter is None:
            self._refresh()
            return
        started = meter.now()
        status = "Error"
        try:
            self._refresh()
            status = SUCCESS
        finally:
            meter.point("Filter", status, self.profile.name, meter.now() - started)

    def _refresh(self) -> None:
        snapshot = self.snapshot
        if self._structure != snapshot.structure or self._term_epoch != snapshot.counts.term_epoch:
            self._first_pass()
            return
        position = snapshot.position
        if position == self._position:
            return
        rows = snapshot.changed_since(self._position)
        if rows is None or len(rows) * _FEW > snapshot.size + _FEW:
            self._first_pass()
            return
        self._position = position
        if self.rejection is not None:
            return
        self._own()
        if self._wide_filters:
            self._second_pass(set(rows))
        else:
            for row in set(rows) if len(rows) > 1 else rows:
                self._update_row(row)

    def share(self) -> None:
        """The arrays are referred to from outside: leave them as they are and change copies from now on."""
        self._shared = True

    @property
    def is_scored(self) -> bool:
        """Whether `total` and `scorings` are up to date with `codes`."""
        return self._scored

    def feasible(self) -> Ints:
        """The rows that can run the pod."""
        return np.flatnonzero(self.codes == 0)

    # Filtering

    def _first_pass(self) -> None:
        snapshot, shape = self.snapshot, self.shape
        self._structure = snapshot.structure
        self._term_epoch = snapshot.counts.term_epoch
        self._position = snapshot.position
        self._shared = False
        self._scored = False
        self._settled_total = None
        self._stale.clear()
        state = self.state = CycleState(snapshot)
        with timed_point(self.profile.meter, "PreFilter", self.profile.name) as timing:
            self._pre_filter()
            if self.rejection is not None:
                timing.status = self.rejection[1].status.value
        self.codes = np.zeros(snapshot.size, dtype=np.int32)
        self._filterings = []
        self._wide_filters = []
        if self.rejection is not None:
            return
        if self.narrowed is not None:
            self._filterings.append(self._outside(self.narrowed))
        for plugin in self.profile.filter:
            if plugin.name not in state.skip_filter:
                scope = plugin.scope_of(state, shape)
                self._filterings.append(Filtering(plugin, scope, self.codes))
                if scope is Scope.CLUSTER:
                    self._wide_filters.append(plugin)
        self._combine(None)
        self._telling = [item for item in self._filterings if item.scope is not Scope.NODE or item.codes.any()]

    def _pre_filter(self) -> None:
        self.rejection = None
        narrowed: frozenset[str] | None = None
        by: list[str] = []
        for plugin in self.profile.pre_filter:
            with timed_plugin(self.profile.meter, plugin.name, "PreFilter") as timing:
                answer = plugin.pre_filter(self.state, self.shape)
                if isinstance(answer, Skip):
                    timing.status = "Skip"
                elif isinstance(answer, Reject):
                    timing.status = answer.status.value
            if isinstance(answer, Skip):
                self.state.skip_filter.add(plugin.name)
            elif isinstance(answer, Reject):
                self.rejection = (plugin.name, answer)
                if answer.status is not Status.UNSCHEDULABLE:
                    break
            elif isinstance(answer, Narrow):
                by.append(plugin.name)
                narrowed = answer.nodes if narrowed is None else narrowed & answer.nodes
                if not narrowed:
                    which = f"plugin(s) [{' '.join(by)}] simultaneously" if len(by) > 1 else f"plugin {by[0]}"
                    reject = Reject(Status.UNRESOLVABLE, (f"node(s) didn't satisfy {which}",))
                    self.rejection = ("", reject)
                    break
        self.narrowed = narrowed
        self.narrowed_by = tuple(by)

    def _outside(self, nodes: frozenset[str]) -> Filtering:
        """Refuses every node outside PreFilter's node set."""
        by = " ".join(sorted(self.narrowed_by))
        code = self.profile.reasons.code(Status.UNRESOLVABLE, "", f"node(s) didn't satisfy plugin(s) [{by}]")
        codes = np.full(self.snapshot.size, code, dtype=np.int32)
        for name in nodes:
            row = self.snapshot.row_of.get(name)
            if row is not None:
                codes[row] = 0
        return Filtering(None, Scope.NODE, codes)

    def _combine(self, changed: Iterable[int] | None) -> None:
        """Ask the filter plugins (about changed rows only, where that is enough) and join their answers in order."""
        snapshot, state, shape = self.snapshot, self.state, self.shape
        combined = np.where(snapshot.alive[snapshot.all_rows], 0, NO_NODE).astype(np.int32)
        rows = None if changed is None else np.fromiter(changed, dtype=np.intp)
        for item in self._filterings:
            plugin = item.plugin
            if plugin is not None and (rows is None or item.scope is Scope.CLUSTER):
                with timed_plugin(self.profile.meter, plugin.name, "Filter"):
                    item.codes = self._ask_all(plugin, combined)
            elif plugin is not None and rows is not None and item.scope is Scope.ROW:
                item.codes[rows] = plugin.filter(state, shape, rows)
            combined = np.where(combined == 0, item.codes, combined)
        self.codes = combined

    def _ask_all(self, plugin: FilterPlugin, combined: Codes) -> Codes:
        """A plugin's answers about all rows; of a sparse one only about those that nobody has refused yet."""
        if not plugin.sparse:
            return plugin.filter(self.state, self.shape, self.snapshot.all_rows)
        asked = np.flatnonzero(combined == 0)
        codes = np.full(self.snapshot.size, NOT_ASKED, dtype=np.int32)
        if len(asked):
            codes[asked] = plugin.filter(self.state, self.shape, asked)
        return codes

    def _second_pass(self, changed: set[int]) -> None:
        """Some pods changed, and filters look beyond their row."""
        self.refresh_wide()
        if any(item.plugin is not None and item.plugin.sparse for item in self._filterings):
            self._combine(None)
        else:
            self._combine(changed)
        self._stale |= changed
        self._scored = False

    def _update_row(self, row: int) -> None:
        if self.codes.item(row) == NO_NODE:
            return
        code = self._ask(row)
        self.codes[row] = code
        settled_total = self._settled_total
        if settled_total is None:
            return
        if self._wide_scores or not self._scored:
            self._stale.add(row)
            self._scored = False
        else:
            self._score_row(row, settled_total)
            self.total[row] = NO_NODE if code else settled_total.item(row)

    def _ask(self, row: int) -> int:
        for item in self._telling:
            if item.plugin is None or item.scope is Scope.NODE:
                code = item.codes.item(row)
                if code == NOT_ASKED and item.plugin is not None:
                    code = item.codes[row] = item.plugin.filter_row(self.state, self.shape, row)
            else:
                code = item.plugin.filter_row(self.state, self.shape, row)
            if code:
                return int(code)
        return 0

    def suppose(self, row: int, added: Sequence[PodInfo]) -> int:
        """The verdict on a row if some more pods were there."""
        with self.snapshot.supposing(added, (), row):
            code = self.ask_now(row)
        self.refresh_wide()
        return code

    def ask_now(self, row: int) -> int:
        """The verdict on a row with what the snapshot holds or supposes at this moment."""
        self.refresh_wide()
        return self._ask(row)

    def refresh_wide(self) -> None:
        """Let the filters that look beyond their row take in the pods as they are."""
        for plugin in self._wide_filters:
            plugin.refresh_filter(self.state, self.shape)

    @property
    def has_wide_filters(self) -> bool:
        """Whether a verdict can depend on pods on other nodes."""
        return bool(self._wide_filters)

    # Scoring

    def score(self) -> None:
        """Bring scores and totals up to date. Raises PluginError."""
        if not self._scored:
            self.scorings, self.total = self.score_feasible(self.codes)
            self._scored = True

    def score_feasible(self, codes: Codes) -> tuple[list[Scoring], Ints]:
        """Scores and totals if exactly the rows with code 0 were feasible."""
        feasible = np.flatnonzero(codes == 0)
        settled_total = self._score_rows(feasible)
        total = np.where(codes == 0, settled_total, NO_NODE)
        scorings = list(self._settled)
        for plugin in self._wide_scores:
            if plugin.score_scope is Scope.CLUSTER and self._pre_score(plugin, feasible) is not None:
                continue
            raw = self._raw.get(plugin.name)
            with timed_plugin(self.profile.meter, plugin.name, "Score"):
                scores = plugin.score(self.state, self.shape, feasible) if raw is None else raw[feasible]
            scores = plugin.normalize(self.state, self.shape, feasible, scores)
            weight = self.profile.weights[plugin.name]
            final = np.zeros(self.snapshot.size, dtype=np.int64)
            final[feasible] = scores * weight
            total += np.where(codes == 0, final, 0)
            scorings.append(Scoring(plugin, weight, final, False))
        return scorings, total

    def _score_rows(self, feasible: Ints) -> Ints:
        """Sum of what depends on the row alone: all rows are scored at first, then those that changed."""
        settled_total = self._settled_total
        if settled_total is None or len(self._stale) * _FEW > self.snapshot.size:
            settled_total = self._settled_total = self._settle(feasible)
        else:
            for row in self._stale:
                self._score_row(row, settled_total)
        self._stale.clear()
        return settled_total

    def _settle(self, feasible: Ints) -> Ints:
        """Divide the score plugins into those with one answer per row and those that look at all feasible nodes."""
        state, shape, snapshot = self.state, self.shape, self.snapshot
        alive = snapshot.alive[: snapshot.size]
        self._settled, self._wide_scores, self._raw = [], [], {}
        settled_total = np.zeros(snapshot.size, dtype=np.int64)
        for plugin in self.profile.score:
            skip = self._pre_score(plugin, feasible)
            if skip is not None and skip.lasting:
                continue
            if plugin.score_scope is Scope.CLUSTER:
                self._wide_scores.append(plugin)
                continue
            if skip is not None:
                continue
            with timed_plugin(self.profile.meter, plugin.name, "Score"):
                scores = plugin.score(state, shape, snapshot.all_rows)
            if plugin.normalizes:
                level = scores[alive]
                if not plugin.equal_stays_equal or (level != level[:1]).any():
                    self._wide_scores.append(plugin)
                    if plugin.score_scope is Scope.NODE:
                        self._raw[plugin.name] = scores
                    continue
                scores = plugin.normalize(state, shape, snapshot.all_rows, np.full_like(scores, level[0]))
            weight = self.profile.weights[plugin.name]
            final = scores * weight
            settled_total += final
            self._settled.append(Scoring(plugin, weight, final, plugin.score_scope is Scope.NODE))
        return settled_total

    def _pre_score(self, plugin: ScorePlugin, feasible: Ints) -> Skip | None:
        """Run the plugin's PreScore, if it has one."""
        if not isinstance(plugin, PreScorePlugin):
            return None
        with timed_plugin(self.profile.meter, plugin.name, "PreScore"):
            return plugin.pre_score(self.state, self.shape, feasible)

    def _score_row(self, row: int, settled_total: Ints) -> None:
        total = settled_total.item(row)
        for item in self._settled:
            if not item.fixed:
                score = item.plugin.score_row(self.state, self.shape, row) * item.weight
                total += score - item.final.item(row)
                item.final[row] = score
        settled_total[row] = total

    def _own(self) -> None:
        if not self._shared:
            return
        self._shared = False
        self.codes = self.codes.copy()
        self.total = self.total.copy()
        self._settled = [
            item if item.fixed else Scoring(item.plugin, item.weight, item.final.copy(), False)
            for item in self._settled
        ]
        if self._scored and not self._wide_scores:
            self.scorings = list(self._settled)
