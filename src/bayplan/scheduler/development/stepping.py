"""One decision, step by step: what each plugin said of each node, for developers of plugins.

    steps = step_through(Planner(objects, "profile.yaml"), pod)
    steps.step()               # the next plugin, as a table
    steps.next()               # the rest of this extension point
    steps.why("node-3")        # everything that was said of one node
    steps.cost()               # what each plugin took

In a notebook steps show themselves as tables. Every plugin is asked anew and about every node, also about those that an earlier plugin
refused; nothing is changed. A plugin that raises is a step like others, which says where. The decision itself is that of the planner,
with what it keeps between decisions: where the two differ, a plugin does not keep its scope.
"""

from __future__ import annotations

import contextlib
import html
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bayplan.scheduler.cycle import Cycle
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.framework.extension_points import FilterPlugin
from bayplan.scheduler.framework.meter import Meter
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import PluginError
from bayplan.scheduler.library import Planner
from bayplan.scheduler.preparation import prepare, prepare_missing
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.support.clock import Clock, SystemClock
from bayplan.support.metrics.instruments import Counter

PASSES: Final = "passes"
_MOST_ROWS: Final = 20
_MEASURED: Final = ("PreFilter", "Filter", "PostFilter", "PreScore", "Score")
Said = dict[str, tuple[str, ...]]
"""Node, or step -> what was said of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one plugin said at one extension point, or what was made of it."""

    point: str
    """Extension point, such as `Filter`; `Decision` for the last step."""
    plugin: str
    says: str
    """In a sentence."""
    head: tuple[str, ...] = ()
    """Names of the columns of `nodes`."""
    nodes: Said = field(default_factory=dict)
    """Node -> what was said of it, a cell per column; by name."""
    keys: str = "NODE"
    """What the keys of `nodes` are."""

    def text(self, most: int = _MOST_ROWS) -> str:
        """As a table. most: nodes that are shown."""
        rows = [(self.keys, *self.head), *((name, *cells) for name, cells in list(self.nodes.items())[:most])]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [f"{self.title}: {self.says}"]
        if self.nodes:
            lines += [
                "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                for row in rows
            ]
        if len(self.nodes) > most:
            lines.append(f"  ... and {len(self.nodes) - most} more nodes")
        return "\n".join(lines)

    @property
    def title(self) -> str:
        """Extension point and plugin."""
        return f"{self.point} {self.plugin}".rstrip()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        cells = "".join(_row("td", (name, *said)) for name, said in self.nodes.items())
        table = f"<table>{_row('th', (self.keys, *self.head))}{cells}</table>" if self.nodes else ""
        return f"<p><b>{html.escape(self.title)}</b>: {html.escape(self.says)}</p>{table}"


class Costs(Meter):
    """Adds up what plugins take: plugin -> extension point -> seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.of: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    @contextlib.contextmanager
    def taken_in(self, cycle: Cycle) -> Iterator[None]:
        """Measure the plugins of a cycle meanwhile."""
        before, cycle.profile.meter = cycle.profile.meter, self
        try:
            yield
        finally:
            cycle.profile.meter = before

    def now(self) -> float:
        return self._clock.monotonic()

    def wall_time(self) -> float:
        return self._clock.now()

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.of[plugin][point] += seconds

    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Plugins are counted one by one."""

    def evaluations(self, profile: str, counters: Mapping[tuple[str, str], Counter]) -> None:
        """How often is not counted."""

    def devices_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """Nothing is bound."""

    def volumes_failed(self, stage: str) -> None:
        """Nothing is bound."""


