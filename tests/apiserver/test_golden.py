"""Transcripts of a Kubernetes 1.36 API server, played against ours: the scenarios that match completely, which only ever become more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bayplan.testing import transcripts
from bayplan.testing.replay import Player, Report
from tests.apiserver.golden_matches import MATCHES
from tests.apiserver.serving import TOKENS, served

GOLDEN = Path(__file__).parent.parent / "golden" / "api"


async def play(topic: str, names: tuple[str, ...]) -> list[Report]:
    """Play the named scenarios of a topic on one fresh server."""
    tokens = {user: row[0] for user, row in TOKENS.items()}
    async with served() as server:
        player = Player(server.url, tokens, server.session)
        scenarios = transcripts.load(GOLDEN / f"{topic}.json")
        return [await player.play(scenario) for scenario in scenarios if scenario["scenario"] in names]


@pytest.mark.parametrize("topic", sorted(MATCHES))
def test_scenarios_are_answered_as_recorded(topic: str) -> None:
    reports = asyncio.run(play(topic, MATCHES[topic]))
    assert {report.scenario for report in reports} == set(MATCHES[topic])
    differing = {report.scenario: report.differing for report in reports if not report.matches}
    assert not differing
