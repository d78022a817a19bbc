"""The service proxy: the time of a first load and of one change, what of it is the core's, and the memory of what is desired.

All rules go into a network namespace that the benchmark makes for itself, as root. A change is in the kernel when the kernel has acknowledged it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import statistics
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from bayplan.api.types import core_v1, discovery_v1
from bayplan.proxy.families import IPV4
from bayplan.proxy.family_syncer import FamilySyncer, Generations
from bayplan.proxy.metrics import ProxyMetrics
from bayplan.proxy.rules.desired_table import DesiredTable
from bayplan.proxy.rules.table_options import TableOptions, local_by_range
from bayplan.proxy.rules.transactions import KernelNames, difference, whole
from bayplan.proxy.system.kernel import NetlinkKernel
from bayplan.proxy.system.nft import Nft, NftProgram, RulesWriter
from bayplan.support.blocking import in_thread
from bayplan.support.clock import SystemClock
from bayplan.support.loop import run_loop
from bayplan.support.metrics.instruments import Registry
from benchmarks.figures import Figure
from benchmarks.services import SERVICES, TITLE, endpoint_slice, service

_CLONE_NEWNET: Final = 0x40000000


def run(quick: bool) -> Iterator[Figure]:
    """First load, changes, memory."""
    enter_namespace()
    figures: list[Figure] = []
    run_loop(_measure(20 if quick else 200, figures))
    yield from figures


def enter_namespace() -> None:
    """Leave the machine's network for an empty one. Raises OSError without the right to."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}: the benchmark proxy needs root, and nft")


async def _measure(changes: int, figures: list[Figure]) -> None:
    def add(name: str, seconds: float) -> None:
        figures.append(Figure("proxy", name, seconds * 1000, "ms"))

    title = TITLE
    objects = [(service(index), endpoint_slice(index)) for index in range(SERVICES)]
    core = _core_seconds(objects)
    add(f"first load, {title}: what is desired, as text", core)
    kernel, writer = NetlinkKernel(), Nft()
    try:
        syncer = _syncer(kernel, writer)
        started = time.perf_counter()
        _fill(syncer.table, objects)
        await syncer.sync()
        add(f"first load, {title}: all, until it is in the kernel", time.perf_counter() - started)
        syncer.needs_whole = True
        started = time.perf_counter()
        await syncer.sync()
        add("the same again, over what is there", time.perf_counter() - started)
        started = time.perf_counter()
        kernel.fingerprint(IPV4)
        add("look for changes of others", time.perf_counter() - started)
        add("one endpoint changes: what is desired, as text", _change_core(syncer.table, changes))
        library = await _changes(syncer, changes, generation=100)
        add("one endpoint changes: all, median", statistics.median(library))
        add("one endpoint changes: all, 99 of 100", statistics.quantiles(library, n=100)[98])
        program = await _changes(_syncer_over(syncer, kernel, NftProgram()), max(10, changes // 4), generation=200)
        add(
            "one endpoint changes: all, with the program nft instead of its library, median", statistics.median(program)
        )
        add("the program nft, without a change, median", await _median(lambda: NftProgram().apply("")))
    finally:
        writer.close()
        kernel.close()
    figures.append(Figure("proxy", f"memory of what is desired, {title}", _memory(objects) / 2**20, "MiB"))


Objects = list[tuple[core_v1.Service, discovery_v1.EndpointSlice]]


def _table() -> DesiredTable:
    return DesiredTable(
        TableOptions(
            family=IPV4,
            node_name="node",
            service_ranges=("10.96.0.0/16",),
            local_traffic=local_by_range(IPV4, "10.128.0.0/9"),
        )
    )


def _fill(table: DesiredTable, objects: Objects) -> None:
    for one, part in objects:
        table.put_service(one)
        table.put_slice(part)


def _core_seconds(objects: Objects) -> float:
    table = _table()
    started = time.perf_counter()
    _fill(table, objects)
    table.changes()
    assert whole(IPV4, KernelNames(frozenset(), {}), table.items()).text
    return time.perf_counter() - started


def _change_core(table: DesiredTable, changes: int) -> float:
    """Median seconds; what is changed is put back."""
    taken = []
    for index in range(changes):
        for part in (endpoint_slice(index % SERVICES, 50), endpoint_slice(index % SERVICES)):
            started = time.perf_counter()
            table.put_slice(part)
            found = table.changes()
            assert difference(IPV4, found.before, found.after).text
            taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _syncer(kernel: NetlinkKernel, writer: RulesWriter) -> FamilySyncer:
    return FamilySyncer(_table(), writer, kernel, Generations(), ProxyMetrics(Registry()), SystemClock(), in_thread)


def _syncer_over(other: FamilySyncer, kernel: NetlinkKernel, writer: RulesWriter) -> FamilySyncer:
    """A syncer that goes on where another one is."""
    made = FamilySyncer(other.table, writer, kernel, Generations(), ProxyMetrics(Registry()), SystemClock(), in_thread)
    made.needs_whole = False
    return made


async def _changes(syncer: FamilySyncer, changes: int, generation: int) -> list[float]:
    """Seconds of each change, with a pause between."""
    taken = []
    for index in range(changes):
        part = endpoint_slice(index % SERVICES, generation - index // SERVICES)
        started = time.perf_counter()
        syncer.table.put_slice(part)
        await syncer.sync()
        taken.append(time.perf_counter() - started)
        await asyncio.sleep(0.005)
    return taken


async def _median(call: Callable[[], Awaitable[None]]) -> float:
    taken = []
    for _ in range(20):
        started = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _memory(objects: Objects) -> int:
    """Bytes of the desired table: what it keeps beside the informers' objects."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    table = _table()
    _fill(table, objects)
    table.changes()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before
