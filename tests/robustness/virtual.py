"""Three API servers on a simulated etcd of three members, in virtual time, with faults: one seed is one run, the same each time.

python -m tests.robustness.virtual --seeds 1000 -j 2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.apiserver.etcd_layout import etcd_folders
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.store.errors import StoreError
from bayplan.store.etcd.client import EtcdClient
from bayplan.store.etcd.layout import KeyLayout
from bayplan.store.etcd.settings import EtcdSettings
from bayplan.store.etcd.store import EtcdStore
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from bayplan.testing.etcd.channel import dial
from bayplan.testing.etcd.cluster import SimulatedEtcd
from tests.robustness.checks import Truth, problems_of, shared_problems
from tests.robustness.clients import Client, Informer, prepare
from tests.robustness.history import History, changes_of
from tests.robustness.outcome import Outcome, unhealed

_LAYOUT: Final = KeyLayout("/registry", etcd_folders(DEFAULT_KINDS), root="/registry/")
"""kube-apiserver's."""
_EPOCH: Final = 1_767_323_045.0
_ENDPOINTS: Final = ("etcd-0:2379", "etcd-1:2379", "etcd-2:2379")
_ADMIN: Final = User("admin", ("system:masters", "system:authenticated"))
_REQUEST_SECONDS: Final = 20.0
_HEALING_SECONDS: Final = 90.0
"""Virtual seconds after the last fault within which all must be well again: a dead connection is noticed after 40."""


class Server:
    """An API server process: killed at any moment, and started again."""

    def __init__(self, etcd: SimulatedEtcd, number: int, seed: int) -> None:
        self.name = f"server-{number}"
        self._etcd, self._seed = etcd, seed
        self._lives = 0
        self.clock = LoopClock(_EPOCH)
        """Of its machine: `epoch` can be changed, which only moves the time of day."""
        self._api: ApiServer | None = None
        self._life: asyncio.Task[None] | None = None
        self._killed = asyncio.get_running_loop().create_future()

    @property
    def api(self) -> ApiServer:
        """The server that runs. Raises ConnectionError if none does."""
        if self._api is None or not self._api.ready:
            raise ConnectionError("connection refused")
        return self._api

    @property
    def killed(self) -> asyncio.Future[None]:
        """Done when the server that runs now is killed."""
        return self._killed

    def start(self) -> None:
        """Start it; it is tried again until etcd answers."""
        self._killed = asyncio.get_running_loop().create_future()
        self._life = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> None:
        clock = self.clock
        while True:
            self._lives += 1
            client = EtcdClient(EtcdSettings(endpoints=_ENDPOINTS), clock=clock, dial=dial(self._etcd, self.name))
            store = EtcdStore(client, clock=clock, layout=_LAYOUT, compaction_interval=20.0)
            randomness = SeededRandomness(f"{self._seed} {self.name} {self._lives}")
            api = ApiServer(
                store,
                clock=clock,
                randomness=randomness,
                settings=ApiServerSettings(enable_priority_and_fairness=False),
            )
            try:
                await api.open()
            except (StoreError, ApiError):
                await asyncio.sleep(1.0)
                continue
            self._api = api
            return

    async def kill(self) -> None:
        """End it as a power failure would: nobody gets an answer any more, and nothing more reaches etcd."""
        for endpoint in _ENDPOINTS:
            self._etcd.cut(self.name, endpoint)
        if not self._killed.done():
            self._killed.set_result(None)
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        api, self._api = self._api, None
        if api is not None:
            await api.close()
        for endpoint in _ENDPOINTS:
            self._etcd.mend(self.name, endpoint)


