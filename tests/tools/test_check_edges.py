"""The lint that keeps clock, chance, threads and sockets at the edges."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check_edges import EDGES, SOURCE, problems


def test_the_source_is_clean() -> None:
    assert problems(SOURCE) == []


@pytest.mark.parametrize(
    "code",
    [
        "import time",
        "from random import choice",
        "import concurrent.futures",
        "import aiohttp.web",
        "import os\nos.urandom(4)",
        "from datetime import datetime\ndatetime.now()",
        "import asyncio\nasyncio.to_thread(print)",
    ],
)
def test_what_is_touched_elsewhere_is_found(tmp_path: Path, code: str) -> None:
    (tmp_path / "controllers").mkdir()
    (tmp_path / "controllers" / "job.py").write_text(code)
    (line,) = problems(tmp_path)
    assert line.startswith("controllers/job.py:")


def test_edges_may(tmp_path: Path) -> None:
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "clock.py").write_text("import time, random, threading, socket")
    assert problems(tmp_path) == []


def test_all_named_edges_exist() -> None:
    assert [edge for edge in EDGES if not (SOURCE / edge).exists()] == []
