"""Trains a policy on one part of a published trace of GPU pods and shows it on another, beside the scheduler with its defaults.

python -m examples.gym.train openb_pod_list_default.csv openb_node_list_all_node.csv [--policy POLICY.json] [--save POLICY.json]

The trace is that of Alibaba's GPU clusters ("openb", https://github.com/alibaba/clusterdata). As in "Beware of Fragmentation" (USENIX ATC
2023), pods come one after the other and stay, until they have asked for more GPUs than there are. Pods of even numbers and the first,
third, ... of some nodes are for training, pods of odd numbers and the nodes in between for the test; no pod or node is in both.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bayplan.api.types.core_v1 import Node
from bayplan.simulation.gym.environment import PlacementEnv, baseline, waiting_share
from bayplan.simulation.gym.policy import LinearPolicy, play, train
from bayplan.simulation.replay.figures import asked_for
from bayplan.simulation.replay.gpu_shares import GPU
from bayplan.simulation.replay.result import Replay
from bayplan.simulation.replay.run import Arrival, Workload
from bayplan.simulation.replay.traces import read_nodes, read_pods
from bayplan.support.randomness import SeededRandomness

EVERY_NODE, LOAD = 12, 1.1
"""Every so manyth node is taken; pods come until they have asked for so many times the GPUs."""


def until_full(nodes: Sequence[Node], pods: Sequence[Arrival], seed: int) -> Workload:
    """Pods in a random order, one a second, which stay, until they ask for `LOAD` times the GPUs of the nodes."""
    chance = SeededRandomness(f"order {seed}")
    order = sorted(pods, key=lambda one: chance.random())
    offered = sum(int(str(node.status.allocatable.get(GPU, 0))) for node in nodes)
    taken: list[Arrival] = []
    asked = 0
    for one in order:
        if asked > LOAD * offered:
            break
        asked += asked_for(one.pod).get(GPU, 0)
        taken.append(Arrival(float(len(taken)), one.pod))
    return Workload(tuple(nodes), tuple(taken))


def line(name: str, workload: Workload, result: Replay) -> str:
    """The figures of a run. GPUs in use are those at the end."""
    gpus = result.moments[-1].used.get(GPU, 0.0)
    placed = result.placed / result.pods
    return f"{name:<10} {placed:7.1%} {gpus:12.1%} {waiting_share(workload, result):10.2%}"


def main() -> None:
    """Train, or read a policy, and print the figures of the test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pods", type=Path)
    parser.add_argument("nodes", type=Path)
    parser.add_argument("--policy", type=Path, help="show this policy instead of training one")
    parser.add_argument("--save", type=Path, help="where to write the policy that was trained")
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--tests", type=int, default=5, help="orders of the pods of the test")
    options = parser.parse_args()
    nodes, pods = read_nodes(options.nodes), read_pods(options.pods)
    if options.policy is not None:
        policy = LinearPolicy.load(options.policy)
    else:
        envs = [PlacementEnv(until_full(nodes[:: 2 * EVERY_NODE], pods[::2], seed)) for seed in range(2)]
        policy = train(
            envs,
            generations=options.generations,
            told=lambda number, best: print(f"generation {number}: {best:.4f}", flush=True),
        )
    if options.save is not None:
        policy.save(options.save)
    print(f"{'':<10} {'PLACED':>7} {'GPUS IN USE':>12} {'WAITING':>10}")
    for seed in range(100, 100 + options.tests):
        workload = until_full(nodes[EVERY_NODE :: 2 * EVERY_NODE], pods[1::2], seed)
        env = PlacementEnv(workload)
        play(env, policy)
        assert env.result is not None
        print(line("defaults", workload, baseline(workload)))
        print(line("trained", workload, env.result), flush=True)


if __name__ == "__main__":
    main()
