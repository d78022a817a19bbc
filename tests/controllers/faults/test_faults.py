"""Controllers under faults: nothing is made twice, nothing goes that should stay, everything comes to be as it should.

`play` looks at the cluster all the time and raises Broken as soon as anything is not as it should; it returns how many faults there were.
"""

from __future__ import annotations

import pytest

from bayplan.simulation.faults.transport import Faults
from bayplan.support.virtual_time import run
from tests.controllers.faults.run import run_seed
from tests.controllers.faults.scenarios import SCENARIOS
from tests.controllers.faults.world import play

SEEDS = 50


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_goes_wrong_comes_right(seed: int) -> None:
    assert run_seed(seed) > 0, "nothing went wrong: the run shows nothing"


def test_equal_seeds_give_equal_faults() -> None:
    assert run_seed(2) == run_seed(2)


def test_without_faults_all_goes_well() -> None:
    for scenario in SCENARIOS.values():
        assert run(play(0, scenario, Faults(), restarts=False)) == 0


@pytest.mark.parametrize(
    ("scenario", "fault", "seed"),
    [
        pytest.param("orphans", {"lag": 0.4}, 8, id="a collector that is behind does not delete what was orphaned"),
        pytest.param("orphans", {"conflict": 0.2}, 1, id="an owner waits until all its orphans are free"),
        pytest.param("orphans", {"conflict": 0.2}, 8, id="an owner waits until all its orphans are free, again"),
        pytest.param("roll-out", {"error_before": 0.15}, 1, id="pods that never came are made soon"),
        pytest.param("roll-out", {"error_after": 0.3}, 1, id="pods whose creation was not confirmed count"),
        pytest.param("daemon set", {"error_before": 0.15}, 8, id="daemons that never came are made soon"),
        pytest.param("daemon set", {"error_after": 0.3}, 1, id="daemons whose creation was not confirmed count"),
        pytest.param("job", {"conflict": 0.2}, 15, id="a pod is counted once though its finalizer stays"),
        pytest.param("job", {"error_after": 0.3}, 1, id="a job's pods whose creation was not confirmed count"),
    ],
)
def test_one_kind_of_fault(scenario: str, fault: dict[str, float], seed: int) -> None:
    assert run(play(seed, SCENARIOS[scenario], Faults(**fault), restarts=False)) > 0, "the fault never struck"


@pytest.mark.parametrize("seed", [22, 29, 36])
def test_a_pod_that_is_seen_before_its_job_stays_the_jobs(seed: int) -> None:
    assert run(play(seed, SCENARIOS["job"], Faults(), restarts=True)) == 0, "restarts are no faults"
