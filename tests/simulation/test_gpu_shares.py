"""GPUs one by one: each share on one GPU, whole GPUs for one pod alone, and how much of the rest is of use."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bayplan.api.types import core_v1
from bayplan.scheduler.library import Planner
from bayplan.scheduler.planning.capacity import capacity_for
from bayplan.simulation.replay.compare import compare
from bayplan.simulation.replay.gpu_fragmentation import gpu_fragmentation, room_with_gpus, wants_of
from bayplan.simulation.replay.gpu_shares import GpuShares, chosen, fits, share_gpus, shares_of
from bayplan.simulation.replay.report import replay_page
from bayplan.simulation.replay.result import Replay
from bayplan.simulation.replay.run import Arrival, Workload, replay
from bayplan.simulation.replay.tables import print_replay
from bayplan.simulation.replay.traces import TraceError, arrival_of, node_of
from bayplan.testing.builders import node as plain_node


def node(name: str = "n", gpus: int = 2, model: str = "", cpu: int = 64) -> core_v1.Node:
    return node_of({"sn": name, "cpu_milli": f"{cpu}000", "memory_mib": "65536", "gpu": str(gpus), "model": model})


def arrival(name: str, count: int, milli: int, at: float = 0, ends: float = 100, **more: Any) -> Arrival:
    row = {"name": name, "cpu_milli": "1000", "memory_mib": "1024", "num_gpu": str(count), "gpu_milli": str(milli)}
    times = {"creation_time": str(at), "deletion_time": str(ends)}
    return arrival_of({**row, **times, **{key: str(value) for key, value in more.items()}})


def asking(name: str, count: int, milli: int, **more: Any) -> core_v1.Pod:
    return arrival(name, count, milli, **more).pod


def shared(*nodes: core_v1.Node) -> tuple[Planner, GpuShares]:
    planner = Planner(nodes)
    gpus = share_gpus(planner)
    assert gpus is not None
    return planner, gpus


def played(nodes: list[core_v1.Node], *arrivals: Arrival) -> Replay:
    return replay(Workload(tuple(nodes), arrivals))


def test_a_share_larger_than_what_any_gpu_has_left_waits_though_the_sum_would_do() -> None:
    found = played([node()], arrival("a", 1, 500, 0, 50), arrival("b", 1, 600, 1), arrival("c", 1, 500, 2))
    assert found.waits == [0, 0, 0]
    found = played([node()], *(arrival(f"h{n}", 1, 501, 0, 50) for n in range(2)), arrival("c", 1, 500, 2))
    assert (found.placed, found.waits) == (3, [0, 0, 48])


def test_the_reason_is_told() -> None:
    found = played([node()], *(arrival(f"h{n}", 1, 501) for n in range(2)), arrival("c", 1, 600, 2, 99))
    assert len(found.never) == 1
    assert found.never[0][1].startswith("0/1 nodes are available: 1 no GPU with enough free.")


def test_a_share_gets_the_fullest_gpu_that_takes_it() -> None:
    planner, gpus = shared(node(gpus=3))
    for name, milli in (("a", 700), ("b", 500), ("c", 300)):
        assert planner.schedule(asking(name, 1, milli)).node == "n"
    assert gpus.free(0) == [0, 500, 1000]


def test_whole_gpus_are_for_one_pod_alone() -> None:
    planner, gpus = shared(node(gpus=3))
    assert planner.schedule(asking("a", 2, 1000)).node == "n"
    assert planner.schedule(asking("b", 1, 1)).node == "n"
    assert gpus.free(0) == [0, 0, 999]
    assert planner.schedule(asking("c", 1, 1000)).node is None
    planner.remove("default/b")
    assert planner.schedule(asking("c", 1, 1000)).node == "n"


def test_several_shares_of_a_pod_are_on_different_gpus() -> None:
    one, two = shared(node(gpus=1))[0], shared(node(gpus=2))[0]
    pod = asking("a", 2, 400)
    assert (one.schedule(pod).node, two.schedule(pod).node) == (None, "n")
    assert shares_of(pod.spec) == (400, 400)
    assert pod.spec.containers[1].resources.requests["cpu"] == "0"


def test_models_are_kept_to() -> None:
    planner, _ = shared(node("a", model="T4"), node("b", model="P100"))
    assert planner.schedule(asking("p", 1, 500, gpu_spec="P100|V100")).node == "b"


def test_the_pod_is_evicted_whose_gpu_is_needed() -> None:
    """The least important would do by the sum of what is free, but not on any GPU."""
    planner, gpus = shared(node())
    for name, milli, priority in (("a", 400, 1), ("b", 700, 5), ("c", 500, 5)):
        assert planner.schedule(asking(name, 1, milli, priority=priority)).node == "n"
    assert gpus.free(0) == [100, 300]
    decision = planner.decide(asking("high", 1, 600, priority=9))
    assert decision.nominated_node == "n"
    assert decision.victims in (("default/b",), ("default/c",))
    assert gpus.free(0) == [100, 300]


def test_who_preempts_gets_the_gpu_and_the_victim_comes_again() -> None:
    low = [arrival("a", 1, 400, 0), arrival("b", 1, 700, 1), arrival("c", 1, 500, 2)]
    found = played([node()], *low, arrival("high", 1, 600, 3, 50, priority=9))
    assert (found.preemptions, found.placed) == (1, 4)


def test_pods_that_are_there_from_the_beginning_have_gpus_too() -> None:
    there = [asking(f"there-{number}", 1, 600) for number in range(2)]
    there = [replace(pod, spec=replace(pod.spec, node_name="n")) for pod in there]
    assert replay(Workload((node(),), (arrival("a", 1, 500),), tuple(there))).placed == 0


def test_every_profile_knows_what_the_others_gave() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}],
    }
    planner = Planner([node()], config)
    gpus = share_gpus(planner)
    assert gpus is not None
    other = asking("b", 1, 300)
    other = replace(other, spec=replace(other.spec, scheduler_name="other"))
    planner.schedule(asking("a", 1, 600))
    planner.schedule(other)
    assert gpus.free(0) == [100, 1000]


def test_clusters_without_gpus_are_left_alone() -> None:
    planner = Planner([plain_node("n")])
    assert share_gpus(planner) is None
    found = replay(Workload((plain_node("n"),), (arrival("a", 0, 0),)))
    assert (found.placed, found.mean_gpu_fragmentation()) == (1, None)


def test_more_than_a_gpu_is_no_share() -> None:
    with pytest.raises(TraceError, match="gpu_milli: 1500 is more than the 1000 thousandths"):
        arrival("a", 1, 1500)


@pytest.mark.parametrize("seed", range(300))
def test_shares_fit_exactly_if_some_choice_of_gpus_takes_them(seed: int) -> None:
    chance = random.Random(seed)
    free = [chance.randrange(0, 1001, 100) for _ in range(chance.randint(1, 4))]
    shares = tuple(sorted((chance.randrange(100, 1001, 100) for _ in range(chance.randint(1, 3))), reverse=True))
    ways = [
        way
        for way in permutations(range(len(free)), len(shares))
        if all(free[g] >= s for g, s in zip(way, shares, strict=True))
    ]
    assert fits(free, shares) == bool(ways)
    if ways:
        assert tuple(chosen(free, shares)) in ways


@pytest.mark.parametrize("seed", range(20))
def test_no_gpu_is_ever_given_twice(seed: int) -> None:
    """Pods come and go; a pod is refused only if no node has the GPUs, and what is free is what nobody was given."""
    chance = random.Random(seed)
    nodes = [node(f"n{number}", gpus=chance.randint(1, 4)) for number in range(3)]
    planner, gpus = shared(*nodes)
    running: dict[str, int] = {}
    for number in range(60):
        if running and chance.random() < 0.4:
            name = chance.choice(sorted(running))
            planner.remove(f"default/{name}")
            del running[name]
            continue
        name = f"p{number}"
        count, milli = chance.choice(((1, 1000), (2, 1000), (1, 300), (1, 500), (1, 700), (2, 400)))
        pod = asking(name, count, milli)
        before = [gpus.free(row) for row in range(3)]
        decision = planner.schedule(pod)
        assert decision.scheduled == any(fits(free, shares_of(pod.spec)) for free in before)
        if decision.scheduled:
            running[name] = count * milli
        left = [free for row in range(3) for free in gpus.free(row)]
        assert min(left) >= 0
        assert sum(left) == 1000 * sum(len(free) for free in before) - sum(running.values())


def test_fragmentation_counts_what_pods_cannot_use() -> None:
    planner, gpus = shared(node("a", gpus=2), node("b", gpus=1, cpu=0))
    planner.schedule(asking("x", 1, 600))  # free: 400 and 1000 on a; 1000 on b, which has no cpu
    small, large = asking("s", 1, 300), asking("l", 1, 500)
    wants = wants_of(planner, [(small, 3), (large, 1), (asking("c", 0, 0), 5)])
    # small can use 1400 of 2400, large 1000; three small ones come for each large one
    assert gpu_fragmentation(planner, gpus, wants) == pytest.approx(1 - (3 * 1400 + 1000) / (4 * 2400))
    assert gpu_fragmentation(planner, gpus, []) == 0.0


@pytest.mark.parametrize("seed", range(30))
def test_room_is_that_of_pods_placed_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    planner, gpus = shared(*(node(f"n{number}", chance.randint(1, 4), cpu=chance.randint(1, 6)) for number in range(3)))
    for number in range(chance.randint(0, 8)):
        planner.schedule(asking(f"p{number}", 1, chance.choice((200, 400, 500, 1000))))
    pod = asking("asked", *chance.choice(((1, 300), (1, 1000), (2, 1000), (2, 350), (3, 400))))
    assert room_with_gpus(planner, gpus, pod) == capacity_for(planner, pod).total


def test_answers_tell_of_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrivals = tuple(arrival(f"p{number}", 1, 600, number, 50 + number) for number in range(3))
    workload = Workload((node(gpus=4),), arrivals)
    found = replay(workload)
    share = found.mean_gpu_fragmentation()
    assert share is not None
    assert found.to_dict()["meanGpuFragmentation"] == share > 0
    print_replay(found)
    assert f"GPU fragmentation {share:.1%}" in capsys.readouterr().out
    assert "GPU fragmentation in the mean" in replay_page("t", found)
    assert "GPU fragmentation, mean" in [line.name for line in compare(workload, None, None, seeds=1).lines]
