"""The DNS server: answers per second, the memory of its zone, the cost of one change.

Answers are counted over real UDP on the loopback. The server has a process of its own, and what counts is the CPU time of that process: answers per second
of one core, whatever else the machine does.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import time
import tracemalloc
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Final

import dns.message

from bayplan.dns.listeners import Listeners
from bayplan.dns.lookups import Lookups
from bayplan.dns.metrics import DnsMetrics
from bayplan.dns.responder import Responder
from bayplan.dns.settings import DnsSettings
from bayplan.dns.zone import Zone
from bayplan.support.clock import SystemClock
from bayplan.support.loop import run_loop
from bayplan.support.metrics.instruments import Registry
from benchmarks.figures import Figure
from benchmarks.services import SERVICES, TITLE, endpoint_slice, service

_WINDOW: Final = 64
"""Queries that are under way at once."""


def run(quick: bool) -> Iterator[Figure]:
    """Answers from the cache and from the zone, memory, changes."""
    answers = 20_000 if quick else 200_000
    names = [f"service-{index}.shop.svc.cluster.local" for index in range(SERVICES)]
    wall, core = asked(names, answers, cached=True)
    yield Figure("dns", "answers from the cache", wall, "answers/s")
    yield Figure("dns", "answers from the cache, per second of CPU", core, "answers/s")
    _, core = asked(names, answers // 10, cached=False)
    yield Figure("dns", "answers from the zone, per second of CPU", core, "answers/s")
    title = TITLE
    yield Figure("dns", f"memory of the zone, {title}", memory() / 2**20, "MiB")
    yield Figure("dns", f"one endpoint changes, {title}", change_seconds() * 1e6, "µs")


def asked(names: list[str], count: int, *, cached: bool) -> tuple[float, float]:
    """Answers per second, and per second of the server's CPU time."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, cached))
    process.start()
    try:
        port: int = here.recv()
        queries = [dns.message.make_query(name, "A", use_edns=0, payload=1232).to_wire() for name in names]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", port))
            client.settimeout(5)
            _ask(client, queries, len(queries))
            here.send("start")
            here.recv()
            started = time.perf_counter()
            _ask(client, queries, count)
            seconds = time.perf_counter() - started
            here.send("stop")
            cpu: float = here.recv()
    finally:
        process.terminate()
        process.join()
    return count / seconds, count / cpu


def memory() -> int:
    """Bytes of the zone: what it keeps beside the informers' objects."""
    services = [service(index) for index in range(SERVICES)]
    slices = [endpoint_slice(index) for index in range(SERVICES)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    zone = Zone()
    for one, part in zip(services, slices, strict=True):
        zone.put_service(one)
        zone.put_slice(part)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before


def change_seconds(changes: int = 2_000) -> float:
    """Seconds that one changed slice takes."""
    zone = _zone()
    changed = [endpoint_slice(index % SERVICES, 1 + index // SERVICES) for index in range(changes)]
    started = time.perf_counter()
    for part in changed:
        zone.put_slice(part)
    return (time.perf_counter() - started) / changes


def _ask(client: socket.socket, queries: list[bytes], count: int) -> None:
    """Ask so often, with so many questions under way that the server is never idle."""
    sent = received = 0
    while received < count:
        while sent < count and sent - received < _WINDOW:
            client.send(queries[sent % len(queries)])
            sent += 1
        client.recv(2048)
        received += 1


def _serve(connection: Connection, cached: bool) -> None:
    run_loop(_serving(connection, cached))


async def _serving(connection: Connection, cached: bool) -> None:
    """Serve a zone without a cluster, and tell the CPU time between two messages."""
    settings = DnsSettings(port=0, cache_entries=10_000 if cached else 0)
    clock = SystemClock()
    responder = Responder(
        Lookups(_zone(), settings.domain, ttl=settings.ttl),
        None,
        settings,
        synced=lambda: True,
        clock=clock,
        metrics=DnsMetrics(Registry()),
    )
    listeners = Listeners(settings)
    listeners.open()
    await listeners.start(responder)
    connection.send(listeners.bound[0].port)
    loop = asyncio.get_running_loop()
    times: list[float] = []
    told = asyncio.Event()

    def tell() -> None:
        connection.recv()
        times.append(time.process_time())
        connection.send(times[-1] - times[0])
        if len(times) == 2:
            told.set()

    loop.add_reader(connection.fileno(), tell)
    await told.wait()
    await listeners.close()


def _zone() -> Zone:
    zone = Zone()
    zone.add_namespace("shop")
    for index in range(SERVICES):
        zone.put_service(service(index))
        zone.put_slice(endpoint_slice(index))
    return zone
