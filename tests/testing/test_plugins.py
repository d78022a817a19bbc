"""Checks of scheduler plugins find what breaks their contract, and nothing in plugins that keep it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from bayplan.scheduler import registry
from bayplan.scheduler.framework.extension_points import (
    MAX_NODE_SCORE,
    FilterPlugin,
    Plugin,
    ScalarFilterPlugin,
    Scope,
    ScorePlugin,
)
from bayplan.scheduler.framework.verdicts import PluginError, Status
from bayplan.testing.plugins import check_plugin
from examples.scheduler.quiet_nodes import DEAF, NOISY, QuietNodes


class Counts(ScorePlugin):
    """Keeps the contract: the score follows from the pods of the row."""

    name = "Counts"

    def score(self, state: Any, pod: Any, rows: Any) -> Any:
        return MAX_NODE_SCORE - np.minimum(self.snapshot.pod_count[rows], MAX_NODE_SCORE)


class TooNarrow(Counts):
    """Says that pods do not matter, and they do."""

    name = "TooNarrow"
    score_scope = Scope.NODE


class Remembers(ScorePlugin):
    """Another score at each call."""

    name = "Remembers"

    def __init__(self, args: object, handle: Any) -> None:
        super().__init__(args, handle)
        self._calls = itertools.count()

    def score(self, state: Any, pod: Any, rows: Any) -> Any:
        return np.full(self.snapshot.select(rows), next(self._calls) % MAX_NODE_SCORE, dtype=np.int64)


class DrawsLots(ScalarFilterPlugin):
    """Refuses nodes by chance."""

    name = "DrawsLots"
    lots = np.random.default_rng(1)

    def filter_node(self, state: Any, pod: Any, row: int) -> int:
        refused = self.lots.random() < 0.5
        return self.reasons.code(Status.UNSCHEDULABLE, self.name, "node(s) were unlucky") if refused else 0


class OutOfBounds(ScorePlugin):
    """Scores above 100."""

    name = "OutOfBounds"

    def score(self, state: Any, pod: Any, rows: Any) -> Any:
        return self.snapshot.pod_count[rows] * 60


class Changes(FilterPlugin):
    """Writes into the snapshot."""

    name = "Changes"

    def filter(self, state: Any, pod: Any, rows: Any) -> Any:
        self.snapshot.requested[0, 0] += 1
        return np.zeros(self.snapshot.select(rows), dtype=np.int32)


class Fails(ScorePlugin):
    """Raises."""

    name = "Fails"

    def score(self, state: Any, pod: Any, rows: Any) -> Any:
        raise PluginError(self.name, "no idea")


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (TooNarrow, "the scope is too narrow"),
        (Remembers, "the plugin remembers something"),
        (DrawsLots, "two schedulers that know the same decide differently"),
        (
            OutOfBounds,
            '"OutOfBounds" returns an invalid score 120, it should in the range of [0, 100] after normalizing',
        ),
        (Changes, "plugins must not change it"),
        (Fails, "it fails: "),
    ],
)
def test_what_breaks_the_contract_is_found(plugin: type[Plugin], problem: str) -> None:
    found = check_plugin(plugin, runs=3, seed=7)
    assert found
    assert problem in found[0]
    assert found[0].startswith("run ")
    assert not registry.is_known(plugin.name), "a class is known while it is checked only"


@pytest.mark.parametrize(
    "plugin",
    [
        Counts,
        "NodeResourcesFit",
        "InterPodAffinity",
        "TenantFairness",
        "SelectorSpreadPriority",
        "BalancedResourceAllocation",
    ],
)
def test_nothing_is_found_in_plugins_that_keep_it(plugin: str | type[Plugin]) -> None:
    assert check_plugin(plugin, runs=3) == []


def test_labels_that_mean_something_to_the_plugin_are_used() -> None:
    seen: list[bool] = []

    class Sees(QuietNodes):
        name = "Sees"

        def filter_node(self, state: Any, pod: Any, row: int) -> int:
            code = super().filter_node(state, pod, row)
            seen.append(bool(code))
            return code

    assert check_plugin(Sees, labels={NOISY: ("",)}, pod_labels={DEAF: ("",)}, runs=3) == []
    assert {True, False} == set(seen)


def test_an_unknown_plugin_is_named() -> None:
    with pytest.raises(KeyError, match="no plugin 'Absent'"):
        check_plugin("Absent")


def test_a_class_known_twice_is_as_before_afterwards() -> None:
    class Other(Counts):
        """Another one of that name."""

    with registry.known(Counts):
        with registry.known(Other):
            assert registry.plugin_class("Counts") is Other
        assert registry.plugin_class("Counts") is Counts
        assert "Counts" in registry.known_names()
    assert not registry.is_known("Counts")