@dataclass(slots=True, repr=False)
class DecisionSteps:
    """The steps of one decision, and how many of them have been gone."""

    pod: str
    steps: tuple[Step, ...]
    decision: Decision
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Plugin -> extension point -> seconds."""
    position: int = 0
    """The step that comes next."""

    @property
    def is_over(self) -> bool:
        """Whether all steps have been gone."""
        return self.position >= len(self.steps)

    def step(self) -> Step | None:
        """The next plugin; None after the last."""
        if self.is_over:
            return None
        self.position += 1
        return self.steps[self.position - 1]

    def next(self) -> list[Step]:
        """All steps up to the next extension point."""
        gone: list[Step] = []
        while (step := self._coming()) is not None and (not gone or step.point == gone[0].point):
            gone.append(step)
            self.position += 1
        return gone

    def _coming(self) -> Step | None:
        return None if self.is_over else self.steps[self.position]

    def restart(self) -> None:
        """Go back before the first step."""
        self.position = 0

    def why(self, node: str) -> Step:
        """Everything that was said of one node, a line per plugin. Raises KeyError for an unknown node."""
        if node not in self.decision.names:
            raise KeyError(node)
        said: Said = {step.title: (", ".join(step.nodes[node]),) for step in self.steps if node in step.nodes}
        if node == self.decision.node:
            verdict = "it is chosen"
        else:
            refused = self.decision.verdict(node)
            verdict = f"refused: {', '.join(refused.reasons)} ({refused.plugin})" if refused else "not chosen"
        return Step("Why", node, verdict, ("SAID",), said, "STEP")

    def cost(self) -> Step:
        """What each plugin took to judge all nodes, in milliseconds, the dearest first. What the planner knew before costs nothing."""
        points = [point for point in _MEASURED if any(point in spent for spent in self.costs.values())]
        totals = {name: sum(spent.values()) for name, spent in self.costs.items()}
        said: Said = {
            name: tuple(
                f"{1000 * one:.3f}" if one is not None else ""
                for one in (totals[name], *map(self.costs[name].get, points))
            )
            for name in sorted(totals, key=lambda name: (-totals[name], name))
        }
        says = f"{1000 * sum(totals.values()):.3f} ms for {self.decision.node_count} nodes"
        return Step("Cost", "", says, ("MS", *points), said, "PLUGIN")

    def __repr__(self) -> str:
        return "\n".join(step.text() for step in self.steps[: self.position] or self.steps)

    def _repr_html_(self) -> str:
        return "".join(step._repr_html_() for step in self.steps[: self.position] or self.steps)


def step_through(planner: Planner, pod: Any, clock: Clock | None = None) -> DecisionSteps:
    """The steps of a decision about a pod that is not placed; nothing is changed. Raises SchedulerError, DecodeError, PluginError."""
    info = pod if isinstance(pod, PodInfo) else planner.pod(pod)
    cycle = planner.cycle_for(info)
    costs = Costs(clock or SystemClock())
    with costs.taken_in(cycle):
        decision = planner.decide_in(cycle, info, full=True, explain=True)
    return DecisionSteps(info.key, tuple(_steps(cycle, info, decision, costs)), decision, costs.of)


def _steps(cycle: Cycle, info: PodInfo, decision: Decision, costs: Costs) -> Iterator[Step]:
    for plugin in cycle.profile.plugin_plan(info.shape).pre_enqueue:
        try:
            reject = plugin.pre_enqueue(info)
        except PluginError as error:
            yield Step("PreEnqueue", plugin.name, str(error))
            continue
        yield Step("PreEnqueue", plugin.name, PASSES if reject is None else ", ".join(reject.reasons))
    if decision.gate is None:
        yield from _filters(cycle, info, decision)
        yield from _scores(cycle, info, decision, costs)
        if decision.post_filter is not None:
            victims = f"evict {', '.join(decision.victims)} on {decision.nominated_node}" if decision.victims else ""
            yield Step("PostFilter", "", victims or decision.post_filter_message or "nothing helps")
    yield Step("Decision", "", decision.summary().splitlines()[0], ("TOTAL",), _totals(decision))


def _filters(cycle: Cycle, info: PodInfo, decision: Decision) -> Iterator[Step]:
    profile, shape = cycle.profile, info.shape
    state = CycleState(cycle.snapshot)
    try:
        prepared = prepare(profile, state, shape, profile.pre_filter)
    except PluginError as error:
        yield Step("PreFilter", error.plugin, str(error))
        return
    for plugin in profile.pre_filter:
        skips = plugin.name in state.skip_filter
        yield Step("PreFilter", plugin.name, "has nothing to say of this pod" if skips else "looks at nodes")
    if prepared.narrowed is not None:
        by = ", ".join(prepared.narrowed_by)
        yield Step("PreFilter", "", f"only {', '.join(sorted(prepared.narrowed)) or 'no node'} ({by})")
    if prepared.rejection is not None:
        name, reject = prepared.rejection
        yield Step("PreFilter", name, f"rejects the pod: {', '.join(reject.reasons)}")
        return
    for filtering in profile.filter:
        try:
            codes = _codes(cycle, filtering, state, info.shape)
        except PluginError as error:
            yield Step("Filter", filtering.name, str(error))
            continue
        if codes is None:
            continue
        said: Said = {
            name: (PASSES if code <= 0 else ", ".join(profile.reasons[code].reasons),)
            for name, code in zip(decision.names, codes, strict=True)
            if name
        }
        refused = sum(cells != (PASSES,) for cells in said.values())
        yield Step("Filter", filtering.name, f"refuses {refused} of {len(said)} nodes", ("SAYS",), _by_name(said))


def _codes(cycle: Cycle, plugin: FilterPlugin, state: CycleState, shape: PodShape) -> list[int] | None:
    """What a plugin says of each node; None if it skips the pod. Raises PluginError."""
    profile = cycle.profile
    missing = prepare_missing(profile, plugin, state, shape) if plugin.name in profile.missing_for_filters else 0
    if plugin.name in state.skip_filter:
        return None
    if missing:
        return [missing] * len(cycle.names())
    codes: list[int] = plugin.filter(state, shape, cycle.snapshot.all_rows).tolist()
    return codes


def _scores(cycle: Cycle, info: PodInfo, decision: Decision, costs: Costs) -> Iterator[Step]:
    if decision.node and not decision.scores:  # the decision did not need them
        try:
            with costs.taken_in(cycle):
                cycle.evaluation(info.shape).score(cycle.order())
        except PluginError as error:
            yield Step("Score", error.plugin, str(error))
    for name, scores in decision.scores.items():
        weight = decision.weights.get(name, 1) or 1
        said: Said = {
            node: (f"{scores.item(row) / weight:g}", str(scores.item(row)))
            for row, node in enumerate(decision.names)
            if node and decision.codes.item(row) == 0
        }
        yield Step("Score", name, f"weight {weight}", ("SCORE", "WEIGHTED"), _best_first(said, 1))


def _totals(decision: Decision) -> Said:
    if not decision.scores or decision.rejection is not None:
        return {}
    total = decision.total
    said: Said = {
        name: (str(total.item(row)),) for row, name in enumerate(decision.names) if name and total.item(row) >= 0
    }
    return _best_first(said, 0)


def _by_name(said: Said) -> Said:
    return dict(sorted(said.items()))


def _best_first(said: Said, column: int) -> Said:
    return dict(sorted(said.items(), key=lambda item: (-int(item[1][column]), item[0])))


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
