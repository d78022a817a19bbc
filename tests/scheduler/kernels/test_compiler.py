"""Compiling, and where machine code is kept."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from bayplan.scheduler.kernels.compiler import CannotCompile, NoCompiler, cache_directory, compile_loops
from tests.scheduler.kernels.loaded import compiled


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(NoCompiler, match="not installed"):
        compile_loops(None)


class Broken(types.ModuleType):
    """A numba that cannot compile."""

    __version__ = "0.0"
    config = types.SimpleNamespace(DISABLE_JIT=0, CACHE_DIR="before")

    def njit(self, *_: object, **__: object) -> Any:
        raise RuntimeError("no locator available")


def test_a_broken_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = Broken("numba")
    monkeypatch.setitem(sys.modules, "numba", broken)
    with pytest.raises(CannotCompile, match=r"^numba 0\.0 fails: RuntimeError: no locator available$"):
        compile_loops(tmp_path)
    assert broken.config.CACHE_DIR == "before"
    assert compile_loops(tmp_path, lambda: False) is None
    monkeypatch.setattr(broken.config, "DISABLE_JIT", 1)
    with pytest.raises(CannotCompile, match="NUMBA_DISABLE_JIT"):
        compile_loops(None)


@pytest.mark.xdist_group("compiled")
def test_machine_code_is_kept_in_the_directory_and_nowhere_else(tmp_path: Path) -> None:
    import bayplan.scheduler.kernels.compiler as module

    numba = pytest.importorskip("numba")
    assert compiled().compiler == f"numba {numba.__version__}"

    def added(one: int, other: int) -> int:
        return one + other

    found = module._compiled(numba, added, "int64(int64, int64)", tmp_path)
    assert found(2, 3) == 5
    assert found.stats.cache_misses
    assert [path.suffix for path in sorted(tmp_path.rglob("*.nb*"))] == [".nbc", ".nbi"]
    assert module._compiled(numba, added, "int64(int64, int64)", tmp_path).stats.cache_hits
    assert str(tmp_path) not in str(numba.config.CACHE_DIR)


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that nobody else can write to."""
    path = tmp_path_factory.mktemp("home")
    path.chmod(0o755)
    return path


def test_the_directory_is_made_for_this_user_only(home: Path) -> None:
    path = cache_directory({"HOME": str(home)})
    assert path == home / ".cache" / "bayplan" / "kernels"
    assert path.stat().st_mode & 0o777 == 0o700
    assert cache_directory({"HOME": str(home)}) == path
    assert cache_directory({"HOME": str(home), "XDG_CACHE_HOME": str(home / "c")}) == home / "c" / "bayplan" / "kernels"


def test_no_directory_that_others_can_write_to(home: Path) -> None:
    path = home / ".cache" / "bayplan" / "kernels"
    path.mkdir(parents=True)
    for shared in (path, path.parent):
        shared.chmod(0o777)
        assert cache_directory({"HOME": str(home)}) is None
        shared.chmod(0o770)
        assert cache_directory({"HOME": str(home)}) is None
        shared.chmod(0o755)
    assert cache_directory({"HOME": str(home)}) == path


def test_no_directory_of_somebody_else(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_directory({"HOME": str(home)}) is not None
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert cache_directory({"HOME": str(home)}) is None


def test_a_link_to_a_directory_of_others_is_none(home: Path) -> None:
    shared = home / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (home / ".cache" / "bayplan").mkdir(parents=True)
    (home / ".cache" / "bayplan" / "kernels").symlink_to(shared)
    assert cache_directory({"HOME": str(home)}) is None


def test_no_place_for_it(home: Path) -> None:
    assert cache_directory({}) is None
    assert cache_directory({"HOME": str(home / "missing")}) is None
    assert cache_directory({"HOME": str(home), "XDG_CACHE_HOME": "relative"}) is None
    (home / ".cache").write_text("a file")
    assert cache_directory({"HOME": str(home)}) is None
