"""Freed memory stays with the process."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from bayplan.support.memory.allocator import keep_freed_memory
{}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    bytes(2**20), bytes(2**20)
before = faults()
for _ in range(100):
    one, other = b"x" * 2**20, b"y" * 2**20
    del one, other
print(faults() - before)
"""


def faults(call: str) -> int:
    """Pages that are got from the system while two blocks of a megabyte come and go a hundred times."""
    run = subprocess.run([sys.executable, "-c", PROGRAM.format(call)], capture_output=True, text=True, check=True)
    return int(run.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="needs glibc")
def test_blocks_of_a_megabyte_come_from_memory_that_is_there() -> None:
    assert faults("keep_freed_memory()") < 2_000 < faults("")
