"""What clusters have left whose owner is dead is removed, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from bayplan.cluster.real_nodes import owners
from bayplan.cluster.real_nodes.owners import Ownership, data_lock, remove_dead_clusters
from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.support.clock import Clock, SystemClock


@pytest.fixture
def own(tmp_path: Path) -> RealNodeSettings:
    """Settings of the cluster that starts."""
    return RealNodeSettings(2, tmp_path / "own", runtime_directory=tmp_path / "run")


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The data directories of the clusters whose leftovers were removed."""
    found: list[Path] = []

    async def note(settings: RealNodeSettings, clock: Clock) -> None:
        found.append(settings.directory)

    monkeypatch.setattr(owners, "remove_leftovers", note)
    return found


def another(own: RealNodeSettings) -> RealNodeSettings:
    """Settings of another cluster that has run."""
    settings = dataclasses.replace(own, directory=own.directory.with_name("other"))
    settings.directory.mkdir()
    settings.state.mkdir(parents=True)
    return settings


def clean_up(settings: RealNodeSettings) -> None:
    """What a cluster does when it starts."""
    asyncio.run(remove_dead_clusters(settings, SystemClock()))


def test_a_living_cluster_keeps_all(own: RealNodeSettings, removed: list[Path]) -> None:
    other = another(own)
    ownership = Ownership(other)
    other.directory.rmdir()  # as it looks from a mount namespace that does not see it
    clean_up(own)
    assert removed == []
    ownership.release()
    clean_up(own)
    assert removed == [other.directory]


def test_a_cluster_that_starts_again_keeps_all(own: RealNodeSettings, removed: list[Path]) -> None:
    other = another(own)
    Ownership(other).release()
    lock = data_lock(other.directory)
    lock.acquire()
    clean_up(own)
    assert removed == []
    lock.release()
    clean_up(own)
    assert removed == [other.directory]


def test_its_own_state_is_not_for_others(own: RealNodeSettings, removed: list[Path]) -> None:
    own.state.mkdir(parents=True)
    Ownership(own).release()
    clean_up(own)
    assert removed == []


@pytest.mark.parametrize("text", [None, "", "relative", "/somewhere/else"])
def test_what_has_no_known_owner_is_left_alone(own: RealNodeSettings, removed: list[Path], text: str | None) -> None:
    state = own.runtime_directory / "0a1b2c"
    state.mkdir(parents=True)
    if text is not None:
        (state / "owner").write_text(text)
    clean_up(own)
    assert removed == []
    assert state.is_dir()


def test_no_runtime_directory_is_no_cluster(own: RealNodeSettings, removed: list[Path]) -> None:
    clean_up(own)
    assert removed == []
