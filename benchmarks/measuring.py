"""The benchmarks, each measured in a process of its own: what the ones before have left in memory would slow down the load that it makes."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from bayplan.support.memory.garbage import collect_seldom
from benchmarks import (
    affinity_eviction,
    api_server,
    controllers,
    dns,
    end_to_end,
    fairness,
    gangs,
    large,
    library,
    mix_end_to_end,
    network_policy,
    overload,
    proxy,
    questions,
    questions_end_to_end,
    real_nodes,
    server_group,
    simulation,
    startup,
    sweeps,
    updates,
)
from benchmarks.figures import Figure

BENCHMARKS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "start-up": startup.run,
    "library": library.run,
    "large": large.run,
    "gangs": gangs.run,
    "gangs-up": gangs.run_up,
    "api-server": api_server.run,
    "server-group": server_group.run,
    "updates": updates.run,
    "overload": overload.run,
    "fairness": fairness.run,
    "controllers": controllers.run,
    "affinity-eviction": affinity_eviction.run,
    "simulation": simulation.run,
    "questions": questions.run,
    "questions-up": questions_end_to_end.run,
    "sweeps": sweeps.run,
    "up": end_to_end.run_up,
    "split": end_to_end.run_split,
    "mix": mix_end_to_end.run,
    "dns": dns.run,
    "proxy": proxy.run,
    "network-policy": network_policy.run,
    "real-nodes": real_nodes.run,
}


def measured(name: str, *, quick: bool) -> Iterator[Figure]:
    """The figures of a benchmark, each as soon as it is there. Raises RuntimeError if it fails."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(name, quick, sender))
    process.start()
    sender.close()
    with contextlib.suppress(EOFError):
        while True:
            yield receiver.recv()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the benchmark {name} has failed")


def _measure(name: str, quick: bool, sender: Connection) -> None:
    collect_seldom()  # as in Bayplan's own processes
    for figure in BENCHMARKS[name](quick):
        sender.send(figure)
