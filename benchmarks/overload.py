"""Everything at once: clients that do not read, a storm of watches, long lists and writes. What counts is how long `/livez` takes meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import ssl
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from multiprocessing.synchronize import Event
from pathlib import Path

from benchmarks import load
from benchmarks.figures import Figure
from benchmarks.processes import running
from benchmarks.workloads import pod

_PODS = "/api/v1/namespaces/default/pods"
_MAPS = "/api/v1/namespaces/default/configmaps"


def run(quick: bool) -> Iterator[Figure]:
    """The slowest answer of `/livez` under overload."""
    objects, slow, watches, writes = (1_000, 50, 100, 100) if quick else (10_000, 500, 1_000, 500)
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        arguments = ("--store", f"sqlite:{directory}/store.db", "--cert-dir", f"{directory}/pki", "--secure-port", "0")
        with running("apiserver", *arguments, "--kubeconfig", str(kubeconfig)):
            target = load.Target(kubeconfig)
            asyncio.run(_fill(target, objects))
            context = multiprocessing.get_context("spawn")
            stop, answers = context.Event(), context.SimpleQueue()
            probe = context.Process(target=_probe, args=(target.host, target.port, stop, answers))
            probe.start()
            try:
                asyncio.run(_storm(target, slow, watches, writes))
            finally:
                stop.set()
                worst: float = answers.get()
                probe.join()
    name = (
        f"slowest /livez under {slow} clients that do not read, {watches} watches, {writes} writes, lists of {objects}"
    )
    yield Figure("overload", name, worst, "s")


def _probe(host: str, port: int, stop: Event, answers: multiprocessing.SimpleQueue[float]) -> None:
    """Ask `/livez` over and over from a process of its own, each time over a new connection; hand over the longest time in seconds."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    worst = 0.0
    while not stop.is_set():
        started = time.perf_counter()
        connection = HTTPSConnection(host, port, timeout=60, context=tls)
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"/livez answered {answer.status}")
        answer.read()
        connection.close()
        worst = max(worst, time.perf_counter() - started)
        time.sleep(0.02)
    answers.put(worst)


async def _fill(target: load.Target, objects: int) -> None:
    account = json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}).encode()
    await load.run(target, iter([target.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)]), 1)
    bodies = [target.request("POST", _PODS, json.dumps(pod(index)).encode()) for index in range(objects)]
    await load.run(target, iter(bodies), 64)


async def _storm(target: load.Target, slow: int, watches: int, writes: int) -> None:
    """Half of the slow clients never finish their request, half never read their answer."""
    list_all = target.request("GET", _PODS)
    silent = [_Slow(list_all if index % 2 else list_all[:40]) for index in range(slow)]
    loop = asyncio.get_running_loop()
    for one in silent:
        await loop.create_connection(lambda one=one: one, target.host, target.port, ssl=target.tls)
    storm = await asyncio.gather(*(load.watch(target, f"{_MAPS}?watch=true", _ignore) for _ in range(watches)))
    maps = (
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"storm-{index}"}}).encode()
        for index in range(writes)
    )
    await asyncio.gather(
        load.run(target, (target.request("POST", _MAPS, body) for body in maps), 8),
        load.run(target, iter([list_all] * 20), 4),
    )
    transports = [*(one.transport for one in silent), *(one.transport for one in storm)]
    for transport in transports:
        if transport is not None:
            with contextlib.suppress(OSError):
                transport.abort()


def _ignore(line: bytes) -> None:
    """What a watch tells is of no interest here."""


class _Slow(asyncio.Protocol):
    """Sends something and never reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._data)
        transport.pause_reading()
