"""Whether compiled loops are used, and from when on.

The compiler takes about a hundred MiB and, the first time, a second; small clusters and single decisions should not pay for it. So NumPy is
used until it has taken about as long for large clusters as loading takes: whoever stops before that has lost nothing, whoever goes on has lost
that once. Loading happens in a thread, and the loops replace NumPy as soon as they are there; both give the same, so nobody can tell but by the clock.

`BAYPLAN_KERNELS` in the environment says otherwise: with `numpy` they are never loaded, with `compiled` at the first opportunity, whatever the size, and
whoever needs them waits.
"""

from __future__ import annotations

import enum
import logging
import os
import threading
from typing import Final

from bayplan.scheduler.kernels.compiler import (
    CannotCompile,
    CompiledLoops,
    NoCompiler,
    cache_directory,
    compile_loops,
)

VARIABLE: Final = "BAYPLAN_KERNELS"
"""In the environment: one of `Mode`."""
LARGE: Final = 1_000
"""Nodes of a cluster from which on compiled loops may pay."""
ENOUGH: Final = 100_000_000
"""Scores by NumPy, at 4 ns, that take as long as loading the compiler and what it compiled before."""
CALL: Final = 3_000
"""Scores that take as long as what NumPy needs for each call besides."""

log = logging.getLogger(__name__)


class Mode(enum.Enum):
    """When compiled loops are used."""

    AUTO = "auto"
    """When they pay."""
    NUMPY = "numpy"
    COMPILED = "compiled"


class Kernels:
    """What a process uses. `loops`: compiled ones, None while it is NumPy's turn."""

    def __init__(self, mode: Mode = Mode.AUTO) -> None:
        self.mode = mode
        self.loops: CompiledLoops | None = None
        self.failure = ""
        """Why there are none, if that was tried."""
        self._scored = 0
        self._loading: threading.Thread | None = None

    def note(self, scores: int, nodes: int) -> None:
        """NumPy was asked for so many scores, in a cluster of this size."""
        if self._loading is not None or self.failure or self.mode is Mode.NUMPY:
            return
        if self.mode is Mode.COMPILED:
            self.load()
        elif nodes >= LARGE:
            self._scored += scores + CALL
            if self._scored >= ENOUGH:
                self._loading = threading.Thread(target=self.load, name="kernels")
                self._loading.start()

    def load(self) -> None:
        """Use compiled loops from now on, if there can be any. Says in the log what came of it; see `failure`."""
        if self.loops is not None:
            return
        try:
            self.loops = compile_loops(cache_directory(), _is_running)
        except CannotCompile as error:
            self.failure = str(error)
            is_expected = isinstance(error, NoCompiler) and self.mode is Mode.AUTO
            log.log(logging.INFO if is_expected else logging.WARNING, "NumPy is used for scores: %s", error)
        else:
            if self.loops is not None:
                kept = self.loops.cache if self.loops.cache is not None else "nowhere: no directory is private enough"
                log.info("compiled loops of %s are used for scores; they are kept in %s", self.loops.compiler, kept)

    @property
    def used(self) -> str:
        """What scores are computed by."""
        return self.loops.compiler if self.loops is not None else "numpy"


def _is_running() -> bool:
    """Whether the process is not about to end."""
    return threading.main_thread().is_alive()


def _mode() -> Mode:
    """What the environment says. An unknown word is told of, and means nothing."""
    word = os.environ.get(VARIABLE, "") or Mode.AUTO.value
    try:
        return Mode(word)
    except ValueError:
        log.warning("%s=%s is none of %s", VARIABLE, word, ", ".join(mode.value for mode in Mode))
        return Mode.AUTO


KERNELS: Final = Kernels(_mode())
"""Those of this process: machine code belongs to a process as a whole."""
