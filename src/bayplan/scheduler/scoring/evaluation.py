"""Verdicts and scores of one pod shape over all nodes, kept up to date row by row.

The first pass fills arrays over all rows. Afterwards, for each row whose pods changed:

- verdicts: the filters of `Scope.ROW` are asked about that row; those of `Scope.CLUSTER` say which other rows may be
  judged differently now (a domain that filled up, say), and these are asked about as well;
- scores: those of the row alone are asked for that row; scores that are normalised, or count pods elsewhere, are kept
  by `cross_node_scores`, which says which rows moved;
- totals and the list of the best nodes follow the rows that moved.

A new structure of the cluster (nodes, volumes, namespaces, ...), an affinity term that comes up for the first time or
goes with its last pod, and changes on many rows at once start everything over. The result never differs from a first
pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bayplan.scheduler.framework.extension_points import FEW_ROWS, FilterPlugin, Scope
from bayplan.scheduler.framework.meter import SUCCESS, timed_plugin, timed_point
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import Codes, Reject
from bayplan.scheduler.framework.what_if import JointWhatIf, WhatIf
from bayplan.scheduler.preparation import outside_code, prepare, prepare_missing
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.queueing.nominator import NominatedReservations
from bayplan.scheduler.scoring.ranking import NameOrder
from bayplan.scheduler.scoring.shared_answers import NO_NODE, Parts, RowScore
from bayplan.scheduler.scoring.totals import Totals
from bayplan.scheduler.snapshot.labels import ChangedRows, IntRows, Ints, listed
from bayplan.support.metrics.instruments import Counter

_FEW: Final = 8
"""Up to so many rows it costs least to look at them one by one."""
_FEW_FEASIBLE: Final = 256
_OFTEN: Final = 8
"""Up to so many rows are scored by themselves, so often for one shape: then the scores of all rows are worked out, and kept."""
NOT_ASKED: Final = -2
"""In the answers of a sparse plugin: an earlier plugin refuses the row, so this one was not asked."""

_BYTES: Final = 8 << 10
_BYTES_PER_ROW: Final = 8
_BYTES_PER_ROW_AND_PLUGIN: Final = 30
"""What an evaluation takes about: besides rows, of each row, and of each row for a plugin that looks beyond it."""

_NOT_YET: Final[Codes] = np.zeros(0, dtype=np.int32)

Amounts = tuple[tuple[int, int], ...]
"""(code, number of nodes that it refuses), by code."""


def amounts_in(codes: Codes) -> Amounts:
    """How many nodes are refused by each of the verdicts."""
    counts = np.bincount(codes + 1)[1:]  # Without rows that are no nodes, -1.
    counts[:1] = 0
    found = counts.nonzero()[0]
    return tuple(zip(found.tolist(), counts[found].tolist(), strict=True))


@dataclass(slots=True)
class Filtering:
    """One active filter plugin: its answers, and what they depend on. `plugin` is None for PreFilter's node set."""

    plugin: FilterPlugin | None
    scope: Scope
    codes: Codes
    asked: Counter = field(default_factory=Counter)
    """About how many nodes the plugin was asked, for all pods of the profile."""


