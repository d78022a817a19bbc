"""Who gives memory to the processes under test.

Python's own allocator returns memory by the mebibyte, and only where nothing lives any more: after a burst a few thousand small objects can hold a fifth of what
there was. What is to be judged is what a cluster remembers, so its memory is judged with jemalloc, which returns pages, where that is installed.
"""

from __future__ import annotations

import argparse
import ctypes.util
import os
from collections.abc import Mapping

JEMALLOC = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,narenas:1,tcache:false"
"""Free pages go back after a second. As in docs/operations.md, "Memory"."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option `--allocator`."""
    known = "jemalloc" if ctypes.util.find_library("jemalloc") else "python"
    parser.add_argument(
        "--allocator",
        choices=("jemalloc", "python"),
        default=known,
        help="where the cluster's memory comes from (default: jemalloc, which gives back the most, where it is installed; here %(default)s)",
    )


def environment(allocator: str) -> Mapping[str, str]:
    """The environment of a process that takes its memory from there. Raises SystemExit if it is not installed."""
    if allocator == "python":
        return os.environ
    library = ctypes.util.find_library("jemalloc")
    if library is None:
        raise SystemExit("there is no libjemalloc.so here (Debian: libjemalloc2)")
    return {**os.environ, "PYTHONMALLOC": "malloc", "LD_PRELOAD": library, "MALLOC_CONF": JEMALLOC}
