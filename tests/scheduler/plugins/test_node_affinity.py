"""Preferences for nodes, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from bayplan.scheduler import evaluate
from tests.scheduler.objects import Tree, node, pod


def preferring(*preferences: Tree, weights: tuple[int, ...] = (1, 1, 1)) -> Tree:
    terms = [{"weight": weight, "preference": one} for weight, one in zip(weights, preferences, strict=False)]
    return pod("new", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})


def more_than(text: str) -> Tree:
    return {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": [text]}]}


def profile(**args: Any) -> Tree:
    config = [{"name": "NodeAffinity", "args": {"addedAffinity": args}}]
    return {"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": config}]}


def test_all_that_cannot_be_parsed_in_preferences_is_named_by_its_place() -> None:
    found = evaluate([node("a"), node("b")], preferring(more_than("x"), more_than("4"), more_than("y")))
    assert found.message == (
        'running PreScore plugin "NodeAffinity": '
        "[[0].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an "
        "integer, [2].matchExpressions[0].values[0]: Invalid value: \"y\": for 'Gt', 'Lt' operators, the value must "
        "be an integer]"
    )
    assert found.reason == "SchedulerError"


def test_preferences_of_the_profile_give_scores_even_if_they_say_nothing() -> None:
    preferred = [{"weight": 1, "preference": {}}]
    config = profile(preferredDuringSchedulingIgnoredDuringExecution=preferred)
    scores = evaluate([node("a"), node("b")], pod("new"), config).to_dict()["nodes"]["a"]["scores"]
    assert scores["NodeAffinity"] == 0
    assert "NodeAffinity" not in evaluate([node("a"), node("b")], pod("new")).to_dict()["nodes"]["a"]["scores"]
