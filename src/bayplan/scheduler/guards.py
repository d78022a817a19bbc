"""What plugins of other people cannot do to a scheduler: end it, loop without end, answer what is no answer, change the snapshot.

Their methods are wrapped when a profile makes them. What is wrong becomes a PluginError, which names the plugin in the decision about the pod; other pods, and other
profiles, go on. Bayplan's own plugins are not wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np

from bayplan.scheduler.framework.extension_points import (
    MAX_NODE_SCORE,
    FilterPlugin,
    Plugin,
    PreEnqueuePlugin,
    ScaledScorePlugin,
    ScorePlugin,
)
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Codes, PluginError, Reject, Status
from bayplan.scheduler.guarded_calls import called, guard_calls
from bayplan.scheduler.snapshot.labels import Ints, Rows
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.snapshot import Snapshot
from bayplan.support.metrics.instruments import Counter
from bayplan.support.time_limit import TimeLimit

SECONDS: Final = 10.0
"""For each call of a plugin."""
REST_SECONDS: Final = 60.0
"""For which a plugin is not asked after it took longer."""
_TIMED: Final = (
    "pre_filter", "filter", "filter_row", "refresh_filter", "catch_up", "post_filter",
    "pre_score", "score", "score_row", "normalize", "scale", "rescore",
)  # fmt: skip
"""Methods that are asked while pods are decided about."""
_CHANGING: Final = frozenset(
    (
        "put_node", "remove_node", "put_pod", "remove_pod", "place", "renew", "terminate", "relabel",
        "put_object", "remove_object", "what_if", "count_what_if", "taking",
    )
)  # fmt: skip
"""Methods of a snapshot that change it."""
_READ_ONLY: Final = "read-only"
"""In NumPy's words for arrays that cannot be written to."""


class _ReadOnlyList(Sequence[Any]):
    """A list that cannot be changed, seen as it is at the moment."""

    __slots__ = ("_items",)

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def __getitem__(self, place: Any) -> Any:
        return self._items[place]

    def __len__(self) -> int:
        return len(self._items)


