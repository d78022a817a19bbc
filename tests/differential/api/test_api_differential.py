"""Two API servers of Bayplan's compared as kube-apiserver and Bayplan are; and that one with other rules is noticed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import islice

import pytest

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.testing.replay import Player
from tests.apiserver.serving import AS_RECORDED, TOKENS, served
from tests.differential.api.bodies import usable
from tests.differential.api.comparing import TOPICS, Comparison, Report, scenarios
from tests.differential.api.known import reason_of

_STEPS = 40
_TOKENS = {user: row[0] for user, row in TOKENS.items()}


def _compared(topics: tuple[str, ...], kinds: tuple[str, ...], settings: ApiServerSettings) -> Report:
    """The first steps of a scenario on a server as the transcripts need it, and on one with these settings."""

    async def play() -> Report:
        async with served(AS_RECORDED) as one, served(settings) as other:
            reference, tested = (Player(each.url, _TOKENS, each.session) for each in (one, other))
            comparison = Comparison(reference, tested)
            for wanted in islice(scenarios(3, topics, kinds), 1):
                await comparison.play({**wanted, "steps": wanted["steps"][:_STEPS]})
            return comparison.report

    return asyncio.run(play())


@pytest.mark.parametrize("topic", ["writes", "broken"])
def test_equal_servers_do_not_differ(topic: str) -> None:
    report = _compared((topic,), ("configmaps",), AS_RECORDED)
    assert report.classes == {}
    assert report.steps > 30


def test_a_server_of_other_rules_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    report = _compared(
        ("writes",), ("pods",), replace(AS_RECORDED, disable_admission_plugins=("DefaultTolerationSeconds",))
    )
    assert report.differing
    assert any(name.startswith("create") for name in report.classes)
    assert "tolerations" in capsys.readouterr().out
    assert "steps compared" in report.shown()


def test_scenarios_of_a_seed_are_the_same() -> None:
    first, second = scenarios(7, TOPICS), scenarios(7, TOPICS)
    found = [next(first) for _ in range(len(TOPICS) + 1)]
    assert found == [next(second) for _ in range(len(TOPICS) + 1)]
    assert [one["title"].split()[0] for one in found] == [*TOPICS, "writes"]


def test_all_kinds_that_are_kept_are_looked_at() -> None:
    missing = {kind.plural for kind in DEFAULT_KINDS if kind.is_stored and not usable(kind)}
    assert missing == set()


def test_a_difference_with_a_reason_needs_all_its_facts() -> None:
    assert reason_of("document GET: GET /%zz {}", ["code: 404 instead of 400"])
    assert reason_of("create: POST /api/v1/pods {}", ["code: 404 instead of 400"]) == ""
