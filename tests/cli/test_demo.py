"""`bayplan demo` from its first scene to its last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_story_is_told_to_its_end() -> None:
    command = [str(Path(sys.executable).parent / "bayplan"), "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "bayplan explain year-end-report" in done.stdout
    assert "A drain" in done.stdout
