"""All that stands in the way of a pod, node by node.

A scheduling cycle stops at the first plugin that refuses a node, as kube-scheduler does. Here every PreFilter and every
Filter plugin is asked about every node, so that somebody who removes one obstacle knows of the next.

    node-1: Insufficient cpu (NodeResourcesFit), untolerated taint (TaintToleration)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.framework.verdicts import Narrow, Reason, Reject, Skip
from bayplan.scheduler.library import Planner
from bayplan.scheduler.planning.capacity import Limit
from bayplan.scheduler.preparation import outside_code, prepare_missing

if TYPE_CHECKING:
    from bayplan.scheduler.snapshot.shape import PodShape

Refusals = dict[str, tuple[Reason, ...]]
"""Node -> every reason for which it refuses a pod, in the order of the plugins; none if it fits."""


def every_refusal(planner: Planner, pod: Any) -> Refusals:
    """Why each node refuses a pod, nominations and preemption left aside. Raises SchedulerError, DecodeError."""
    info = planner.pod(pod)
    profile = planner.cycle_for(info).profile
    snapshot, shape = planner.snapshot, info.shape
    state = CycleState(snapshot)
    found: Refusals = dict.fromkeys(snapshot.row_of, ())

    def refuse(code: int, rows: Any) -> None:
        reason = profile.reasons[code]
        for name, row in snapshot.row_of.items():
            if row in rows and reason not in found[name]:
                found[name] = (*found[name], reason)

    every_row = frozenset(snapshot.row_of.values())
    for plugin in profile.pre_filter:
        answer = plugin.pre_filter(state, shape)
        if isinstance(answer, Skip | Reject):
            state.skip_filter.add(plugin.name)
        if isinstance(answer, Reject):
            refuse(profile.reasons.code(answer.status, plugin.name, *answer.reasons), every_row)
        elif isinstance(answer, Narrow):
            inside = {snapshot.row_of[name] for name in answer.nodes if name in snapshot.row_of}
            refuse(outside_code(profile, (plugin.name,)), every_row - inside)
    _ask_filters(profile, state, shape, refuse, every_row)
    return found


def _ask_filters(profile: Any, state: CycleState, shape: PodShape, refuse: Any, every_row: frozenset[int]) -> None:
    for plugin in profile.filter:
        if plugin.name in profile.missing_for_filters:
            code = prepare_missing(profile, plugin, state, shape)
            if code:
                refuse(code, every_row)
                continue
        if plugin.name in state.skip_filter:
            continue
        codes = plugin.filter(state, shape, profile.snapshot.all_rows).tolist()
        for code in sorted({code for code in codes if code > 0}):
            refuse(code, frozenset(row for row, one in enumerate(codes) if one == code) & every_row)


def limits_in(refusals: Refusals) -> list[Limit]:
    """The refusals in groups of equal reasons, largest first; a node is in as many as it has reasons."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, reasons in refusals.items():
        for reason in reasons:
            groups.setdefault((reason.plugin, reason.reasons), []).append(name)
    limits = [Limit(plugin, reasons, tuple(sorted(names))) for (plugin, reasons), names in groups.items()]
    return sorted(limits, key=lambda one: (-len(one.nodes), one.plugin, one.reasons))
