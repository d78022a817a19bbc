"""Functions that tests run in other processes; with few imports, as each process begins anew."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any


def squared(inputs: dict[str, Any]) -> dict[str, Any]:
    """The square of a number."""
    return {"square": inputs["number"] ** 2}


def ends_its_worker_once(inputs: dict[str, Any]) -> dict[str, Any]:
    """The same; number 3 ends its process unless that has been done."""
    mark = Path(inputs["mark"])
    if inputs["number"] == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return squared(inputs)


def always_ends_its_worker(_: dict[str, Any]) -> dict[str, Any]:
    """Ends its process."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it has ended")
