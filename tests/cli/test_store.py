"""`bayplan store` on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.main import main
from bayplan.store.sqlite.store import SqliteStore
from bayplan.testing.clock import ManualClock


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["store", *map(str, arguments)])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory with a store of three objects."""

    async def fill() -> None:
        store = SqliteStore(tmp_path / "data" / "store.db", clock=ManualClock())
        await store.open()
        for name in ("one", "two", "three"):
            await store.put(f"/registry/configmaps/default/{name}", b"value of " + name.encode() * 50)
        await store.put("/registry/configmaps/default/one", b"changed")
        await store.close()

    asyncio.run(fill())
    return tmp_path / "data"


def damage(directory: Path) -> None:
    path = directory / "store.db"
    path.write_bytes(path.read_bytes().replace(b"value of two", b"value of too"))


def test_check_tells_what_is_there(directory: Path) -> None:
    result = run("check", "--data-dir", directory)
    assert result.exit_code == 0
    assert "is intact: 3 objects, 4 records, revision 4" in result.stdout
    result = run("check", "--store", f"sqlite:{directory}/store.db", "-o", "json")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert (data["intact"], data["objects"], data["lost"], data["inUse"]) == (True, 3, [], False)


def test_check_names_what_is_damaged_and_what_to_do(directory: Path) -> None:
    damage(directory)
    result = run("check", "--data-dir", directory)
    assert result.exit_code == 1
    assert "/registry/configmaps/default/two (revision 2)" in result.stdout
    assert "--repair" in result.stderr
    assert "restore" in result.stderr
    data = json.loads(run("check", "--data-dir", directory, "-o", "json").stdout)
    assert data["lost"] == [{"key": "/registry/configmaps/default/two", "revision": 2}]
    assert not data["intact"]


def test_repair_keeps_the_rest(directory: Path) -> None:
    damage(directory)
    result = run("check", "--repair", "--data-dir", directory)
    assert result.exit_code == 0, result.output
    assert "has 2 objects now" in result.stdout
    assert (directory / "store.db.damaged-1").exists()
    assert run("check", "--data-dir", directory).exit_code == 0
    assert "nothing was changed" in run("check", "--repair", "--data-dir", directory).stdout


def test_a_backup_comes_back(directory: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    assert run("backup", backup, "--data-dir", directory).exit_code == 0
    again = run("backup", backup, "--data-dir", directory)
    assert again.exit_code == 1
    assert "not overwritten" in again.stderr
    assert run("restore", backup, "--data-dir", directory).exit_code == 1
    result = run("restore", backup, "--data-dir", tmp_path / "other", "-o", "yaml")
    assert result.exit_code == 0
    assert "objects: 3" in result.stdout
    assert run("check", "--data-dir", tmp_path / "other").exit_code == 0


def test_compact_tells_sizes(directory: Path) -> None:
    data = json.loads(run("compact", "--data-dir", directory, "-o", "json").stdout)
    assert data["compactedRevision"] == 4
    assert data["bytes"] <= data["bytesBefore"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--store", "memory:"],
        ["check", "--store", "sqlite:/x", "--data-dir", "/y"],
        ["check", "--accept-unknown"],
        ["backup"],
        ["mend"],
    ],
)
def test_misuse_exits_with_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("verb", ["check", "compact"])
def test_a_missing_store_is_named(verb: str, tmp_path: Path) -> None:
    result = run(verb, "--data-dir", tmp_path / "none")
    assert result.exit_code == 1
    assert "there is no such store" in result.stderr
    assert not (tmp_path / "none").exists()