class Evaluation:
    """The answers about one shape under one profile.

    `codes[row]`: 0 feasible, -1 no node, else a reason of the profile's table. `feasible_count`: how many rows are
    feasible. `totals`: the scores; valid after `score()`. With `promises`, a node must have room for the pods that
    it is promised to as well; what they are changes verdicts as pods on the node do.
    """

    def __init__(self, profile: Profile, shape: PodShape, reservations: NominatedReservations | None = None) -> None:
        self.profile = profile
        self.snapshot = profile.snapshot
        self.shape = shape
        self.state = CycleState(self.snapshot)
        self.rejection: tuple[str, Reject] | None = None
        self.narrowed: frozenset[str] | None = None
        self.narrowed_by: tuple[str, ...] = ()
        self.codes: Codes = np.zeros(0, dtype=np.int32)
        self.feasible_count = 0
        self._amounts: dict[int, int] | None = None
        """Of `amounts`, if somebody has asked for them since many verdicts changed."""
        self.totals = Totals(profile, shape)
        self._filterings: list[Filtering] = []
        self._telling: list[Filtering] = []
        self._narrowing: Filtering | None = None
        """Refuses what is outside PreFilter's node set."""
        self._cross_node_filters: list[FilterPlugin] = []
        self._can_judge_many = False
        """Whether no row has to be looked at for itself: none is promised, and no filter waits to be asked."""
        self._behind: dict[int, None] = {}
        """Rows on which pods changed since the filters' own arrays were last brought up to date."""
        self._touched: dict[int, None] = {}
        """Rows on which pods or the verdict changed since scores were last brought up to date."""
        self._touched_at_once: IntRows | None = None
        """More such rows, if there are many."""
        self._many_touched = False
        self._scored_few = 0
        """How often few rows were scored alone, since all were judged."""
        self._structure = -1
        self._term_epoch = -1
        """The snapshot's, at the last look."""
        self._image_epoch = -1
        """The snapshot's, at the last look."""
        self._own_epoch = -1
        """That of the terms which may mean such pods."""
        self._position = 0
        self._reservations = reservations
        self._reservations_seen = 0
        """How much of the promises' log has been taken in."""
        self._shared = False
        self.weight = 0
        """Bytes that the evaluation takes, about, as of the last time it was weighed."""

    def weigh(self) -> int:
        """By how many bytes the evaluation has grown since the last time."""
        before = self.weight
        beyond = len(self._cross_node_filters) + self.totals.cross_node_plugins
        self.weight = _BYTES + self.snapshot.size * (_BYTES_PER_ROW + _BYTES_PER_ROW_AND_PLUGIN * beyond)
        return self.weight - before

    def refresh(self) -> None:
        """Bring the verdicts up to date with the snapshot. Raises PluginError."""
        meter = self.profile.meter
        started = meter.now() if meter is not None else 0.0
        status = "Error"
        try:
            self._refresh()
            status = SUCCESS
        finally:
            if status != SUCCESS:
                self._structure = -1
            if meter is not None:
                meter.point("Filter", status, self.profile.name, meter.now() - started)

    def _refresh(self) -> None:
        snapshot = self.snapshot
        if self._structure != snapshot.structure or (
            self._term_epoch != snapshot.counts.term_epoch and self._has_new_terms()
        ):
            self._first_pass()
            return
        if self._image_epoch != snapshot.image_epoch:
            self._image_epoch = snapshot.image_epoch
            self.totals.look_at_images()
        if self._position != snapshot.position or (
            self._reservations is not None and self._reservations_seen != self._reservations.position
        ):
            self._catch_up()

    def _has_new_terms(self) -> bool:
        """Whether an affinity term that may mean such pods has come up or gone."""
        counts = self.snapshot.counts
        self._term_epoch = counts.term_epoch
        return counts.epoch_of(self.shape.labels) != self._own_epoch

    def _catch_up(self) -> None:
        snapshot = self.snapshot
        rows = snapshot.changed_rows(self._position)
        if rows is not None and self._reservations is not None:
            rows = self._with_reserved(rows, self._reservations)
        if rows is None or (len(rows) > _FEW and self._is_too_much(len(rows))):
            self._first_pass()
            return
        self._position = snapshot.position
        if self.rejection is not None:
            return
        if self._cross_node_filters:
            self._second_pass(rows)
        elif len(rows) <= _FEW or not self._can_judge_many:
            for row in listed(rows):
                self._update_row(row)
        else:
            self._update_rows(np.asarray(rows, dtype=np.intp))

    def _is_too_much(self, changes: int) -> bool:
        """Whether all rows are sooner judged anew than those that changed."""
        return not (self._cross_node_filters or self._can_judge_many) and self.snapshot.is_much(changes)

    def _with_reserved(self, rows: ChangedRows, reservations: NominatedReservations) -> list[int] | None:
        """Some rows, and those on which promises changed; None if these may be any.

        A filter that looks beyond its row may judge a promised node differently without having said so, since it was
        asked about pods that are not there: such nodes are looked at again every time.
        """
        more = reservations.rows_since(self._reservations_seen)
        self._reservations_seen = reservations.position
        if more is None:
            return None
        reserved = reservations.rows() if self._cross_node_filters else ()
        return list(dict.fromkeys([*listed(rows), *more, *reserved]))

    def share(self) -> None:
        """`codes` is referred to from outside: leave it as it is and change a copy from now on."""
        self._shared = True

    def _own_codes(self) -> None:
        if self._shared:
            self._shared = False
            self.codes = self.codes.copy()

    def feasible(self) -> Ints:
        """The rows that can run the pod."""
        return np.flatnonzero(self.codes == 0)

    def amounts(self) -> Amounts:
        """How many nodes are refused by each of the verdicts."""
        if self._amounts is None:
            self._amounts = dict(amounts_in(self.codes))
        return tuple(sorted(item for item in self._amounts.items() if item[0] and item[1]))

    # Filtering

    def _first_pass(self) -> None:
        snapshot, shape, profile = self.snapshot, self.shape, self.profile
        self._structure = snapshot.structure
        self._term_epoch = snapshot.counts.term_epoch
        self._own_epoch = snapshot.counts.epoch_of(shape.labels)
        self._image_epoch = snapshot.image_epoch
        self._position = snapshot.position
        self._reservations_seen = self._reservations.position if self._reservations is not None else 0
        self._shared = False
        self.totals.forget()
        self._touched.clear()
        self._touched_at_once = None
        self._behind.clear()
        self._many_touched = False
        self._scored_few = 0
        self._amounts = None
        self._filterings, self._telling, self._cross_node_filters = [], [], []
        self.feasible_count = 0
        state = self.state = CycleState(snapshot)
        parts = profile.shared_answers.filter_parts(shape)
        known = profile.shared_answers.verdicts(parts)
        if known is not None:
            state.data.update(known.data)
            state.skip_filter.update(known.skipped)
        with timed_point(profile.meter, "PreFilter", profile.name) as timing:
            prepared = prepare(profile, state, shape, profile.pre_filter if known is None else known.pre_filters)
            self.rejection, self.narrowed = prepared.rejection, prepared.narrowed
            self.narrowed_by = prepared.narrowed_by
            if self.rejection is not None:
                timing.status = self.rejection[1].status.value
        if self.rejection is not None:
            if known is not None and prepared.ended_by:
                self._forget_those_after(prepared.ended_by)
            self.codes = np.zeros(snapshot.size, dtype=np.int32)
            return
        self._narrowing = self._outside(self.narrowed) if self.narrowed is not None else None
        if self._narrowing is not None:
            self._filterings.append(self._narrowing)
        for step in profile.filter if known is None else known.filters:
            if isinstance(step, np.ndarray):
                self._filterings.append(Filtering(None, Scope.NODE, step))
            else:
                self._add_filtering(step)
        self.codes = self._combine(None)
        self._telling = [
            item for item in self._filterings if item.scope is not Scope.NODE or np.count_nonzero(item.codes)
        ]
        is_sparse = any(item.plugin is not None and item.plugin.sparse for item in self._telling)
        self._can_judge_many = self._reservations is None and not is_sparse
        if known is None:
            self._share_verdicts(parts)
        if not self._cross_node_filters:
            for item in self._filterings:
                if item.scope is Scope.ROW:
                    item.codes = _NOT_YET
        self._judge_reserved()
        self.feasible_count = self._count_feasible()

    def _forget_those_after(self, name: str) -> None:
        """What plugins say that are not asked any more after one has rejected the pod."""
        names = [plugin.name for plugin in self.profile.pre_filter]
        for other in names[names.index(name) + 1 :]:
            self.state.data.pop(other, None)

    def _count_feasible(self) -> int:
        if self.codes is self.profile.shared_answers.nodes():
            return self.snapshot.node_count
        return len(self.codes) - int(np.count_nonzero(self.codes))

    def _add_filtering(self, plugin: FilterPlugin) -> None:
        """Let a plugin be asked, unless it skips the pod."""
        snapshot, state, shape, profile = self.snapshot, self.state, self.shape, self.profile
        name = plugin.name
        if name in profile.missing_for_filters:
            code = prepare_missing(profile, plugin, state, shape)
            if code:
                self._filterings.append(Filtering(None, Scope.NODE, np.full(snapshot.size, code, dtype=np.int32)))
                return
        if name in state.skip_filter:
            return
        scope = plugin.scope_of(state, shape)
        self._filterings.append(Filtering(plugin, scope, _NOT_YET, profile.evaluations[name, "Filter"]))
        if scope is Scope.CLUSTER:
            self._cross_node_filters.append(plugin)

    def _share_verdicts(self, parts: Parts) -> None:
        """Let other shapes of which the plugins read the same have what does not depend on pods on nodes."""
        codes = {
            item.plugin.name: item.codes
            for item in self._filterings
            if item.plugin is not None
            and item.scope is Scope.NODE
            and not item.plugin.sparse
            and item.plugin.name not in self.narrowed_by
        }
        self.profile.shared_answers.keep_verdicts(parts, self.state.skip_filter, codes, self.state.data)

    def _outside(self, nodes: frozenset[str]) -> Filtering:
        """Refuses every node outside PreFilter's node set."""
        codes = np.full(self.snapshot.size, outside_code(self.profile, self.narrowed_by), dtype=np.int32)
        for name in nodes:
            row = self.snapshot.row_of.get(name)
            if row is not None:
                codes[row] = 0
        return Filtering(None, Scope.NODE, codes)

    def _combine(self, changed: list[int] | None) -> Codes:
        """Ask the filter plugins (about changed rows only, where that is enough) and join their answers in order.

        What comes is shared with other shapes if no node is refused.
        """
        state, shape = self.state, self.shape
        nodes = combined = self.profile.shared_answers.nodes()
        rows = None if changed is None else np.array(changed, dtype=np.intp)
        for item in self._filterings if rows is None else self._telling:
            plugin = item.plugin
            if plugin is not None and (rows is None or item.scope is Scope.CLUSTER):
                with timed_plugin(self.profile.meter, plugin.name, "Filter"):
                    item.codes = self._ask_all(plugin, combined, item.asked)
            elif plugin is not None and rows is not None and item.scope is Scope.ROW:
                item.codes[rows] = plugin.filter(state, shape, rows)
                item.asked.value += len(rows)
            if np.count_nonzero(item.codes):
                combined = np.where(combined == 0, item.codes, combined)
        self._shared = combined is nodes
        return combined

    def _judge_reserved(self) -> None:
        """Judge the promised rows, after `codes` was made without a thought of them."""
        for row in self._reservations.rows() if self._reservations is not None else ():
            self._own_codes()
            if self.codes.item(row) != NO_NODE:
                self.codes[row] = self._judge(row)

    def _judge(self, row: int) -> int:
        """The verdict on a row: with the pods that it is promised to, then without."""
        if self._reservations is not None:
            reserved = self._reservations.on(row)
            code = self.verdict_with(row, reserved) if reserved else 0
            if code:
                return code
        return self.ask(row)

    def _ask_all(self, plugin: FilterPlugin, combined: Codes, counter: Counter) -> Codes:
        """A plugin's answers about all rows; of a sparse one only about those that nobody has refused yet."""
        if not plugin.sparse:
            counter.value += self.snapshot.node_count
            return plugin.filter(self.state, self.shape, self.snapshot.all_rows)
        asked = np.flatnonzero(combined == 0)
        counter.value += len(asked)
        codes = np.full(self.snapshot.size, NOT_ASKED, dtype=np.int32)
        if len(asked):
            codes[asked] = plugin.filter(self.state, self.shape, asked)
        return codes

    def _second_pass(self, changed: ChangedRows) -> None:
        """Some pods changed, and filters look beyond their row."""
        rows = listed(changed)
        affected = dict.fromkeys(rows)
        self._behind.update(affected)
        everywhere = False
        for plugin in self._cross_node_filters:
            more = plugin.catch_up(self.state, self.shape, changed)
            if isinstance(more, slice):
                everywhere = True
            elif more:
                affected.update(dict.fromkeys(more))
        if not everywhere and len(affected) <= FEW_ROWS:
            for row in affected:
                self._update_row(row)
            return
        is_sparse = any(item.plugin is not None and item.plugin.sparse for item in self._filterings)
        before = self.codes == 0
        self.codes = self._combine(None if is_sparse else list(self._behind))
        self._amounts = None
        self._behind.clear()
        self._judge_reserved()
        now = self.codes == 0
        self.feasible_count = int(np.count_nonzero(now))
        flipped = np.flatnonzero(before != now)
        self._touched.update(dict.fromkeys(rows))
        if len(flipped) <= FEW_ROWS:
            self._touched.update(dict.fromkeys(flipped.tolist()))
        else:
            self._many_touched = True

    def _update_row(self, row: int) -> None:
        """Ask about one row on which pods changed, or on which others' pods may matter."""
        before = self.codes.item(row)
        if before == NO_NODE:
            return
        code = self._judge(row) if self._reservations is not None else self.ask(row)
        if code != before:
            self._own_codes()
            self.codes[row] = code
            self.feasible_count += (code == 0) - (before == 0)
            if self._amounts is not None:
                self._amounts[before] = self._amounts.get(before, 0) - 1
                self._amounts[code] = self._amounts.get(code, 0) + 1
        self._touched[row] = None

    def _update_rows(self, rows: IntRows) -> None:
        """`_update_row` for many rows, each of them once; no filter is sparse, and no node promised."""
        before = self.codes.take(rows)
        nodes = codes = self.profile.shared_answers.nodes().take(rows)
        for item in self._telling:
            if item.plugin is None or item.scope is Scope.NODE:
                answers = item.codes.take(rows)
            else:
                item.asked.value += len(rows)
                answers = item.plugin.filter(self.state, self.shape, rows)
            if np.count_nonzero(answers):
                codes = np.where(codes == 0, answers, codes)
        refused = int(np.count_nonzero(before))
        if refused or codes is not nodes:
            self._own_codes()
            self.codes[rows] = codes
            self.feasible_count += refused - int(np.count_nonzero(codes))
            self._amounts = None
        touched = self._touched_at_once
        self._touched_at_once = rows if touched is None else np.union1d(touched, rows)

    def ask(self, row: int) -> int:
        """The verdict on a row, without a thought of promises."""
        for item in self._telling:
            if item.plugin is None or item.scope is Scope.NODE:
                code = item.codes.item(row)
                if code == NOT_ASKED and item.plugin is not None:
                    item.asked.value += 1.0
                    code = item.codes[row] = item.plugin.filter_row(self.state, self.shape, row)
            else:
                item.asked.value += 1.0
                code = item.plugin.filter_row(self.state, self.shape, row)
            if code:
                return int(code)
        return 0

    def refused_first(self, codes: Codes, row: int, code: int) -> Codes:
        """The verdicts after one node was looked at before PreFilter's node set was, and refused.

        It need not be in the set. The nodes outside are then told, as in kube-scheduler, who refused it as well.
        """
        plugins = {*self.narrowed_by, self.profile.reasons[code].plugin}
        outside, refused = outside_code(self.profile, self.narrowed_by), outside_code(self.profile, plugins)
        codes = np.where(codes == outside, refused, codes)
        codes[row] = code
        return codes

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """For a while, ask about nodes outside PreFilter's node set as about others."""
        telling = self._telling
        self._telling = [item for item in telling if item is not self._narrowing]
        try:
            yield
        finally:
            self._telling = telling

    def verdict_with(self, row: int, added: Sequence[PodInfo]) -> int:
        """The verdict on a row if some more pods were there."""
        aside = self.what_if(row)
        if aside is not None:
            for pod in added:
                aside.put_back(pod)
            return aside.verdict()
        try:
            with self.snapshot.what_if(added, (), row):
                return self.ask_now(row)
        finally:
            self.look_again(row)

    def ask_now(self, row: int) -> int:
        """The verdict on a row with what the snapshot holds or supposes on it at this moment; see `look_again`."""
        self.look_again(row)
        return self.ask(row)

    def look_again(self, row: int) -> None:
        """Let the filters that look beyond their row take in the pods on one row as they are.

        Whoever supposes pods to be elsewhere has to call it once more when all is as before.
        """
        for plugin in self._cross_node_filters:
            plugin.catch_up(self.state, self.shape, [row])

    def what_if(self, row: int) -> WhatIf | None:
        """The verdict on a row while pods there come and go; None if a filter has to be asked through the snapshot."""
        state, shape = self.state, self.shape
        parts: list[WhatIf | int] = []
        for item in self._telling:
            if item.plugin is None or item.scope is Scope.NODE:
                parts.append(item.codes.item(row))
                continue
            part = item.plugin.row_what_if(state, shape, row) if item.scope is Scope.ROW else None
            if part is None:
                return None
            item.asked.value += 1.0
            if len(self._telling) == 1:
                return part
            parts.append(part)
        return JointWhatIf(parts) if NOT_ASKED not in parts else None

    def filters_by_pods(self) -> set[str]:
        """The plugins whose verdict on a node can depend on pods, there or elsewhere."""
        return {item.plugin.name for item in self._telling if item.plugin is not None and item.scope is not Scope.NODE}

    @property
    def has_cross_node_filters(self) -> bool:
        """Whether a verdict can depend on pods on other nodes."""
        return bool(self._cross_node_filters)

    # Scoring

    def score(self, order: NameOrder) -> None:
        """Bring scores, totals and the ranking up to date. Raises PluginError."""
        at_once = self._touched_at_once
        if self.totals.is_known and not self._touched and at_once is None and not self._many_touched:
            return
        rows: ChangedRows = list(self._touched)
        if at_once is not None:
            rows = np.union1d(at_once, rows) if rows else at_once
        try:
            self.totals.catch_up(self.state, self.codes, rows, self._many_touched, order)
        finally:
            self._touched.clear()
            self._touched_at_once = None
            self._many_touched = False

    def score_feasible(self, codes: Codes, order: NameOrder, *, scored: bool) -> tuple[list[RowScore], Ints]:
        """Scores (if `scored`) and totals if exactly the rows with code 0 were feasible. Raises PluginError."""
        if not scored and not self.totals.is_known and self._scored_few < _OFTEN:
            rows = np.flatnonzero(codes == 0)
            totals = self.totals.of_few(self.state, codes, rows) if len(rows) <= _FEW_FEASIBLE else None
            if totals is not None:
                self._scored_few += 1
                return [], totals
        self.score(order)
        return self.totals.among(self.state, codes, scored=scored)
