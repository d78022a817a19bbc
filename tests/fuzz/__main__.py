"""Fuzz a whole cluster: `python -m tests.fuzz --seconds 60`. Exit code 1 if anything is wrong; the seed that is printed makes the same requests again."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz import allocators
from tests.fuzz.cases import Case, Cases
from tests.fuzz.isolation import enter_own_network
from tests.fuzz.leftovers import Leftovers
from tests.fuzz.piped import fuzz_pipe
from tests.fuzz.target import Cluster
from tests.fuzz.verdicts import is_fault
from tests.fuzz.wire import Answer, Connection

CONNECTIONS = 12
MOST_CPU_SECONDS = 2.0
"""Of the API server for one request."""
MOST_GROWTH = 1.10
"""Memory at the end by that after the first tenth of the requests."""
LEAST_FOR_MEMORY = 100_000
"""Requests from which on memory is judged: before, caches still fill."""
REST_SECONDS = 400.0
"""How long the cluster may take to give memory back: history is kept for five minutes."""
_MOST_TOLD = 20
_QUOTED = re.compile(rb'\\"[^"]*"|[0-9]+')
"""What differs between faults of one sort."""


class Run:
    """One run against one cluster."""

    def __init__(self, cluster: Cluster, seed: int, requests: int, seconds: float) -> None:
        self._cluster = cluster
        self._token = cluster.address.token
        self._cases = Cases(seed, self._token)
        self._left = requests
        self._deadline = time.monotonic() + seconds
        self.sent = 0
        self.codes: Counter[int] = Counter()
        self.faults: list[str] = []
        self._sorts: set[tuple[int, bytes]] = set()
        self._slow: list[Case] = []
        self._memory: list[float] = []
        self._leftovers = Leftovers(cluster.address)

    async def play(self, total: int) -> None:
        """Send requests until there were enough or time is over, then look at what they cost."""
        workers = [asyncio.create_task(self._work()) for _ in range(CONNECTIONS)]
        while not all(worker.done() for worker in workers):
            await asyncio.wait(workers, timeout=1)
            if not self._memory and self.sent >= max(total // 10, LEAST_FOR_MEMORY // 10):
                self._memory = self._cluster.resident_mib()
            if self._cluster.faults() or len(self.faults) > _MOST_TOLD:
                self._left = 0
        await asyncio.gather(*workers)
        self.faults += self._cluster.faults()
        if not self.faults:
            await self._judge_slow()
        if not self.faults and self.sent >= LEAST_FOR_MEMORY:
            await self._judge_memory()

    def _next(self) -> Case | None:
        if self._left <= 0 or time.monotonic() > self._deadline:
            return None
        self._left -= 1
        return self._cases.next()

    async def _work(self) -> None:
        connection = Connection(self._cluster.address)
        before: Case | None = None
        while (case := self._next()) is not None:
            started = time.monotonic()
            try:
                answer = await self._send(connection, case)
            except (TimeoutError, OSError) as error:
                after = f"\n  after {before.shown(self._token)}" if before is not None else ""
                self.faults.append(f"no answer ({type(error).__name__}) to {case.shown(self._token)}{after}")
                await connection.close()
                continue
            before = case if case.is_request else before
            self.sent += 1
            self.codes[answer.code] += 1
            if is_fault(answer, is_head=case.is_head) or (case.is_request and not answer.code):
                self._note(answer, case)
            if time.monotonic() - started > MOST_CPU_SECONDS:
                self._slow.append(case)
        await connection.close()

    def _note(self, answer: Answer, case: Case) -> None:
        """Keep one example of each sort of fault."""
        sort = (answer.code, _QUOTED.sub(b"", answer.body)[:300])
        if sort not in self._sorts:
            self._sorts.add(sort)
            self.faults.append(f"{answer.code} {answer.body[:600]!r}\n  for {case.shown(self._token)}")

    async def _send(self, connection: Connection, case: Case) -> Answer:
        if case.is_request:
            return await connection.ask(case.data, is_head=case.is_head)
        return await connection.send_raw(case.data, case.protocol)

    async def _judge_slow(self) -> None:
        """Requests that took long among others are sent again, alone: what counts is the CPU time of the server."""
        connection = Connection(self._cluster.address)
        for case in self._slow[:_MOST_TOLD]:
            before = self._cluster.cpu_seconds()
            await self._send(connection, case)
            if (cost := self._cluster.cpu_seconds() - before) > MOST_CPU_SECONDS:
                self.faults.append(f"{cost:.1f} s of CPU for {case.shown(self._token)}")
        await connection.close()

    async def _judge_memory(self) -> None:
        """Both processes return to what they had early in the run, once what it has made is deleted."""
        if left := self._leftovers.delete():
            print(f"{len(left)} objects cannot be deleted: {left[:_MOST_TOLD]}")
        deadline, allowed = time.monotonic() + REST_SECONDS, [one * MOST_GROWTH for one in self._memory]
        while True:
            found = self._cluster.resident_mib()
            if all(now <= most for now, most in zip(found, allowed, strict=True)):
                break
            if time.monotonic() > deadline:
                self.faults.append(f"memory grew from {shown(self._memory)} to {shown(found)} MiB")
                return
            await asyncio.sleep(5)
        print(f"memory: {shown(self._memory)} MiB after a tenth of the requests, {shown(found)} at the end")


def shown(memory: list[float]) -> str:
    """Memory of all processes, in MiB."""
    return " + ".join(f"{one:.0f}" for one in memory)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="end after this time (default: %(default)s)")
    parser.add_argument(
        "--requests", type=int, default=1_000_000, help="end after so many requests (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="begin of all chance"
    )
    allocators.add_option(parser)
    options = parser.parse_args()
    environment = allocators.environment(options.allocator)
    print(f"seed {options.seed}, allocator {options.allocator}", flush=True)
    enter_own_network()
    faults = asyncio.run(fuzz_pipe(options.seed, max(options.requests // 20, 100), options.seconds / 10))
    with tempfile.TemporaryDirectory(prefix="bayplan-fuzz-") as directory:
        cluster = Cluster(Path(directory), environment=environment)
        run = Run(cluster, options.seed, options.requests, options.seconds)
        with contextlib.ExitStack() as stack:
            stack.callback(cluster.stop)
            asyncio.run(run.play(options.requests))
        faults += run.faults
    answers = ", ".join(f"{count} x {code or 'none'}" for code, count in sorted(run.codes.items()))
    print(f"{run.sent} requests: {answers}")
    for fault in faults[:_MOST_TOLD]:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults" if faults else "nothing found")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
