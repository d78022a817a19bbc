"""When compiled loops replace NumPy."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.scheduler.kernels import choice
from bayplan.scheduler.kernels.choice import CALL, ENOUGH, LARGE, VARIABLE, Kernels, Mode
from bayplan.scheduler.kernels.compiler import CannotCompile, CompiledLoops, NoCompiler
from tests.scheduler.kernels.loaded import AS_PYTHON


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """Where loops were to be kept, each time that they were compiled."""
    asked: list[Path | None] = []

    def compile_loops(cache: Path | None, is_wanted: Callable[[], bool]) -> CompiledLoops:
        assert is_wanted()
        asked.append(cache)
        return AS_PYTHON

    monkeypatch.setattr(choice, "compile_loops", compile_loops)
    monkeypatch.setattr(choice, "cache_directory", lambda: None)
    return asked


def noted(kernels: Kernels, scores: int, nodes: int) -> Kernels:
    """Once all that it started has come to its end."""
    kernels.note(scores, nodes)
    if kernels._loading is not None:
        kernels._loading.join(10)
    return kernels


def test_small_clusters_never_load_them(loads: list[Path | None]) -> None:
    assert noted(Kernels(), 10 * ENOUGH, LARGE - 1).loops is None
    assert loads == []


def test_large_clusters_load_them_when_numpy_has_taken_as_long_as_that(loads: list[Path | None]) -> None:
    kernels = noted(Kernels(), ENOUGH - 2 * CALL - 1, LARGE)
    assert (kernels.loops, kernels.used) == (None, "numpy")
    noted(kernels, 1, LARGE)
    assert kernels.loops is AS_PYTHON
    assert kernels.used == "python"
    noted(kernels, ENOUGH, LARGE)
    assert len(loads) == 1


def test_the_setting_decides(loads: list[Path | None]) -> None:
    assert noted(Kernels(Mode.NUMPY), ENOUGH, LARGE).loops is None
    assert loads == []
    assert noted(Kernels(Mode.COMPILED), 1, 1).loops is AS_PYTHON


@pytest.mark.parametrize(("word", "mode"), [("", Mode.AUTO), ("numpy", Mode.NUMPY), ("compiled", Mode.COMPILED)])
def test_the_environment_sets_it(word: str, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, word)
    assert choice._mode() is mode


def test_an_unknown_word_is_told_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(VARIABLE, "fast")
    assert choice._mode() is Mode.AUTO
    assert caplog.messages == ["BAYPLAN_KERNELS=fast is none of auto, numpy, compiled"]


@pytest.mark.parametrize(
    ("mode", "error", "level"),
    [
        (Mode.AUTO, NoCompiler("numba is not installed"), logging.INFO),
        (Mode.COMPILED, NoCompiler("numba is not installed"), logging.WARNING),
        (Mode.AUTO, CannotCompile("numba 0.0 fails: it is broken"), logging.WARNING),
    ],
)
def test_numpy_stays_where_they_cannot_be_had(
    mode: Mode, error: CannotCompile, level: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def compile_loops(cache: Path | None, is_wanted: Callable[[], bool]) -> CompiledLoops:
        raise error

    monkeypatch.setattr(choice, "compile_loops", compile_loops)
    caplog.set_level(logging.INFO)
    kernels = Kernels(mode)
    for _ in range(3):
        noted(kernels, ENOUGH, LARGE)
    assert (kernels.loops, kernels.failure) == (None, str(error))
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (level, f"NumPy is used for scores: {error}")
    ]
