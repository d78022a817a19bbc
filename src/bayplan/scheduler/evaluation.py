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
    wide: bool
    """Depends on more than its row: asked again whenever anything changed."""


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
        self._scored = False
        self._has_wide_scores = False
        self._structure = -1
        self._term_epoch = -1
        self._position = 0
        self._shared = False

    def refresh(self) -> None:
        """Bring the verdicts up to date with the snapshot. Raises PluginError."""
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
        state = self.state = CycleState(snapshot)
        self._pre_filter()
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
            answer = plugin.pre_filter(self.state, self.shape)
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
                if plugin.sparse:
                    asked = np.flatnonzero(combined == 0)
                    item.codes = np.full(snapshot.size, NOT_ASKED, dtype=np.int32)
                    if len(asked):
                        item.codes[asked] = plugin.filter(state, shape, asked)
                else:
                    item.codes = plugin.filter(state, shape, snapshot.all_rows)
            elif plugin is not None and rows is not None and item.scope is Scope.ROW:
                item.codes[rows] = plugin.filter(state, shape, rows)
            combined = np.where(combined == 0, item.codes, combined)
        self.codes = combined

    def _second_pass(self, changed: set[int]) -> None:
        """Some pods changed, and filters look beyond their row."""
        for plugin in self._wide_filters:
            plugin.refresh_filter(self.state, self.shape)
        if any(item.plugin is not None and item.plugin.sparse for item in self._filterings):
            self._combine(None)
        else:
            self._combine(changed)
        self._scored = False

    def _update_row(self, row: int) -> None:
        if self.codes.item(row) == NO_NODE:
            return
        code = self._ask(row)
        before = self.codes.item(row)
        self.codes[row] = code
        if not self._scored:
            return
        if self._has_wide_scores:
            self._scored = False
        elif code:
            self.total[row] = NO_NODE
        else:
            self._score_row(row, fixed_too=before != 0)

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

    def suppose(self, row: int, added: Sequence[PodInfo], removed: Sequence[PodInfo]) -> int:
        """The verdict on a row if some pods were there and others not."""
        with self.snapshot.supposing(list(added), list(removed), row):
            code = self.ask_now(row)
        for plugin in self._wide_filters:
            plugin.refresh_filter(self.state, self.shape)
        return code

    def ask_now(self, row: int) -> int:
        """The verdict on a row with what the snapshot holds at this moment."""
        for plugin in self._wide_filters:
            plugin.refresh_filter(self.state, self.shape)
        return self._ask(row)

    def pod_readers(self) -> list[str]:
        """The active filter plugins whose verdict on a node can change with the pods there."""
        return [
            item.plugin.name for item in self._filterings if item.plugin is not None and item.scope is not Scope.NODE
        ]

    # Scoring

    def score(self) -> None:
        """Bring scores and totals up to date. Raises PluginError."""
        if not self._scored:
            self.scorings, self.total = self.score_feasible(self.codes)
            self._has_wide_scores = any(item.wide for item in self.scorings)
            self._scored = True

    def score_feasible(self, codes: Codes) -> tuple[list[Scoring], Ints]:
        """Scores and totals if exactly the rows with code 0 were feasible."""
        state, shape, snapshot = self.state, self.shape, self.snapshot
        feasible = np.flatnonzero(codes == 0)
        state.skip_score = {plugin.name for plugin in self.profile.score if self._pre_score(plugin, feasible)}
        total = np.where(codes == 0, 0, NO_NODE).astype(np.int64)
        scorings = []
        for plugin in self.profile.score:
            if plugin.name in state.skip_score:
                continue
            weight = self.profile.weights[plugin.name]
            scores = plugin.score(state, shape, feasible)
            fixed, wide = plugin.score_scope is Scope.NODE, plugin.score_scope is Scope.CLUSTER
            if plugin.normalizes:
                level = plugin.equal_stays_equal and bool((scores == scores[:1]).all())
                if fixed and level:
                    level = self._is_level_everywhere(plugin)
                fixed, wide = fixed and level, not (fixed and level)
                scores = plugin.normalize(state, shape, feasible, scores)
            final = np.zeros(snapshot.size, dtype=np.int64)
            final[feasible] = scores * weight
            total[feasible] += final[feasible]
            scorings.append(Scoring(plugin, weight, final, fixed, wide))
        return scorings, total

    def _pre_score(self, plugin: ScorePlugin, feasible: Ints) -> bool:
        """Whether the plugin has nothing to say about the pod."""
        if not isinstance(plugin, PreScorePlugin):
            return False
        return isinstance(plugin.pre_score(self.state, self.shape, feasible), Skip)

    def _is_level_everywhere(self, plugin: ScorePlugin) -> bool:
        scores = plugin.score(self.state, self.shape, self.snapshot.all_rows)[self.snapshot.alive[: self.snapshot.size]]
        return bool((scores == scores[:1]).all())

    def _score_row(self, row: int, *, fixed_too: bool) -> None:
        total = 0
        for item in self.scorings:
            if item.fixed and not fixed_too:
                total += item.final.item(row)
                continue
            score = item.plugin.score_row(self.state, self.shape, row)
            if item.plugin.normalizes:
                alone = np.array([row], dtype=np.intp)
                score = int(item.plugin.normalize(self.state, self.shape, alone, np.array([score], dtype=np.int64))[0])
            score *= item.weight
            item.final[row] = score
            total += score
        self.total[row] = total

    def _own(self) -> None:
        if not self._shared:
            return
        self._shared = False
        self.codes = self.codes.copy()
        if self._scored and not self._has_wide_scores:
            self.total = self.total.copy()
            self.scorings = [
                Scoring(
                    item.plugin, item.weight, item.final if item.fixed else item.final.copy(), item.fixed, item.wide
                )
                for item in self.scorings
            ]
