"""The environment: what an agent sees, what it is rewarded for, and that it can learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium", reason="the extra bayplan[gym] is not installed")

import numpy as np  # noqa: E402

from bayplan.api.types.core_v1 import Node, Pod  # noqa: E402
from bayplan.simulation.gym.environment import ENVIRONMENT, PlacementEnv, baseline, waiting_share  # noqa: E402
from bayplan.simulation.gym.features import FEATURES, OBSERVED  # noqa: E402
from bayplan.simulation.gym.policy import KINDS, LinearPolicy, play, train  # noqa: E402
from bayplan.simulation.replay.run import Arrival, Workload  # noqa: E402
from bayplan.simulation.replay.traces import arrival_of, node_of  # noqa: E402


def node(name: str, cpu: int = 4000, gpus: int = 0) -> Node:
    return node_of({"name": name, "cpu_milli": str(cpu), "memory_mib": "16384", "gpu": str(gpus)})


def pod(name: str, cpu: int = 1000, gpus: int = 0, share: int = 1000, priority: int = 0) -> Pod:
    row = {"name": name, "cpu_milli": str(cpu), "memory_mib": "1024", "priority": str(priority)}
    more = {"num_gpu": str(gpus), "gpu_milli": str(share)} if gpus else {}
    return arrival_of({**row, **more, "creation_time": "0", "duration": "1"}).pod


def weights(**named: float) -> Any:
    return np.array([named.get(name.replace(" ", "_"), 0.0) for name in FEATURES], dtype=np.float32)


def small_then_large(last: float = 102.0) -> Workload:
    """Two small pods, then one that needs a node for itself: who spreads the small ones keeps it waiting."""
    arrivals = (Arrival(0.0, pod("a")), Arrival(1.0, pod("b")), Arrival(2.0, pod("whole", 4000), ends=last))
    return Workload((node("n1"), node("n2")), arrivals)


def constant(**named: float) -> LinearPolicy:
    found = np.zeros((len(KINDS), len(FEATURES)))
    found[0] = weights(**named)
    return LinearPolicy(found)


def test_actions_decide_which_node_is_taken() -> None:
    env = PlacementEnv(small_then_large())
    for policy, nodes in ((constant(cpu_left=1), ["n1", "n2"]), (constant(cpu_left=-1), ["n1", "n1"])):
        play(env, policy)
        assert env.result is not None
        assert [env.result.records.of[f"default/{name}"].node for name in "ab"] == nodes


def test_rewards_add_up_to_minus_the_share_of_the_cluster_that_waits() -> None:
    env = PlacementEnv(small_then_large())
    spread = play(env, constant(cpu_left=1))
    assert env.result is not None
    assert spread == pytest.approx(-0.5 * 100 / 102)
    assert spread == pytest.approx(-waiting_share(small_then_large(), env.result))
    assert play(env, constant(cpu_left=-1)) == 0.0
    assert waiting_share(small_then_large(), baseline(small_then_large())) == pytest.approx(0.5 * 100 / 102)


def test_a_pod_that_waited_is_told_of_when_it_is_placed() -> None:
    arrivals = (
        Arrival(0.0, pod("a", 4000), ends=30.0),
        Arrival(10.0, pod("b", 2000), ends=100.0),
        Arrival(50.0, pod("c", 1000), ends=90.0),
    )
    env = PlacementEnv(Workload((node("n1"),), arrivals))
    env.reset()
    _, first, is_over, _, about = env.step(weights())
    assert (first, is_over) == (0.0, False)
    assert about == {"pod": "default/b", "at": 30.0}
    _, second, is_over, _, _ = env.step(weights())
    assert second == pytest.approx(-0.5 * 20 / 100)
    assert not is_over
    _, third, is_over, _, _ = env.step(weights())
    assert (third, is_over) == (0.0, True)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(weights())


def test_preempted_pods_count_the_time_that_they_wait_again() -> None:
    arrivals = (Arrival(0.0, pod("low", 4000), lasts=50.0), Arrival(10.0, pod("high", 4000, priority=1), lasts=20.0))
    workload = Workload((node("n1"),), arrivals)
    env = PlacementEnv(workload)
    total = play(env, constant())
    assert env.result is not None
    assert env.result.preemptions == 1
    assert total == pytest.approx(-20.0 / 50.0)
    assert total == pytest.approx(-waiting_share(workload, env.result))


def test_observations_say_what_the_pod_asks_for_and_what_is_in_use() -> None:
    arrivals = (Arrival(0.0, pod("a", 1000, 1, 500)), Arrival(1.0, pod("b", 4000, 2)))
    env = PlacementEnv(Workload((node("n1", 8000, 4),), arrivals))
    seen, _ = env.reset()
    first = dict(zip(OBSERVED, seen.tolist(), strict=True))
    assert (first["cpu"], first["GPUs"], first["part of a GPU"], first["whole GPUs"]) == (0.125, 0.125, 0.5, 0.0)
    assert (first["cpu in use"], first["nodes that fit"] > 0) == (0.0, True)
    seen, *_ = env.step(weights())
    second = dict(zip(OBSERVED, seen.tolist(), strict=True))
    assert (second["cpu"], second["whole GPUs"], second["GPUs in use"]) == (0.5, 0.25, 0.125)
    assert env.observation_space.contains(seen)


def test_features_tell_nodes_with_gpus_from_others() -> None:
    workload = Workload((node("plain"), node("gpu", 4000, 2)), (Arrival(0.0, pod("a")),))
    for policy, name in ((constant(no_GPU=1), "plain"), (constant(no_GPU=-1), "gpu"), (constant(GPUs_left=1), "gpu")):
        env = PlacementEnv(workload)
        play(env, policy)
        assert env.result is not None
        assert env.result.records.of["default/a"].node == name


def test_a_workload_without_a_decision_is_over_at_once() -> None:
    env = PlacementEnv(Workload((node("n1"),), (Arrival(0.0, pod("a", 9000)),)))
    assert play(env, constant()) == 0.0
    assert env.result is not None
    assert env.result.placed == 0


def test_the_environment_keeps_the_contract_of_gymnasium() -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(ENVIRONMENT, workload=small_then_large()).unwrapped, skip_render_check=True)


def test_several_environments_are_stepped_at_once() -> None:
    envs = gymnasium.make_vec(ENVIRONMENT, num_envs=3, workload=small_then_large(), vectorization_mode="sync")
    seen, _ = envs.reset(seed=1)
    assert seen.shape == (3, len(OBSERVED))
    _, rewards, is_over, _, _ = envs.step(np.stack([weights(), weights(), weights(cpu_left=-1)]))
    assert rewards.shape == is_over.shape == (3,)
    envs.close()


def test_training_finds_what_the_defaults_miss_and_equal_seeds_find_the_same() -> None:
    env = PlacementEnv(small_then_large())
    first = train([env], generations=2, population=8, elite=3, seed=3)
    assert play(env, first) == 0.0 > -waiting_share(small_then_large(), baseline(small_then_large()))
    assert np.array_equal(first.weights, train([env], generations=2, population=8, elite=3, seed=3).weights)


def test_a_policy_is_read_as_it_was_written(tmp_path: Path) -> None:
    policy = LinearPolicy(np.arange(24.0).reshape(len(KINDS), len(FEATURES)))
    policy.save(tmp_path / "policy.json")
    assert np.array_equal(LinearPolicy.load(tmp_path / "policy.json").weights, policy.weights)


def test_the_policy_of_the_example_can_be_played() -> None:
    policy = LinearPolicy.load(Path("examples/gym/policy.json"))
    env = PlacementEnv(Workload((node("n1", 8000, 2),), (Arrival(0.0, pod("a", 1000, 1)),)))
    assert play(env, policy) == 0.0
    assert env.result is not None
    assert env.result.placed == 1
