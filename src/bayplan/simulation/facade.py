"""The questions as a library: `import bayplan`, in scripts and notebooks.

    import bayplan

    cluster = bayplan.read("cluster.copy")                     # or a directory of manifests, a dump, ...
    bayplan.capacity(cluster, requests={"cpu": "500m"})        # in a notebook: a page; in a terminal: a table
    bayplan.simulate(cluster, bayplan.Drain(("node-1",))).result.pending

Every question gives an `Answer`: its `result` is typed data, and it shows itself where it stands.
"""

from __future__ import annotations

import contextlib
import html
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from bayplan.api.types import core_v1
from bayplan.simulation.actions import Action
from bayplan.simulation.fixes import search as _fixes
from bayplan.simulation.questions import capacity as _capacity
from bayplan.simulation.questions import consolidate as _consolidate
from bayplan.simulation.questions import what_if as _what_if
from bayplan.simulation.readers.reading import read
from bayplan.simulation.rehearsal import run as _rehearsal
from bayplan.simulation.rehearsal import setting as _setting
from bayplan.simulation.replay import compare as _compare
from bayplan.simulation.replay import result as _result
from bayplan.simulation.replay import run as _replay
from bayplan.simulation.snapshots.planner import fresh, node_shape, pod_named, pod_of_requests
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot
from bayplan.support.progress import Progress

T = TypeVar("T")
_FRAME_HEIGHT = 640


@dataclass(frozen=True, repr=False)
class Answer(Generic[T]):
    """An answer that shows itself: a table in a terminal, a page in a notebook."""

    result: T
    """The answer as typed data."""
    _table: Callable[[T], object] = field(compare=False)
    _page: Callable[[T], str] = field(compare=False)

    def __repr__(self) -> str:
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            self._table(self.result)
        return text.getvalue().rstrip()

    def page(self) -> str:
        """A page of HTML that needs nothing else."""
        return self._page(self.result)

    def save(self, path: str | Path) -> None:
        """Write the page to a file. Raises OSError."""
        Path(path).write_text(self.page(), encoding="utf-8")

    def _repr_html_(self) -> str:
        """What notebooks show: the page in a frame of its own, so that neither's style touches the other's."""
        return f'<iframe srcdoc="{html.escape(self.page())}" style="width:100%;height:{_FRAME_HEIGHT}px;border:0"></iframe>'


def _pod(cluster: ClusterSnapshot, pod: core_v1.Pod | str | None, requests: Mapping[str, str] | None) -> core_v1.Pod:
    if requests is not None and pod is None:
        return pod_of_requests(requests)
    if pod is None or requests is not None:
        raise ValueError("give either a pod (or the `namespace/name` of one like it) or requests")
    return fresh(pod_named(cluster, pod)) if isinstance(pod, str) else pod


