"""Two tenants: how much longer one's gets take while another keeps 500 connections busy, and how long leases and health checks take meanwhile.

Both tenants stand for other machines. Here they share the CPUs with the server, so what asks goes before everything else where the system permits it
(root), and what keeps the connections busy comes last: else the times would be in part those that the asking process waits for a CPU itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, cast

from benchmarks import load
from benchmarks.figures import Figure
from benchmarks.processes import running

BUSY, STEADY, SCHEDULER = "busy", "steady", "system:kube-scheduler"
_PROBES_PER_SECOND = 50
_FIRST, _LAST = -20, 19
"""The nice values of whoever gets a CPU before all others, and of whoever gets one that nobody else wants."""
_LISTED = 100
"""Objects of a list of the busy tenant."""
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_PROBED = ("get", "lease", "health check")


def run(quick: bool) -> Iterator[Figure]:
    """Median and 99th percentile of a tenant's gets, of leases and of health checks, alone and beside a busy tenant."""
    connections, seconds, rounds = (100, 3.0, 1) if quick else (500, 5.0, 2)
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig, tokens = Path(directory, "kubeconfig"), Path(directory, "tokens")
        tokens.write_text("".join(f"{user},{user},{user}\n" for user in (BUSY, STEADY, SCHEDULER)))
        arguments: tuple[str, ...] = (
            "--store",
            f"sqlite:{directory}/store.db",
            "--cert-dir",
            f"{directory}/pki",
            "--secure-port",
            "0",
        )
        arguments += ("--token-auth-file", str(tokens), "--kubeconfig", str(kubeconfig))
        with running("apiserver", *arguments):
            asyncio.run(_prepare(load.Target(kubeconfig)))
            alone: dict[str, list[float]] = {name: [] for name in _PROBED}
            beside: dict[str, list[float]] = {name: [] for name in _PROBED}
            rates = []
            for number in range(rounds):
                _add(alone, _probed(kubeconfig, seconds))
                with _busy(kubeconfig, connections, number) as count:
                    before, started = count.value, time.perf_counter()
                    _add(beside, _probed(kubeconfig, seconds))
                    rates.append((count.value - before) / (time.perf_counter() - started))
    yield Figure("fairness", f"answers to {connections} busy connections of a tenant", sum(rates) / rounds, "/s")
    for name in _PROBED:
        for share, word in ((0.5, "median"), (0.99, "99th percentile")):
            yield Figure("fairness", f"{name}, {word}, alone", _milliseconds(alone[name], share), "ms")
            yield Figure(
                "fairness", f"{name}, {word}, beside the busy tenant", _milliseconds(beside[name], share), "ms"
            )


def _milliseconds(seconds: list[float], share: float) -> float:
    """The time within which this share of requests was answered."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))] * 1e3


def _add(all_seconds: dict[str, list[float]], found: dict[str, list[float]]) -> None:
    for name, seconds in found.items():
        all_seconds[name] += seconds


async def _prepare(target: load.Target) -> None:
    """Let both tenants do everything in their namespaces, and make what is read."""
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    subjects = [{"kind": "User", "name": user} for user in (BUSY, STEADY)]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    objects: list[tuple[str, dict[str, Any]]] = [
        (bindings, {"metadata": {"name": "tenants"}, "subjects": subjects, "roleRef": role})
    ]
    objects += [("/api/v1/namespaces", {"metadata": {"name": user}}) for user in (BUSY, STEADY)]
    objects += [(_maps(STEADY), {"metadata": {"name": "read"}, "data": {"a": "b"}})]
    objects += [
        (_maps(BUSY), {"metadata": {"name": f"read-{index}"}, "data": {"a": "b" * 100}}) for index in range(_LISTED)
    ]
    objects += [(_LEASE.rpartition("/")[0], {"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": "a"}})]
    requests = [target.request("POST", path, json.dumps(one).encode()) for path, one in objects]
    for batch in (requests[:3], requests[3:]):
        await load.run(target, iter(batch), 1)


def _maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


# ---------------------------------------------------------------------- the steady tenant, leases, health checks


def _probed(kubeconfig: Path, seconds: float) -> dict[str, list[float]]:
    """What each sort of request took, from a process of its own. Raises RuntimeError if one fails."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.SimpleQueue[dict[str, list[float]] | str] = context.SimpleQueue()
    process = context.Process(target=_probe, args=(kubeconfig, seconds, answers))
    process.start()
    found = answers.get()
    process.join()
    if isinstance(found, str):
        raise RuntimeError(found)
    return found


