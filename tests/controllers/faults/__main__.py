"""`python -m tests.controllers.faults [SEEDS [FIRST]]`: many runs; names the seeds that broke something."""

from __future__ import annotations

import logging
import sys
import time
import traceback

from tests.controllers.faults.run import run_seed


def main() -> int:
    """Run; returns the exit status."""
    logging.disable(logging.CRITICAL)
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    broken, faults, started = 0, 0, time.monotonic()
    for seed in range(first, first + seeds):
        try:
            faults += run_seed(seed)
        except Exception as error:
            broken += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            print(f"seed {seed}: {type(error).__name__}: {error} ({last.filename}:{last.lineno})", flush=True)
    passed = time.monotonic() - started
    print(f"{seeds} seeds, {faults} faults, {broken} seeds broke something, {passed:.0f} s")
    return 1 if broken else 0


sys.exit(main())