class ReadOnlySnapshot:
    """A snapshot whose arrays and tables cannot be written to, and whose methods that change it are not there."""

    __slots__ = ("__weakref__", "_snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        object.__setattr__(self, "_snapshot", snapshot)

    def __getattr__(self, name: str) -> Any:
        if name in _CHANGING:
            raise AttributeError(f"plugins cannot change the snapshot: {name}")
        value = getattr(self._snapshot, name)
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        elif isinstance(value, list):
            value = _ReadOnlyList(value)
        elif isinstance(value, Mapping) and name != "derived":  # where plugins share what they work out
            value = MappingProxyType(value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"plugins cannot change the snapshot: {name}")


class Guards:
    """Those of one profile."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.suspects: dict[str, ScorePlugin] = {}
        """Plugins that have given a score out of range to some node, perhaps to one that cannot run the pod, which does not matter."""
        self._odd_rows: dict[str, set[int]] = {}
        """By plugin, rows to which it gave such a score when it was asked about one row."""

    def watch(self, plugin: Plugin) -> None:
        """Wrap the methods of a plugin."""
        plugin.snapshot = cast(Snapshot, ReadOnlySnapshot(self._snapshot))
        limit, own = TimeLimit(SECONDS, REST_SECONDS), vars(plugin)
        for name in _TIMED:
            method = getattr(plugin, name, None)
            if method is not None:
                own[name] = _timed(plugin, limit, method)
        guard_calls(plugin, limit)
        if isinstance(plugin, FilterPlugin):
            own["filter"] = self._checked_filter(plugin, plugin.filter)
            own["filter_row"] = self._checked_filter_row(plugin, plugin.filter_row)
        if isinstance(plugin, ScorePlugin):
            own["score"] = self._checked_score(plugin, plugin.score)
            own["score_row"] = self._checked_score_row(plugin, plugin.score_row)
            own["normalize"] = _checked_normalize(plugin, plugin.normalize)
        if isinstance(plugin, ScaledScorePlugin):
            own["scale"] = self._checked_scale(plugin, plugin.scale)
        if isinstance(plugin, PreEnqueuePlugin):
            own["pre_enqueue"] = _closed_if_broken(plugin, limit, plugin.pre_enqueue)

    def check_scores(
        self, state: CycleState, shape: PodShape, codes: Codes, evaluations: Mapping[tuple[str, str], Counter]
    ) -> None:
        """Raise PluginError if a plugin's score of a node that can run the pod is out of range. evaluations: how often plugins were asked."""
        feasible = np.flatnonzero(codes == 0)
        for name, plugin in self.suspects.items():
            asked = evaluations.get((name, "Score"))
            if asked is None or not len(feasible):
                continue
            asked.value += len(feasible)
            scores = plugin.score(state, shape, feasible)
            if plugin.normalizes:
                scores = plugin.normalize(state, shape, feasible, scores)
            _check_range(plugin, scores)
            rows = [row for row in self._odd_rows.get(name, ()) if row < len(codes) and codes.item(row) == 0]
            asked.value += len(rows)
            _check_range(plugin, np.array([plugin.score_row(state, shape, row) for row in rows], dtype=np.int64))

    def _checked_filter(self, plugin: FilterPlugin, method: Callable[..., Codes]) -> Callable[..., Codes]:
        snapshot = self._snapshot

        @wraps(method)
        def filter_rows(state: CycleState, pod: PodShape, rows: Rows) -> Codes:
            codes = method(state, pod, rows)
            _check_array(plugin, "Filter", codes, snapshot.select(rows))
            if len(codes) and (codes.min() < 0 or codes.max() >= len(plugin.reasons)):
                wrong = codes[snapshot.alive[rows] & ((codes < 0) | (codes >= len(plugin.reasons)))]
                if len(wrong):
                    raise _no_verdict(plugin, int(wrong[0]))
            own: Codes = _own(codes)
            return own

        return filter_rows

    def _checked_filter_row(self, plugin: FilterPlugin, method: Callable[..., int]) -> Callable[..., int]:
        @wraps(method)
        def filter_row(state: CycleState, pod: PodShape, row: int) -> int:
            code = method(state, pod, row)
            if not isinstance(code, int | np.integer) or not 0 <= code < len(plugin.reasons):
                raise _no_verdict(plugin, code)
            return int(code)

        return filter_row

    def _checked_score(self, plugin: ScorePlugin, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def score(state: CycleState, pod: PodShape, rows: Rows) -> Any:
            scores = method(state, pod, rows)
            _check_array(plugin, "Score", scores, self._snapshot.select(rows))
            if not plugin.normalizes and _is_outside(scores):
                self.suspects[plugin.name] = plugin
            return _own(scores)

        return score

    def _checked_scale(self, plugin: ScaledScorePlugin, method: Callable[..., Ints]) -> Callable[..., Ints]:
        """It is asked about all nodes, also those that cannot run the pod."""

        @wraps(method)
        def scale(state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
            found = method(state, pod, scores, lowest, highest)
            _check_array(plugin, "Score", found, len(scores))
            if _is_outside(found):
                self.suspects[plugin.name] = plugin
            return found

        return scale

    def _checked_score_row(self, plugin: ScorePlugin, method: Callable[..., int]) -> Callable[..., int]:
        @wraps(method)
        def score_row(state: CycleState, pod: PodShape, row: int) -> int:
            score = method(state, pod, row)
            if not isinstance(score, int | np.integer):
                raise PluginError(
                    plugin.name, f"plugin {plugin.name} failed: Score answered {score!r}, not a whole number"
                )
            if not plugin.normalizes and not 0 <= score <= MAX_NODE_SCORE:
                self.suspects[plugin.name] = plugin
                self._odd_rows.setdefault(plugin.name, set()).add(row)
            return int(score)

        return score_row


def _own(answer: Any) -> Any:
    """An answer that may be kept and changed: part of the snapshot as it is may not."""
    return answer if answer.flags.writeable else answer.copy()


def _timed(plugin: Plugin, limit: TimeLimit, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def timed(*arguments: Any) -> Any:
        try:
            return called(plugin, limit, method, *arguments, prefix=f"plugin {plugin.name} ")
        except PluginError as error:
            if not isinstance(error.__cause__, ValueError) or _READ_ONLY not in str(error):
                raise
            raise PluginError(plugin.name, f"{error}; it is the snapshot's: plugins must not change it") from error

    return timed


def _closed_if_broken(
    plugin: PreEnqueuePlugin, limit: TimeLimit, method: Callable[[PodInfo], Reject | None]
) -> Callable[[PodInfo], Reject | None]:
    """A gate that fails is closed, and says why: nothing else could hold the error of one pod."""

    @wraps(method)
    def pre_enqueue(pod: PodInfo) -> Reject | None:
        try:
            answer = called(plugin, limit, method, pod, prefix=f"plugin {plugin.name} ")
        except PluginError as error:
            return Reject(Status.ERROR, (str(error),))
        if answer is None or isinstance(answer, Reject):
            return answer
        problem = f"plugin {plugin.name} failed: it answered {answer!r}, neither None nor a Reject"
        return Reject(Status.ERROR, (problem,))

    return pre_enqueue


def _checked_normalize(plugin: ScorePlugin, method: Callable[..., Ints]) -> Callable[..., Ints]:
    @wraps(method)
    def normalize(state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        found = method(state, pod, feasible, scores)
        _check_array(plugin, "NormalizeScore", found, len(scores))
        if plugin.normalizes:
            _check_range(plugin, found)
        return found

    return normalize


def _is_outside(scores: Ints) -> bool:
    return len(scores) > 0 and bool(scores.min() < 0 or scores.max() > MAX_NODE_SCORE)


def _check_range(plugin: ScorePlugin, scores: Ints) -> None:
    """Raises PluginError, in kube-scheduler's words."""
    if _is_outside(scores):
        wrong = scores[(scores < 0) | (scores > MAX_NODE_SCORE)][0]
        raise PluginError(
            plugin.name,
            f'applying score defaultWeights on Score plugins: plugin "{plugin.name}" returns an invalid score {wrong}, '
            f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing",
        )


def _check_array(plugin: Plugin, point: str, answer: Any, count: int) -> None:
    """Raises PluginError."""
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "iub" or answer.shape != (count,):
        found = f"an array of {answer.dtype} {answer.shape}" if isinstance(answer, np.ndarray) else repr(answer)
        raise PluginError(
            plugin.name, f"plugin {plugin.name} failed: {point} answered {found}, not whole numbers for {count} nodes"
        )


def _no_verdict(plugin: Plugin, code: Any) -> PluginError:
    return PluginError(
        plugin.name,
        f'running "{plugin.name}" filter plugin: the verdict {code!r} is neither 0 nor a code of `self.reasons`',
    )
