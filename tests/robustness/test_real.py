"""One round of the runs with real processes; `make robustness` plays as many as one likes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.real.__main__ import missing

ROOT = Path(__file__).parents[2]
_reason = missing() if sys.platform == "linux" else "needs Linux"
pytestmark = pytest.mark.skipif(bool(_reason), reason=_reason)


def run(*options: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "tests.robustness.real", *options)
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=400)


def test_clients_are_told_what_happened_whatever_fails() -> None:
    mounted = Path("/proc/self/mountinfo").read_text().count("bayplan-robustness")
    done = run("--rounds=1", "--seconds=8", "--only=kill,kill server,compact,cut off,stalled disk")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rounds, 0 problems" in done.stdout
    assert Path("/proc/self/mountinfo").read_text().count("bayplan-robustness") == mounted


def test_unknown_faults_are_refused() -> None:
    done = run("--only=kill,earthquake")
    assert done.returncode == 2
    assert "unknown kinds of faults: earthquake" in done.stderr