def capacity(
    cluster: ClusterSnapshot,
    pod: core_v1.Pod | str | None = None,
    *,
    requests: Mapping[str, str] | None = None,
    wanted: int | None = None,
    shape: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Answer[_capacity.Capacity]:
    """How many more of a pod fit, what limits them, and how many nodes are missing for `wanted`.

    pod: a pod, or `namespace/name` of one like it; or `requests` of a plain one. shape: amounts of nodes that could be
    added, where they are not the usual. Raises QuestionError, ValueError.
    """
    from bayplan.simulation.reports.page import capacity_page
    from bayplan.simulation.reports.tables import print_capacity

    with Progress("placing pods", wanted) as progress:
        found = _capacity.capacity(
            cluster,
            _pod(cluster, pod, requests),
            wanted=wanted,
            shape=lambda: node_shape(cluster, "", shape),
            config=config,
            told=progress.tell,
        )
    return Answer(found, print_capacity, lambda result: capacity_page(cluster, result))


def consolidate(
    cluster: ClusterSnapshot, *, selector: str = "", keep: int = 1, most: int | None = None, config: Path | None = None
) -> Answer[_consolidate.Consolidation]:
    """Which nodes can go, in which order, and where everything moves. Raises QuestionError."""
    from bayplan.simulation.reports.page import consolidation_page
    from bayplan.simulation.reports.tables import print_consolidation

    with Progress("nodes", len(cluster.of("Node"))) as progress:
        found = _consolidate.consolidate(
            cluster, selector=selector, keep=keep, most=most, config=config, told=progress.tell
        )
    return Answer(found, print_consolidation, lambda result: consolidation_page(cluster, result))


def fix(cluster: ClusterSnapshot, pod: str, *, most: int = 10, config: Path | None = None) -> Answer[_fixes.Fixes]:
    """The smallest changes that would place a pending pod (`namespace/name`), each tried. Raises QuestionError."""
    from bayplan.simulation.reports.page import fixes_page
    from bayplan.simulation.reports.tables import print_fixes

    found = _fixes.fixes_for(cluster, pod_named(cluster, pod), config=config, most=most)
    return Answer(found, print_fixes, lambda result: fixes_page(cluster, result))


def simulate(
    cluster: ClusterSnapshot, *actions: Action, seconds: float | None = None, seed: int = 0, config: Path | None = None
) -> Answer[_what_if.Outcome]:
    """What happens if something is done, in virtual time: until all is at rest, or for so many seconds.

    Cannot be called from a coroutine: it runs an event loop of its own. Raises ActionError.
    """
    from bayplan.simulation.reports.outcome_page import outcome_page
    from bayplan.simulation.reports.outcome_tables import print_outcome

    found = _what_if.simulate(cluster, actions, seconds=seconds, seed=seed, config=config)
    return Answer(found, print_outcome, lambda result: outcome_page(cluster, result))


def replay(
    workload: _replay.Workload, *, config: str | Path | None = None, seed: int | None = None
) -> Answer[_result.Replay]:
    """Place a workload over time. `seed`: chooses among equally good nodes; None takes the first by name."""
    from bayplan.simulation.replay.report import replay_page
    from bayplan.simulation.replay.tables import print_replay

    with Progress("pods placed", len(workload.arrivals)) as progress:
        found = _replay.replay(workload, str(config) if config else None, seed=seed, told=progress.tell)
    return Answer(found, print_replay, lambda result: replay_page("a workload", result))


def compare(
    workload: _replay.Workload | ClusterSnapshot,
    first: str | Path | None,
    second: str | Path | None,
    *,
    seeds: int = 5,
    prices: Mapping[str, float] | None = None,
) -> Answer[_compare.Comparison]:
    """Two scheduler configurations (files; None for the defaults) on one workload, or on the pods of a cluster placed anew."""
    from bayplan.simulation.replay.report import comparison_page
    from bayplan.simulation.replay.tables import print_comparison

    if isinstance(workload, ClusterSnapshot):
        workload = _compare.workload_of_copy(workload)
    names = (str(first or "the defaults"), str(second or "the defaults"))
    files: Sequence[Any] = [str(one) if one else None for one in (first, second)]
    with Progress("runs", 2 * seeds) as progress:
        found = _compare.compare(
            workload, *files, seeds=seeds, prices=_compare.Prices.of(prices) if prices else None, told=progress.tell
        )
    return Answer(found, lambda result: print_comparison(names, result), lambda result: comparison_page(names, result))


def rehearse(
    workload: _replay.Workload | ClusterSnapshot,
    first: _setting.Setting,
    second: _setting.Setting,
    *,
    seed: int | None = None,
) -> Answer[_rehearsal.Rehearsal]:
    """What another configuration, other plugins or the rules of another Kubernetes release make of each pod. `seed`: as in `replay`.

    Raises SettingsError, PluginFileError.
    """
    from bayplan.simulation.rehearsal.page import rehearsal_page
    from bayplan.simulation.rehearsal.tables import print_rehearsal

    if isinstance(workload, ClusterSnapshot):
        workload = _compare.workload_of_copy(workload)
    with Progress("pods placed", 2 * len(workload.arrivals)) as progress:
        found = _rehearsal.rehearse(workload, first, second, seed=seed, told=progress.tell)
    return Answer(found, print_rehearsal, rehearsal_page)


__all__ = ["Answer", "capacity", "compare", "consolidate", "fix", "read", "rehearse", "replay", "simulate"]
