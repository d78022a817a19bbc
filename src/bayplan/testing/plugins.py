"""Checks of scheduler plugins: that a plugin answers as its scope says, twice the same, within bounds, and changes nothing.

    from bayplan.testing.plugins import check_plugin

    def test_the_plugin_keeps_its_contract() -> None:
        assert check_plugin("QuietNodes") == []

Answers are kept between decisions and brought up to date as pods come and go. What is kept is compared with what a fresh scheduler works out, on random clusters: a
plugin whose scope is too narrow, or that remembers, looks at a clock or draws lots, differs sooner or later.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bayplan.api.codec import to_tree
from bayplan.api.types import core_v1
from bayplan.scheduler import Planner, registry
from bayplan.scheduler.decision import Decision
from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE, Plugin, QueueSortPlugin
from bayplan.testing.builders import metadata, pod

_STEPS: Final = 20
_ZONES: Final = ("a", "b", "c")
_APPS: Final = ("web", "db", "cache")
Tree = dict[str, Any]


def check_plugin(
    plugin: str | type[Plugin],
    *,
    config: Mapping[str, Any] | str | None = None,
    labels: Mapping[str, tuple[str, ...]] | None = None,
    pod_labels: Mapping[str, tuple[str, ...]] | None = None,
    runs: int = 20,
    seed: int = 0,
) -> list[str]:
    """What is wrong with a plugin; nothing, as far as so many random clusters show. Every line names the run that shows it.

    plugin: its registered name, or its class. config: a scheduler configuration that enables it; by default it is enabled at all of its extension points.
    labels, pod_labels: labels that mean something to the plugin, of nodes and of pods, with the values to choose from. Raises SettingsError, KeyError.
    """
    name = plugin if isinstance(plugin, str) else plugin.name
    with registry.known(plugin) if not isinstance(plugin, str) else _nothing():
        if not registry.is_known(name):
            raise KeyError(f"no plugin {name!r}; is its package installed?")
        settings = config if config is not None else _enabling(name)
        problems: list[str] = []
        for number in range(runs):
            chance = random.Random(f"{seed}/{number}")
            found = _Run(name, settings, chance, labels or {}, pod_labels or {}).problem()
            if found:
                problems.append(f"run {number} of seed {seed}: {found}")
        return problems


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _enabling(name: str) -> Tree:
    plugins: Tree = {"multiPoint": {"enabled": [{"name": name, "weight": 1}]}}
    if issubclass(registry.plugin_class(name), QueueSortPlugin):
        plugins["multiPoint"]["disabled"] = [{"name": "PrioritySort"}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }


class _Run:
    """One random cluster in which pods come and go."""

    def __init__(
        self,
        name: str,
        config: Any,
        chance: random.Random,
        labels: Mapping[str, tuple[str, ...]],
        pod_labels: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._name = name
        self._config = config
        self._chance = chance
        self._pod_labels = pod_labels
        self._nodes = [self._node(index, labels) for index in range(chance.randint(2, 40))]
        self._lasting = Planner(self._nodes, config)
        self._forms = [self._form() for _ in range(3)]

    def _node(self, index: int, labels: Mapping[str, tuple[str, ...]]) -> core_v1.Node:
        chance = self._chance
        own = {"kubernetes.io/hostname": f"n{index:02}", "topology.kubernetes.io/zone": chance.choice(_ZONES)}
        own |= {key: chance.choice(values) for key, values in labels.items() if chance.random() < 0.5}
        amounts: dict[str, Any] = {
            "cpu": chance.choice(("1", "2", "4")),
            "memory": "4Gi",
            "pods": chance.choice(("3", "110")),
        }
        taints = (core_v1.Taint(key="soft", effect="PreferNoSchedule"),) if chance.random() < 0.2 else ()
        return core_v1.Node(
            metadata=metadata(f"n{index:02}", labels=own),
            spec=core_v1.NodeSpec(taints=taints),
            status=core_v1.NodeStatus(allocatable=amounts),
        )

    def _form(self) -> Tree:
        chance = self._chance
        labels = {"app": chance.choice(_APPS)}
        labels |= {key: chance.choice(values) for key, values in self._pod_labels.items() if chance.random() < 0.5}
        return {"cpu": chance.choice(("", "100m", "700m")), "memory": chance.choice(("", "512Mi")), "labels": labels}

    def problem(self) -> str:
        """What is wrong; "" if nothing is."""
        for step in range(_STEPS):
            placed = sorted(self._lasting.snapshot.pods)
            for key in placed:
                if self._chance.random() < 0.1:
                    self._lasting.remove(key)
            form = self._chance.choice(self._forms)
            item = pod(f"p{step}", cpu=form["cpu"], memory=form["memory"], meta={"labels": form["labels"]})
            found = self._judged(item)
            if found:
                return f"step {step}: {found}"
            self._lasting.schedule(item)
        return ""

    def _judged(self, item: core_v1.Pod) -> str:
        """What is wrong with the decision about a pod."""
        before = self._state()
        kept = self._lasting.decide(item, explain=True)
        if self._state() != before:
            return "the snapshot is another one after a decision: plugins must not change it"
        if kept.error:
            return f"it fails: {kept.error}"
        return self._out_of_bounds(kept) or self._unlike(kept, item)

    def _out_of_bounds(self, decision: Decision) -> str:
        scores = decision.scores.get(self._name)
        if scores is None:
            return ""
        weight, feasible = decision.weights[self._name], decision.codes == 0
        most = int(scores[feasible].max(initial=0)) // weight
        least = int(scores[feasible].min(initial=0)) // weight
        if least >= 0 and most <= MAX_NODE_SCORE:
            return ""
        return f"scores go from {least} to {most}; after normalize they must be within 0 and {MAX_NODE_SCORE}"

    def _unlike(self, kept: Decision, item: core_v1.Pod) -> str:
        """How the kept answers differ from those of two fresh schedulers."""
        first, second = self._afresh(item), self._afresh(item)
        if first != second:
            return f"two schedulers that know the same decide differently: {_difference(first, second)}"
        if kept.to_dict() != first:
            return (
                "what was kept differs from what a fresh scheduler works out, so the scope is too narrow or the plugin remembers something: "
                + _difference(kept.to_dict(), first)
            )
        return ""

    def _afresh(self, item: core_v1.Pod) -> Tree:
        planner = Planner(self._nodes, self._config)
        for info in self._lasting.snapshot.pods.values():
            planner.snapshot.place(planner.snapshot.pod_info(info.pod), info.node_name)
        return planner.decide(item, explain=True).to_dict()

    def _state(self) -> Any:
        snapshot = self._lasting.snapshot
        nodes = [to_tree(node) if node is not None else None for node in snapshot.nodes]
        columns = (snapshot.allocatable, snapshot.requested, snapshot.free, snapshot.pod_count, snapshot.places)
        return (
            nodes,
            [one.tolist() for one in columns],
            {key: info.node_name for key, info in snapshot.pods.items()},
        )


def _difference(one: Any, other: Any, path: str = "") -> str:
    """The first place in which two trees differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                return _difference(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    return f"{path}: {one!r} and {other!r}"
