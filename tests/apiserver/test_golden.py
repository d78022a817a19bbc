"""Transcripts of a Kubernetes 1.36 API server, played against ours: all scenarios match."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from bayplan.store.interface import Store
from bayplan.store.memory import MemoryStore
from bayplan.support.clock import SystemClock
from bayplan.testing import transcripts
from bayplan.testing.replay import Player, Report
from tests.apiserver.etcd_stores import etcd_store, new_prefix
from tests.apiserver.serving import TOKENS, served
from tests.store.etcd.server import needs_etcd
from tests.store.remote.served import ServedStore

GOLDEN = Path(__file__).parent.parent / "golden" / "api"
TOPICS = sorted(path.stem for path in GOLDEN.glob("*.json"))
_SAME_ON_ANY_STORE = ("01-discovery", "03-validation", "06-tables")
"""What is decided before something is stored, or shown whatever has been. (A table shows the status that a rule of the server has given an API service just
before, which is a race with another process, besides.)"""
_STORED = [topic for topic in TOPICS if topic not in _SAME_ON_ANY_STORE]


async def play(topic: str, store: Store | None = None) -> list[Report]:
    """Play all scenarios of a topic on one fresh server, over a memory store unless one is given."""
    tokens = {user: row[0] for user, row in TOKENS.items()}
    async with served(store=store) as server:
        player = Player(server.url, tokens, server.session)
        return [await player.play(scenario) for scenario in transcripts.load(GOLDEN / f"{topic}.json")]


@pytest.mark.parametrize("topic", TOPICS)
def test_scenarios_are_answered_as_recorded(topic: str) -> None:
    reports = asyncio.run(play(topic))
    assert reports
    assert {report.scenario: report.differing for report in reports if not report.matches} == {}


@needs_etcd
@pytest.mark.parametrize("topic", _STORED)
def test_scenarios_are_answered_as_recorded_on_etcd(topic: str) -> None:
    reports = asyncio.run(play(topic, etcd_store(new_prefix())))
    assert reports
    assert {report.scenario: report.differing for report in reports if not report.matches} == {}


@pytest.mark.skipif(sys.platform != "linux", reason="paths of sockets are shortened by /proc")
@pytest.mark.parametrize("topic", _STORED)
def test_scenarios_are_answered_as_recorded_over_the_store_of_another_process(topic: str, tmp_path: Path) -> None:
    clock = SystemClock()
    reports = asyncio.run(play(topic, ServedStore(MemoryStore(clock=clock), tmp_path, clock)))
    assert reports
    assert {report.scenario: report.differing for report in reports if not report.matches} == {}


def test_all_topics_are_played() -> None:
    assert len(TOPICS) == 12
