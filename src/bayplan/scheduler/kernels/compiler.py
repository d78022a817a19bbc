"""Machine code of `loops`, by numba.

What has been compiled is kept in a directory that only this user can write to, since numba trusts what it finds there: reading it again takes a
tenth of the time. Where no such directory can be had, every process compiles anew.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bayplan.scheduler.kernels import loops
from bayplan.support.system.private_files import make_private_directory

_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_FLOATS: Final = "float64[:, ::1]"
_INTEGERS: Final = "int64[::1]"
_ROWS: Final = "intp[::1]"
SIGNATURES: Final[Mapping[str, str]] = {
    "least_allocated": f"({_FLOATS}, {_FLOATS}, float64, float64, int64, int64)",
    "least_allocated_on": f"({_FLOATS}, {_FLOATS}, {_ROWS}, float64, float64, int64, int64)",
    "balanced": f"({_FLOATS}, {_FLOATS}, float64, float64)",
    "balanced_on": f"({_FLOATS}, {_FLOATS}, {_ROWS}, float64, float64)",
    "verdicts": (
        f"({_INTEGERS}, int64[:, ::1], int64[:, ::1], {_INTEGERS}, {_INTEGERS}, {_INTEGERS}, int32[::1], int64)"
    ),
}
"""The arguments of each loop, as numba writes them."""


class CannotCompile(Exception):
    """There is no compiler, or it does not work here; the message says why."""


class NoCompiler(CannotCompile):
    """numba is not installed."""


@dataclass(frozen=True, slots=True)
class CompiledLoops:
    """The functions of `loops` of the same names."""

    compiler: str
    """Name and version."""
    cache: Path | None
    """Where the machine code is kept; None if it is not."""
    least_allocated: Callable[..., loops.Scores]
    least_allocated_on: Callable[..., loops.Scores]
    balanced: Callable[..., loops.Scores]
    balanced_on: Callable[..., loops.Scores]
    verdicts: Callable[..., loops.Codes]


def compile_loops(cache: Path | None, is_wanted: Callable[[], bool] = lambda: True) -> CompiledLoops | None:
    """Compile all loops, or read what was compiled before; None once it is not wanted any more. Raises CannotCompile.

    cache: see `cache_directory`.
    """
    try:
        import numba
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise CannotCompile(f"numba does not load: {error}") from error
        raise NoCompiler("numba is not installed") from error
    except Exception as error:  # of a version that does not go with this Python or NumPy, say
        raise CannotCompile(f"numba does not load: {type(error).__name__}: {error}") from error
    if numba.config.DISABLE_JIT:
        raise CannotCompile("NUMBA_DISABLE_JIT is set")
    compiled: dict[str, Any] = {}
    try:
        for name, signature in SIGNATURES.items():
            if not is_wanted():
                return None
            compiled[name] = _compiled(numba, getattr(loops, name), signature, cache)
    except Exception as error:
        raise CannotCompile(f"numba {numba.__version__} fails: {type(error).__name__}: {error}") from error
    return CompiledLoops(f"numba {numba.__version__}", cache, **compiled)


def _compiled(numba: Any, function: Callable[..., Any], signature: str, cache: Path | None) -> Any:
    """Machine code of a function. No division is checked, and no index: loops keep to their arrays."""
    options: dict[str, Any] = {"error_model": "numpy", "boundscheck": False}
    if cache is None:
        return numba.njit(signature, **options)(function)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache)
    try:
        return numba.njit(signature, cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """`bayplan/kernels` where this user's caches are, made if need be; None if nobody else must be able to write there, but could."""
    base = environment.get("XDG_CACHE_HOME", "")
    home = environment.get("HOME", "")
    if not base and not (home and Path(home).is_dir()):
        return None
    path = (Path(base) if base else Path(home) / ".cache") / "bayplan" / "kernels"
    if not path.is_absolute():
        return None
    try:
        make_private_directory(path)
        return path if _is_private(path) and os.access(path, os.W_OK | os.X_OK) else None
    except OSError:
        return None


def _is_private(path: Path) -> bool:
    """Whether nobody but this user and root can put files into a directory, or another directory in its place."""
    path = path.resolve()
    found = path.stat()
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
        return False
    for parent in path.parents:
        above = parent.stat()
        is_shared = above.st_mode & _OTHERS and not above.st_mode & stat.S_ISVTX
        if above.st_uid not in (0, os.geteuid()) or is_shared:
            return False
    return True
