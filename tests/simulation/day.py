"""A virtual day of a churning cluster of 100 nodes, twice: `python -m tests.simulation.day [HOURS]`.

Both runs have the same seed, but each its own process with its own hash seed. Their traces, every write of the day, must
be equal byte for byte. Ends with 1 if they are not.
"""

from __future__ import annotations

import os
import subprocess
import sys

_CHURN = """
import sys
from benchmarks.simulation import churn
from bayplan.support import virtual_time

digest, writes = virtual_time.run(churn(int(sys.argv[1]), 100, 2000))
print(f"{writes} writes, trace {digest}")
"""


def main() -> int:
    hours = sys.argv[1] if len(sys.argv) > 1 else "24"
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", _CHURN, hours],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in (1, 2)
    ]
    traces = [run.communicate()[0].strip() for run in runs]
    for run, trace in zip(runs, traces, strict=True):
        print(trace or f"ended with {run.returncode}")
    return int(not traces[0] or traces[0] != traces[1])


if __name__ == "__main__":
    sys.exit(main())
