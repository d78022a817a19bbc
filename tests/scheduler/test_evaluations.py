"""How often plugins are asked, as metrics tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from bayplan.scheduler.framework.extension_points import ScaledScorePlugin, ScorePlugin, default_normalize
from bayplan.scheduler.framework.state import CycleState, PodShape
from bayplan.scheduler.framework.verdicts import Skip
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.snapshot.labels import Ints, Rows
from tests.scheduler.devices import claim, device, device_class, slice_of, user
from tests.scheduler.installing import install
from tests.scheduler.objects import Tree, apart, node, pod, spread
from tests.scheduler.test_metrics import Measured


def test_how_often_each_plugin_is_asked_is_counted_per_pod_or_node() -> None:
    setup = Measured()
    for name in "ab":
        setup.see("Node", node(name, cpu="4"))
    profile = "default-scheduler"

    def asked(plugin: str, point: str) -> float:
        return setup.values("scheduler_plugin_evaluation_total")[plugin, point, profile]

    assert asked("NodeResourcesFit", "Filter") == 0
    setup.see("Pod", pod("p", cpu="1"))
    setup.attempt()
    assert [asked("NodeResourcesFit", point) for point in ("PreFilter", "Filter", "Score")] == [1, 2, 2]
    assert asked("TaintToleration", "Filter") == 2
    assert [asked("PodTopologySpread", point) for point in ("PreFilter", "Filter", "PreScore", "Score")] == [0, 0, 0, 0]
    setup.see("Pod", pod("q", cpu="1"))
    setup.attempt()
    assert [asked("NodeResourcesFit", point) for point in ("PreFilter", "Filter", "Score")] == [1, 3, 3]
    assert asked("TaintToleration", "Filter") == 2
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    constraint = spread | {"labelSelector": {"matchLabels": {"app": "x"}}}
    setup.see("Pod", pod("s", cpu="1", labels={"app": "x"}, topologySpreadConstraints=[constraint]))
    setup.attempt()
    assert [asked("PodTopologySpread", point) for point in ("PreFilter", "Filter", "PreScore", "Score")] == [0, 0, 1, 2]


def test_costly_plugins_are_asked_only_about_nodes_that_others_let_through() -> None:
    setup = Measured()
    for name, cpu in (("a", "4"), ("b", "1"), ("c", "4")):
        setup.see("Node", node(name, cpu=cpu))
    for tree in (device_class(), slice_of("a", device("gpu-0")), claim("c")):
        setup.see(tree["kind"], tree)
    tree = user("p", "c")
    tree["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    setup.see("Pod", tree)
    setup.attempt()
    found = setup.values("scheduler_plugin_evaluation_total")
    assert found["NodeResourcesFit", "Filter", "default-scheduler"] == 3
    assert found["DynamicResources", "Filter", "default-scheduler"] == 2


def test_nodes_on_which_room_could_be_made_are_evaluated_as_well() -> None:
    setup = Measured()
    setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("low", cpu="800m", on="a"))
    setup.see("Pod", pod("urgent", cpu="700m", priority=10))
    setup.attempt()
    found = setup.values("scheduler_plugin_evaluation_total")
    assert found["NodeResourcesFit", "Filter", "default-scheduler"] > 1


class Level(ScorePlugin):
    """Likes nodes with few pods, as far as there are differences."""

    name: ClassVar[str] = "Level"
    normalizes = True

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return -self.snapshot.pod_count[rows]

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        return default_normalize(scores - scores.min(), reverse=False)


class Scaled(ScaledScorePlugin):
    """As `Level`, by extremes."""

    name: ClassVar[str] = "Scaled"

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return self.snapshot.pod_count[rows]

    def scale(self, state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
        return (highest - scores) * 100 // max(highest - lowest, 1)


class Watched:
    """Counts by itself about how much the plugins of a profile are asked, however they answer one another."""

    METHODS: ClassVar = {
        "pre_filter": "PreFilter",
        "filter": "Filter",
        "filter_row": "Filter",
        "row_what_if": "Filter",
        "catch_up": "",
        "pre_score": "PreScore",
        "score": "Score",
        "score_row": "Score",
        "rescore": "",
    }

    def __init__(self, profile: Profile) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()
        self._snapshot = profile.snapshot
        self._inside = False
        for plugin in profile.plugins.values():
            for method, point in self.METHODS.items():
                if hasattr(plugin, method):
                    setattr(plugin, method, self._watching(plugin, method, point))

    def _watching(self, plugin: Any, method: str, point: str) -> Callable[..., Any]:
        original = getattr(plugin, method)

        def ask(*args: Any) -> Any:
            if self._inside:
                return original(*args)
            self._inside = True
            try:
                answer = original(*args)
            finally:
                self._inside = False
            counts = answer is not None if method == "row_what_if" else not isinstance(answer, Skip)
            if point and counts:
                about_rows = method in ("filter", "score")
                self.asked[plugin.name, point] += self._snapshot.select(args[2]) if about_rows else 1
            return answer

        return ask


def test_the_counts_of_evaluations_are_what_plugins_were_really_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Measured(install(monkeypatch, [Level, Scaled]))
    for number in range(90):
        labels = {"zone": f"z{number % 2}", "kubernetes.io/hostname": f"n{number}"}
        setup.see("Node", node(f"n{number}", labels=labels, cpu="2"))
    profile = setup.core.cycles["default-scheduler"].profile
    watched = Watched(profile)
    app = {"app": "x"}
    kinds: tuple[Tree, ...] = (
        {},
        {"labels": app, "topologySpreadConstraints": [spread("zone", app)]},
        {"labels": app, "topologySpreadConstraints": [spread("kubernetes.io/hostname", app, when="ScheduleAnyway")]},
        {"labels": {"app": "y"}, "affinity": apart("kubernetes.io/hostname", {"app": "y"})},
        {"priority": 5, "cpu": "1900m"},
    )
    for number in range(200):
        fields: Tree = {"cpu": "300m"} | kinds[number % len(kinds)]
        setup.see("Pod", pod(f"p{number}", **fields))
        setup.core.schedule_one()
    counted = {key: counter.value for key, counter in profile.evaluations.items() if counter.value}
    assert counted == watched.asked
