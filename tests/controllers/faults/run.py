"""One run by its seed: the seed chooses the scenario and everything that goes wrong."""

from __future__ import annotations

from bayplan.support.virtual_time import run
from tests.controllers.faults.scenarios import SCENARIOS
from tests.controllers.faults.world import play


def run_seed(seed: int) -> int:
    """Returns how many faults there were. Raises Broken."""
    names = tuple(SCENARIOS)
    return run(play(seed, SCENARIOS[names[seed % len(names)]]))
