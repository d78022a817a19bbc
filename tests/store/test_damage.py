"""Whatever is damaged in a store's files is noticed, named, and never served."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.store.damage import Original, originals, trial

SEEDS = 100


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> list[Original]:
    return originals(tmp_path_factory.mktemp("undamaged"))


@pytest.mark.parametrize(
    ("number", "usual"),
    [
        (0, ("refused, and repaired with losses", "refused, and repaired without loss")),
        (1, ("refused, with changes of unknown objects",)),
    ],
    ids=["closed", "killed"],
)
def test_random_damage_is_noticed_and_never_served(
    undamaged: list[Original], number: int, usual: tuple[str, ...], tmp_path: Path
) -> None:
    """Each seed damages the files in another way; the message of a failure names the seed."""
    outcomes = Counter(trial(seed, undamaged[number], tmp_path) for seed in range(SEEDS))
    assert outcomes["identical"] < SEEDS / 2, outcomes
    assert all(outcomes[one] for one in usual), outcomes
