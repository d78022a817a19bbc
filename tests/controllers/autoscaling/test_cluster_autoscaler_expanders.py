"""Which group grows, as expanders say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bayplan.api.types import core_v1
from bayplan.cli.flags.controller_flags import parsed_settings
from bayplan.controllers.autoscaling.cluster_autoscaler_expanders import Choice, chain_of, choose
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import NodeGroup, Option
from bayplan.controllers.settings import ControllerSettings
from bayplan.testing.builders import node, pod


def option(name: str, nodes: int = 1, pods: int = 1, cpu: str = "4") -> Option:
    """A group of nodes with so much cpu, and pods that request 1 each."""
    waiting = tuple(pod(f"p{number}", cpu="1", memory="1Gi") for number in range(pods))
    return Option(NodeGroup(name, 0, 10, node(name, cpu=cpu)), nodes, waiting)


A, B, C = option("a", nodes=2, pods=6, cpu="4"), option("b", nodes=1, pods=4, cpu="4"), option("c", nodes=1, cpu="16")


def last(options: Sequence[Option]) -> Option:
    """What stands for chance."""
    return options[-1]


def config(text: str | None) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(data={} if text is None else {"priorities": text})


def chosen(chain: str, *options: Option, priorities: str | None = None) -> str:
    found = choose(options, chain_of(chain), config(priorities), last)
    return found.best.group.name if found.best is not None else ""


@pytest.mark.parametrize(
    ("chain", "best"),
    [
        ("least-waste", "b"),
        ("most-pods", "a"),
        ("least-nodes", "c"),
        ("random", "c"),
        ("least-nodes,most-pods", "b"),
        ("least-nodes, least-waste", "b"),
        ("least-nodes,random", "c"),
    ],
)
def test_each_expander_has_its_own_favourite_and_a_chain_goes_on_among_those(chain: str, best: str) -> None:
    assert chosen(chain, A, B, C) == best


def test_an_option_alone_is_taken_without_chance() -> None:
    def never(options: Sequence[Option]) -> Option:
        raise AssertionError

    assert choose((A,), ("least-waste",), None, never).best is A
    assert choose((), ("least-waste",), None, never) == Choice()


@pytest.mark.parametrize(
    ("priorities", "best"),
    [
        pytest.param("10: [a]\n20: [b]\n5: ['.*']", "b", id="the highest number"),
        pytest.param("10: ['^[ab]$']", "b", id="of equals any"),
        pytest.param("10: [a]\n20: [nobody]", "a", id="groups that are not there do not matter"),
        pytest.param("10: [nobody]", "c", id="no group has a priority"),
        pytest.param("10:\n20: [a]", "a", id="an empty list"),
    ],
)
def test_priority_takes_groups_by_name(priorities: str, best: str) -> None:
    assert chosen("priority", A, B, C, priorities=priorities) == best


def test_what_has_equal_priority_is_left_to_the_next_expander() -> None:
    assert chosen("priority,most-pods", A, B, C, priorities="1: [a, c]") == "a"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "Wrong configmap for priority expander, doesn't contain priorities key. Ignoring update."),
        (
            "",
            "Wrong configuration for priority expander: priority configuration in cluster-autoscaler-priority-expander"
            " configmap is empty; please provide valid configuration. Ignoring update.",
        ),
        (
            "high: [a]",
            "Wrong configuration for priority expander: Can't parse YAML with priorities in the configmap: expected"
            " lists of expressions by whole numbers. Ignoring update.",
        ),
        (
            "1: ['(']",
            "Wrong configuration for priority expander: Can't compile regexp rule for priority 1 and rule (: missing ),"
            " unterminated subpattern at position 0. Ignoring update.",
        ),
    ],
)
def test_priorities_that_cannot_be_read_are_told_and_nothing_grows(text: str | None, problem: str) -> None:
    found = choose((A, B), ("priority", "least-waste"), config(text), last)
    assert (found.best, found.warnings) == (None, [("PriorityConfigMapInvalid", problem)])


def test_without_the_config_map_nothing_grows() -> None:
    assert choose((A, B), ("priority",), None, last) == Choice()


def test_groups_that_no_rule_names_are_told() -> None:
    found = choose((A, B), ("priority",), config("1: [a]"), last)
    text = "Priority expander: node group b not found in priority expander configuration. The group won't be used."
    assert found.warnings == [("PriorityConfigMapNotMatchedGroup", text)]
    found = choose((B, C), ("priority",), config("1: [nobody]"), last)
    assert [reason for reason, _ in found.warnings] == [
        "PriorityConfigMapNotMatchedGroup",
        "PriorityConfigMapNotMatchedGroup",
        "PriorityConfigMapNoGroupMatched",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("price", "unknown expander 'price'; known: random, most-pods, least-waste, least-nodes, priority"),
        ("most-pods,most-pods", "expander most-pods is named twice"),
        ("random,most-pods", "expanders after random are never asked"),
    ],
)
def test_a_chain_that_makes_no_sense_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        chain_of(text)


def test_the_flag_takes_a_chain() -> None:
    settings = parsed_settings(["--expander=priority,least-waste"], ControllerSettings())
    assert settings.autoscaler_expanders == ("priority", "least-waste")
