"""What goes wrong in a real installation, by chance: each fault ends some seconds later by itself.

One member of etcd at most is away at any time, and two API servers: so there is always somebody who can answer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from bayplan.store.etcd.errors import EtcdError
from tests.robustness.real.clients import Observer
from tests.robustness.real.installation import FAKE_CLOCKS, Installation, Member, Server, etcd_members, etcdctl, insist
from tests.robustness.real.machines import HUB

_MEMBER_FAULTS: Final = (
    "kill",
    "kill",
    "freeze",
    "isolate",
    "part",
    "full disk",
    "slow disk",
    "stalled disk",
    "replace",
)
_CLOCK_FAULTS: Final = ("step clock",) if FAKE_CLOCKS else ()
_SERVER_FAULTS: Final = (
    "kill server",
    "kill server",
    "freeze server",
    "isolate server",
    "cut",
    "cut off",
    *_CLOCK_FAULTS,
)
_LARGEST_STEP: Final = 3600
"""Seconds."""
_OTHER_FAULTS: Final = ("compact", "defragment", "elect")
KINDS: Final = tuple(dict.fromkeys((*_MEMBER_FAULTS, *_SERVER_FAULTS, *_OTHER_FAULTS)))


class Faults:
    """See the module. `kills`: when a process was killed while all others were well."""

    def __init__(
        self, installation: Installation, observer: Observer, chance: random.Random, kinds: tuple[str, ...] = KINDS
    ) -> None:
        self._installation, self._observer, self._chance = installation, observer, chance
        self._kinds = kinds
        self._running: dict[str, asyncio.Task[None]] = {}
        """What is not over, by what is concerned: members, or a server."""
        self.log: list[str] = []
        self.kills: list[tuple[float, float, str]] = []
        """(when, when the next fault began, what) of each kill that found all others well."""

    async def run(self, seconds: float) -> None:
        """Faults for so long, then their ends. Raises what a fault raised that could not be made."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            await self._begin_one()
            await asyncio.sleep(self._chance.uniform(0.2, 4.0))
            self._collect()
            self._restart_ended()
        await asyncio.gather(*self._running.values())
        self._running.clear()
        self._restart_ended()

    def _collect(self) -> None:
        for concerned, task in list(self._running.items()):
            if task.done():
                del self._running[concerned]
                task.result()

    def _restart_ended(self) -> None:
        """Start servers again that gave up, because etcd did not answer while they started: a service manager would."""
        for server in self._installation.servers:
            if server.machine.name not in self._running and not server.machine.is_up:
                self.log.append(
                    f"{asyncio.get_running_loop().time():.2f} {server.machine.name} has given up, and is started again"
                )
                server.start()

    async def _begin_one(self) -> None:
        chance = self._chance
        kind = chance.choice(
            [each for each in (*_MEMBER_FAULTS, *_SERVER_FAULTS, *_OTHER_FAULTS) if each in self._kinds]
        )
        seconds = chance.choice((chance.uniform(0.1, 2.0), chance.uniform(2.0, 8.0)))
        member, server = chance.choice(self._installation.members), chance.choice(self._installation.servers)
        if kind in _SERVER_FAULTS:
            concerned, what = server.machine.name, self._of_server(kind, server, member, seconds)
        elif kind in _MEMBER_FAULTS:
            concerned, what = "members", self._of_member(kind, member, seconds)
        else:
            concerned, what = "members", self._of_cluster(kind)
        servers = self._running.keys() - {"members"}
        if concerned in self._running or (concerned != "members" and len(servers) > 1):
            what.close()
            return
        now, described = asyncio.get_running_loop().time(), f"{kind} {member.name} {server.machine.name} {seconds:.2f}"
        self.log.append(f"{now:.2f} {described}")
        if self.kills and self.kills[-1][1] == float("inf"):
            self.kills[-1] = (self.kills[-1][0], now, self.kills[-1][2])
        if kind.startswith("kill") and not self._running:
            self.kills.append((now, float("inf"), described))
        self._running[concerned] = asyncio.create_task(what)

    async def _of_member(self, kind: str, member: Member, seconds: float) -> None:
        installation, machine = self._installation, member.machine
        others = [one.machine.address for one in installation.members if one is not member]
        if kind == "kill":
            machine.kill()
            await asyncio.sleep(seconds)
            installation.restart(member)
        elif kind == "freeze":
            await self._for(seconds, machine.freeze, machine.thaw)
        elif kind == "isolate":
            everybody = [*others, HUB, *(server.machine.address for server in installation.servers)]
            await self._for(seconds, lambda: machine.cut(everybody), machine.mend)
        elif kind == "part":  # from one of the others
            await self._for(seconds, lambda: machine.cut(others[:1]), machine.mend)
        elif kind == "full disk":
            await self._for(seconds, member.disk.fill, member.disk.empty)
            installation.restart(member)
        elif kind == "stalled disk":
            await self._for(seconds, member.disk.stall, member.disk.go_on)
        elif kind == "slow disk":
            for _ in range(int(seconds / 0.12)):
                await self._for(0.1, member.disk.stall, member.disk.go_on)
                await asyncio.sleep(0.02)
        else:
            await installation.replace(member)
        await self._until_whole()

    async def _of_server(self, kind: str, server: Server, member: Member, seconds: float) -> None:
        machine, members = server.machine, [one.machine.address for one in self._installation.members]
        if kind == "kill server":
            machine.kill()
            await asyncio.sleep(seconds)
            server.start()
        elif kind == "freeze server":
            await self._for(seconds, machine.freeze, machine.thaw)
        elif kind == "isolate server":
            await self._for(seconds, lambda: machine.cut([HUB, *members]), machine.mend)
        elif kind == "step clock":
            step = self._chance.randint(-_LARGEST_STEP, _LARGEST_STEP)
            await self._for(3 * seconds, lambda: server.step_clock(step), lambda: server.step_clock(0))
        elif kind == "cut":
            await self._for(3 * seconds, lambda: machine.cut([member.machine.address]), machine.mend)
        else:
            await self._for(seconds, lambda: machine.cut(members), machine.mend)

    async def _of_cluster(self, kind: str) -> None:
        client = self._observer.client
        if kind == "compact":  # no further than what the observer has heard, which would not know the truth otherwise
            behind = self._chance.choice((0, 0, self._chance.randint(0, 30)))
            await self._ask(lambda: client.compact(self._observer.revision - behind))
        elif kind == "defragment":
            await self._ask(client.defragment)
        else:
            endpoints = ",".join(one.endpoint for one in self._installation.members)
            await asyncio.to_thread(insist, partial(_move_leader, endpoints, self._chance))

    @staticmethod
    async def _for(seconds: float, begin: Callable[[], None], end: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(begin)
            await asyncio.sleep(seconds)
        finally:
            await asyncio.to_thread(end)

    @staticmethod
    async def _ask(request: Callable[[], Awaitable[None]]) -> None:
        """Ask etcd, which may refuse: it was compacted there before."""
        try:
            await request()
        except EtcdError as error:
            if "compacted" not in str(error):
                raise

    async def _until_whole(self) -> None:
        """Return when all members answer: only then another one may go away. Those that have ended for want of a disk are started again."""
        for member in self._installation.members:
            await asyncio.to_thread(insist, partial(self._ask_member, member))

    def _ask_member(self, member: Member) -> None:
        self._installation.restart(member)
        etcdctl(member.endpoint, "get", "any", seconds=5)


def _move_leader(endpoints: str, chance: random.Random) -> None:
    """Make another member the leader."""
    status = etcdctl(endpoints, "endpoint", "status", "--write-out=fields").splitlines()
    leader = next(int(line.partition(":")[2]) for line in status if "Leader" in line)
    others = [identity for identity, *_ in etcd_members(endpoints) if int(identity, 16) != leader]
    etcdctl(endpoints, "move-leader", chance.choice(others))
