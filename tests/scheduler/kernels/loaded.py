"""Loops for tests: as Python, and compiled (once per process, where numba is installed)."""

from __future__ import annotations

from functools import cache

import pytest

from bayplan.scheduler.kernels import loops
from bayplan.scheduler.kernels.choice import KERNELS
from bayplan.scheduler.kernels.compiler import SIGNATURES, CompiledLoops, NoCompiler, compile_loops

AS_PYTHON = CompiledLoops("python", None, **{name: getattr(loops, name) for name in SIGNATURES})


@cache
def compiled() -> CompiledLoops:
    """Compiled loops; skips the test where there is no compiler."""
    try:
        found = compile_loops(None)
    except NoCompiler as error:
        pytest.skip(str(error))
    assert found is not None
    return found


def use(monkeypatch: pytest.MonkeyPatch, means: str) -> None:
    """Let the test score by `numpy`, `python` (the loops as they stand) or `compiled` loops."""
    monkeypatch.setattr(KERNELS, "loops", {"numpy": None, "python": AS_PYTHON}.get(means) or compiled_for(means))


def compiled_for(means: str) -> CompiledLoops | None:
    """Compiled loops if they are meant."""
    return compiled() if means == "compiled" else None