class VirtualApi:
    """See `tests.robustness.clients.Api`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> tuple[int, dict[str, Any]]:
        endpoint = InProcessEndpoint(self._server.api, _ADMIN)
        asked = asyncio.ensure_future(endpoint.call(method, path, query, body, content_type))
        killed = self._server.killed
        await asyncio.wait((asked, killed), timeout=_REQUEST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if killed.done() or not asked.done():
            asked.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise ConnectionError("the connection was closed")
        code, answer = asked.result()
        return code, json.loads(answer)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[list[tuple[str, dict[str, Any]]]]:
        killed = self._server.killed
        response = await InProcessEndpoint(self._server.api, _ADMIN).open(path, query)
        watcher = response.watcher
        if watcher is None:
            yield [("ERROR", {"code": response.code})]
            return
        try:
            while True:
                batch = asyncio.ensure_future(watcher.next_batch())
                await asyncio.wait((batch, killed), return_when=asyncio.FIRST_COMPLETED)
                if killed.done():
                    batch.cancel()
                    raise ConnectionError("the connection was closed")
                found = batch.result()
                if not found:
                    return
                yield [(kind, _tree(kind, entry)) for kind, entry, _ in found]
        finally:
            watcher.close()


def _tree(kind: str, entry: Any) -> dict[str, Any]:
    """The object of an event, as it stands on the wire."""
    if kind == "ERROR":
        return {"code": entry.decoded.code}
    if kind == "BOOKMARK":
        return {"metadata": {"resourceVersion": str(entry.revision)}}
    found: dict[str, Any] = json.loads(b"{" + entry.body)
    return found


class Faults:
    """What goes wrong, by chance: each fault ends some seconds later by itself."""

    def __init__(self, etcd: SimulatedEtcd, servers: list[Server], chance: random.Random) -> None:
        self._etcd, self._servers, self._chance = etcd, servers, chance
        self.log: list[str] = []
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float) -> None:
        """Faults for so long, then their ends."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            await asyncio.sleep(self._chance.uniform(0.2, 5.0))
            await self._one()
        if self._ending:
            await asyncio.wait(self._ending)

    async def _one(self) -> None:
        chance, etcd = self._chance, self._etcd
        member, server = chance.choice(_ENDPOINTS), chance.choice(self._servers)
        kind = chance.choice(
            ("kill", "freeze", "isolate", "cut", "cut", "elect", "compact", "server", "cut off", "clock")
        )
        seconds = chance.choice((chance.uniform(0.1, 3.0), chance.uniform(3.0, 20.0)))
        self.log.append(f"{asyncio.get_running_loop().time():.2f} {kind} {member} {server.name} {seconds:.2f}")
        if kind == "kill" and etcd.members[member].is_up:
            etcd.kill(member)
            self._later(seconds, partial(etcd.start, member))
        elif kind == "freeze":
            etcd.freeze(member)
            self._later(seconds, partial(etcd.thaw, member))
        elif kind == "isolate":
            etcd.isolate(member)
            self._later(seconds, partial(etcd.rejoin, member))
        elif kind == "cut":
            etcd.cut(server.name, member)
            self._later(3 * seconds, partial(etcd.mend, server.name, member))
        elif kind == "cut off":
            for one in _ENDPOINTS:
                etcd.cut(server.name, one)
                self._later(seconds, partial(etcd.mend, server.name, one))
        elif kind == "elect":
            etcd.elect(seconds / 2)
        elif kind == "compact":
            etcd.compact(etcd.state.revision - chance.choice((0, 1, chance.randint(0, 30))))
        elif kind == "clock":
            server.clock.epoch += chance.choice((-1, 1)) * chance.choice((1, 60, 3600)) * seconds
        elif kind == "server":
            await server.kill()
            self._later(seconds, server.start)

    def _later(self, seconds: float, end: Callable[[], None]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            end()

        task = asyncio.get_running_loop().create_task(wait())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def story(seed: int, seconds: float, faulty: bool = True) -> Outcome:
    """One run."""
    loop = asyncio.get_running_loop()
    chance = random.Random(seed)
    etcd = SimulatedEtcd(_ENDPOINTS, random.Random(f"{seed} etcd"))
    servers = [Server(etcd, number, seed) for number in range(3)]
    history = History()
    apis = [VirtualApi(server) for server in servers]
    names = [f"object-{number}" for number in range(chance.randint(2, 8))]
    clients = [
        Client(f"c{number}", apis, history, random.Random(f"{seed} {number}"), names, chance.choice((0.05, 0.3)))
        for number in range(5)
    ]
    informers = [Informer(f"i{number}", apis, history, random.Random(f"{seed} i{number}")) for number in range(3)]
    outcome = Outcome(seed)
    watching: list[asyncio.Task[None]] = []
    try:
        for server in servers:
            server.start()
        await prepare(apis[0])
        watching = [loop.create_task(informer.run()) for informer in informers]
        faults = Faults(etcd, servers, chance)
        work = [client.run(seconds) for client in clients]
        await asyncio.gather(*work, *([faults.run(seconds)] if faulty else []))
        outcome.faults = faults.log
        outcome.problems += await unhealed(apis, history, informers, _HEALING_SECONDS)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        for server in servers:
            await server.kill()
        await etcd.close()
    truth = Truth(changes_of(etcd.state.changes), etcd.commits)
    outcome.problems += problems_of(history, truth)
    outcome.problems += shared_problems(etcd.state.changes)
    outcome.count(history, len(informers))
    return outcome


def outcome_of(seed: int, seconds: float = 40.0, faulty: bool = True) -> Outcome:
    """The outcome of one seed."""
    logging.disable(logging.CRITICAL)
    try:
        return run(story(seed, seconds, faulty))
    finally:
        logging.disable(logging.NOTSET)


def main() -> int:
    """See the module. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40.0, help="virtual seconds of load and faults per seed")
    parser.add_argument("-j", type=int, default=2, dest="processes")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    bad, total = 0, Outcome(0)
    with ProcessPoolExecutor(given.processes) as pool:
        for outcome in pool.map(partial(outcome_of, seconds=given.seconds), seeds, chunksize=4):
            total.add(outcome)
            if outcome.problems:
                bad += 1
                print(
                    f"seed {outcome.seed}: {len(outcome.problems)} problems",
                    *outcome.problems[:5],
                    sep="\n    ",
                    flush=True,
                )
    print(f"{given.seeds} seeds, {bad} with problems: {total}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
