"""Starting Bayplan's processes as users start them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

BAYPLAN = str(Path(sys.executable).parent / "bayplan")


def environment() -> dict[str, str]:
    """The environment of measured processes: modules may be kept compiled, as they are where packages are installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextlib.contextmanager
def running(
    *arguments: str, until: str = "ready", timeout: float = 60.0, patience: float = 10.0
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """A process that has printed `until`, and after how many seconds it did; ended on exit, and killed `patience` seconds later.

    Raises RuntimeError if it does not come up.
    """
    with tempfile.NamedTemporaryFile() as log:
        started = time.perf_counter()
        process = subprocess.Popen([BAYPLAN, *arguments], stdout=log, stderr=subprocess.STDOUT, env=environment())
        try:
            if until:
                while until.encode() not in Path(log.name).read_bytes():
                    if process.poll() is not None or time.perf_counter() - started > timeout:
                        raise RuntimeError(f"bayplan {' '.join(arguments)}: {Path(log.name).read_text()[-2000:]}")
                    time.sleep(0.005)
            yield process, time.perf_counter() - started
        finally:
            process.terminate()
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def resident_mib(process: subprocess.Popen[bytes]) -> float:
    """Resident memory of a process in MiB."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
