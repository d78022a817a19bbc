"""A store that is killed under load loses nothing that was acknowledged; `make kills` does this a thousand times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.kills import Tally, run, verify

KILLS = 10


def test_kills_of_a_store_lose_nothing() -> None:
    tally = run(KILLS, 1, is_cluster=False)
    assert tally.kills == KILLS
    assert tally.acknowledged > 0


def test_kills_of_a_cluster_lose_nothing() -> None:
    tally = run(4, 1, is_cluster=True)
    assert tally.kills == 4
    assert tally.acknowledged > 0


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"a": (1, ("1-1",))}, "acknowledged writes are lost"),
        ({"a": (3, ("1-1", "2-1", "2-1"))}, "applied twice"),
        ({"a": (2, ("1-1", "2-1", "3-1"))}, "2 increments by 3 writes"),
        ({"a": (2, ("1-1", "2-1")), "old": (1, ("x",))}, "old of an earlier round has changed"),
    ],
    ids=["lost", "twice", "uncounted", "changed later"],
)
def test_the_harness_notices(found: dict[str, tuple[int, tuple[str, ...]]], reason: str, tmp_path: Path) -> None:
    tally = Tally(kept={"old": (1, ("y",))})
    with pytest.raises(AssertionError, match=reason):
        verify(tally, {"old": (1, ("y",)), **found}, {"a": ["1-1", "2-1"]}, tmp_path)