def _probe(
    kubeconfig: Path, seconds: float, answers: multiprocessing.SimpleQueue[dict[str, list[float]] | str]
) -> None:
    """Send each sort of request at its steady rate, each over a connection of its own."""
    with contextlib.suppress(PermissionError):
        os.nice(_FIRST)
    target = load.Target(kubeconfig)
    body = json.dumps({"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": "a"}})
    sorts = {
        "get": ("GET", f"{_maps(STEADY)}/read", STEADY, None),
        "lease": ("PATCH", _LEASE, SCHEDULER, body),
        "health check": ("GET", "/livez", "", None),
    }
    taken: dict[str, list[float]] = {name: [] for name in sorts}
    opened = {name: http.client.HTTPSConnection(target.host, target.port, context=target.tls) for name in sorts}
    first = time.perf_counter()
    for number in itertools.count():
        due = first + number / _PROBES_PER_SECOND
        if due - first > seconds:
            break
        time.sleep(max(0.0, due - time.perf_counter()))
        for name, (method, path, user, sent) in sorts.items():
            headers = {"Content-Type": "application/merge-patch+json" if sent else ""} | (
                {"Authorization": f"Bearer {user}"} if user else {}
            )
            started = time.perf_counter()
            opened[name].request(method, path, sent, headers)
            answer = opened[name].getresponse()
            answer.read()
            if answer.status != 200:
                answers.put(f"{method} {path} answered {answer.status}")
                return
            taken[name].append(time.perf_counter() - started)
    answers.put(taken)


# ---------------------------------------------------------------------- the busy tenant


@contextlib.contextmanager
def _busy(kubeconfig: Path, connections: int, number: int) -> Iterator[Synchronized[int]]:
    """A busy tenant as long as this is entered; yields how many answers it has got."""
    context = multiprocessing.get_context("spawn")
    ready, stop, count = context.Event(), context.Event(), context.Value("q", 0)
    process = context.Process(target=_storm, args=(kubeconfig, connections, number, ready, stop, count))
    process.start()
    try:
        if not ready.wait(60):
            raise RuntimeError("the busy tenant does not come up")
        time.sleep(1.0)
        yield count
    finally:
        stop.set()
        process.join()


def _storm(
    kubeconfig: Path, connections: int, number: int, ready: Event, stop: Event, count: Synchronized[int]
) -> None:
    os.nice(_LAST)
    asyncio.run(_keep_busy(kubeconfig, connections, number, ready, stop, count))


async def _keep_busy(
    kubeconfig: Path, connections: int, number: int, ready: Event, stop: Event, count: Synchronized[int]
) -> None:
    """Have a request on its way on each connection at all times."""
    target = load.Target(kubeconfig)
    target.token = BUSY
    loop = asyncio.get_running_loop()
    requests = _mixed(target, number)
    clients = [_Client(requests, count) for _ in range(connections)]
    for client in clients:
        await loop.create_connection(lambda client=client: client, target.host, target.port, ssl=target.tls)
    for client in clients:
        client.send()
    ready.set()
    await asyncio.to_thread(stop.wait)
    for client in clients:
        client.close()


def _mixed(target: load.Target, number: int) -> Iterator[bytes]:
    """Creates, gets and lists: four, four and two of ten."""
    maps = _maps(BUSY)
    listed = target.request("GET", f"{maps}?limit={_LISTED}")
    for index in itertools.count():
        body = json.dumps({"metadata": {"name": f"made-{number}-{index}"}, "data": {"a": str(index)}}).encode()
        yield target.request("POST", maps, body)
        yield target.request("GET", f"{maps}/read-{index % _LISTED}")
        if index % 2:
            yield listed


class _Client(asyncio.Protocol):
    """Sends a request, waits for its answer, sends the next: a second later if it is told that there are too many, as client libraries do."""

    def __init__(self, requests: Iterator[bytes], count: Synchronized[int]) -> None:
        self._requests, self._count = requests, count
        self._answers = load.AnswerReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        """Send the next request."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(next(self._requests))

    def close(self) -> None:
        """Go away at once."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        answer = self._answers.feed(data)
        if answer is None:
            return
        if answer[0] == 429:
            asyncio.get_running_loop().call_later(1.0, self.send)
            return
        self._count.value += 1
        self.send()
