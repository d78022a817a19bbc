"""Answers of kube-apiserver 1.36 from which ours differed once, as `python -m tests.differential.api` found: a transcript like those of `tests/golden/api`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bayplan.testing import transcripts
from bayplan.testing.replay import Player, Report
from tests.apiserver.serving import TOKENS, served

_ANSWERS = Path(__file__).with_name("compared_answers.json")


def test_requests_that_were_answered_otherwise_once_are_answered_as_in_kubernetes() -> None:
    async def play() -> Report:
        (scenario,) = transcripts.load(_ANSWERS)
        async with served() as server:
            return await Player(server.url, {user: row[0] for user, row in TOKENS.items()}, server.session).play(
                scenario
            )

    report = asyncio.run(play())
    assert report.differing == {}
    assert report.compared > 20
