"""The members of a simulated etcd cluster, their network, and what goes wrong with them.

A request travels to a member, is proposed to the quorum, and the answer travels back; each leg takes a while, and each can fail:

    a link is cut          what is on its way waits until the link is whole again, as TCP sends it again; the client's deadline passes meanwhile
    a member is killed     its connections break at once: an answer that was under way is lost, though the change was made
    a member is frozen     it answers nothing until it is thawed
    a member is isolated   its clients reach it, it reaches no other member: it has no leader and hears of nothing
    there is no leader     proposals wait, and are given up after some seconds; some of those are made all the same when there is a leader again

Changes are ordered when the quorum makes them; each member hears of them a moment later.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from bayplan.store.etcd.messages import CLUSTER, KV, LEASE, MAINTENANCE, MESSAGES
from bayplan.support.grpc.errors import RpcError, UnsentError
from bayplan.testing.etcd.state import EtcdState

_PROPOSAL_SECONDS: Final = 5.0
"""Seconds after which a member gives up a proposal that no quorum has taken."""
_TAKEN_ANYWAY: Final = 0.5
"""Share of the changes that are made although they were given up."""
_LEASES_EVERY: Final = 0.5
_CHANGES: Final = frozenset(
    (KV + "Put", KV + "DeleteRange", KV + "Txn", KV + "Compact", LEASE + "LeaseGrant", LEASE + "LeaseRevoke")
)


class Member:
    """One member. `applied`: the revision that it has heard of."""

    def __init__(self, cluster: SimulatedEtcd, endpoint: str) -> None:
        self.endpoint = endpoint
        self.is_up = True
        self.is_frozen = False
        self.is_isolated = False
        self.lives = 1
        """How often it was started."""
        self.applied = cluster.state.revision
        self.on_applied: list[Callable[[int, list[Any]], None]] = []
        """Called with every change when this member hears of it: its streams of watches."""
        self.on_broken: list[Callable[[RpcError], None]] = []
        """Called when all its connections break."""
        self.on_restored: list[Callable[[], None]] = []
        """Called when it was given a snapshot in place of the changes it has missed."""
        self._cluster = cluster
        self._unheard: deque[tuple[float, int, list[Any]]] = deque()
        self._hearing: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether it runs and other members can reach it."""
        return self.is_up and not self.is_frozen and not self.is_isolated

    def hear(self, revision: int, events: list[Any]) -> None:
        """The quorum has made a change."""
        self._unheard.append((self._cluster.due(0.002), revision, events))
        if self._hearing is None or self._hearing.done():
            self._hearing = self._cluster.spawn(self._apply_all())

    async def _apply_all(self) -> None:
        while self._unheard:
            await self._cluster.wait_for(self._unheard[0][0])
            await self._cluster.until(lambda: self.is_connected)
            if not self._unheard:  # a snapshot has come
                break
            _, revision, events = self._unheard.popleft()
            self.applied = revision
            for told in tuple(self.on_applied):
                told(revision, events)

    def take_snapshot(self) -> None:
        """Be as the quorum is now, without having heard of each change."""
        self._unheard.clear()
        self.applied = self._cluster.state.revision
        for told in tuple(self.on_restored):
            told()

    def break_connections(self) -> None:
        """All clients' connections end."""
        self.lives += 1
        for told in tuple(self.on_broken):
            told(RpcError("UNAVAILABLE", "connection reset by peer"))


class SimulatedEtcd:
    """A cluster. It runs on the loop that runs when it is made, until `close`."""

    def __init__(self, endpoints: Sequence[str], chance: random.Random) -> None:
        self.state = EtcdState()
        self.chance = chance
        self.members = {endpoint: Member(self, endpoint) for endpoint in endpoints}
        self.commits: list[tuple[float, int]] = []
        """(loop time, revision) of each change."""
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cut: set[tuple[str, str]] = set()
        self._no_leader_until = 0.0
        self._changed = asyncio.Event()
        self._lease_ends: dict[int, float] = {}
        self.state.on_change.append(self._commit)
        self.spawn(self._expire_leases())

    async def close(self) -> None:
        """End everything."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something that lasts no longer than the cluster."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, RpcError):
            self._loop.call_exception_handler({"message": "the simulated etcd failed", "exception": error})

    def _commit(self, revision: int, events: list[Any]) -> None:
        self.commits.append((self._loop.time(), revision))
        for member in self.members.values():
            member.hear(revision, events)

    # Faults

    def kill(self, endpoint: str) -> None:
        """End a member as a power failure would."""
        member = self.members[endpoint]
        member.is_up = False
        member.break_connections()
        self._tell()

    def start(self, endpoint: str) -> None:
        """Start a member that was killed; what it missed it hears of soon."""
        self.members[endpoint].is_up = True
        self._back(self.members[endpoint])

    def freeze(self, endpoint: str) -> None:
        """Let a member answer nothing."""
        self.members[endpoint].is_frozen = True
        self._tell()

    def thaw(self, endpoint: str) -> None:
        """Let it go on."""
        self.members[endpoint].is_frozen = False
        self._back(self.members[endpoint])

    def isolate(self, endpoint: str) -> None:
        """Cut a member off from the other members."""
        self.members[endpoint].is_isolated = True
        self._tell()

    def rejoin(self, endpoint: str) -> None:
        """Let it reach the others again."""
        self.members[endpoint].is_isolated = False
        self._back(self.members[endpoint])

    def _back(self, member: Member) -> None:
        if member.applied < self.state.compacted and self.chance.random() < 0.5:
            member.take_snapshot()
        self._tell()

    def cut(self, client: str, endpoint: str) -> None:
        """Cut the link between a client and a member."""
        self._cut.add((client, endpoint))

    def mend(self, client: str, endpoint: str) -> None:
        """Make the link whole."""
        self._cut.discard((client, endpoint))
        self._tell()

    def elect(self, seconds: float) -> None:
        """Have no leader for so many seconds."""
        self._no_leader_until = max(self._no_leader_until, self._loop.time() + seconds)
        self._loop.call_later(seconds + 0.001, self._tell)

    def compact(self, revision: int) -> None:
        """Forget what was before a revision, as an operator does."""
        if self.state.compacted < revision <= self.state.revision:
            self.state.compact(MESSAGES["CompactionRequest"](revision=revision))

    def _tell(self) -> None:
        """Something about the members or links has changed."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # Time and network

    def due(self, mean: float) -> float:
        """The loop time at which something comes that is sent now: some time later by chance, now and then much more than the mean."""
        seconds = self.chance.expovariate(1 / mean)
        return self._loop.time() + (seconds * 50 if self.chance.random() < 0.01 else seconds)

    async def wait_for(self, time: float) -> None:
        """Return when the loop time has come, which may be passed."""
        if (left := time - self._loop.time()) > 0:
            await asyncio.sleep(left)

    async def pause(self, mean: float) -> None:
        """Pass some time by chance."""
        await self.wait_for(self.due(mean))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition on members and links holds."""
        while not condition():
            await self._changed.wait()

    def has_leader(self, member: Member) -> bool:
        """Whether a member takes part in a quorum that has a leader."""
        connected = sum(one.is_connected for one in self.members.values())
        return member.is_connected and 2 * connected > len(self.members) and self._loop.time() >= self._no_leader_until

    def is_cut(self, client: str, endpoint: str) -> bool:
        """Whether nothing passes between a client and a member."""
        return (client, endpoint) in self._cut

    async def travel(self, client: str, member: Member, life: int, due: float | None = None) -> None:
        """Pass a link in either direction. due: the loop time at which it is passed, if it is whole then. Raises RpcError if the member does not live any more."""
        await self.wait_for(self.due(0.001) if due is None else due)
        await self.until(lambda: not self.is_cut(client, member.endpoint))
        if not member.is_up or member.lives != life:
            raise RpcError("UNAVAILABLE", "connection reset by peer")

    async def exchange(self, client: str, endpoint: str, method: str, request: Any) -> Any:
        """A unary call, there and back. Raises RpcError."""
        member = self.members[endpoint]
        if not member.is_up:
            await self.pause(0.001)
            raise UnsentError("UNAVAILABLE", "connection refused")
        life = member.lives
        await self.travel(client, member, life)
        await self.until(lambda: not member.is_frozen)
        response = await self._serve(member, method, request)
        await self.travel(client, member, life)
        return response

    async def _serve(self, member: Member, method: str, request: Any) -> Any:
        if method not in _CHANGES and not method.startswith(KV):
            return self._of_member(member, method)
        if not self.has_leader(member):
            try:
                async with asyncio.timeout(_PROPOSAL_SECONDS):
                    await self.until(lambda: self.has_leader(member) or not member.is_up)
            except TimeoutError:
                if method in _CHANGES and self.chance.random() < _TAKEN_ANYWAY:
                    self.spawn(self._make_later(member, method, request))
                raise RpcError("UNAVAILABLE", "etcdserver: request timed out") from None
            if not member.is_up:
                raise RpcError("UNAVAILABLE", "connection reset by peer")
        return self._make(method, request)

    async def _make_later(self, member: Member, method: str, request: Any) -> None:
        """A change that was given up reaches the quorum all the same."""
        await self.until(lambda: self.has_leader(member))
        self._make(method, request)

    def _make(self, method: str, request: Any) -> Any:
        """What the quorum does. Raises RpcError."""
        state = self.state
        if method == LEASE + "LeaseGrant":
            response = state.grant(request)
            self._lease_ends[response.id] = self._loop.time() + response.ttl
            return response
        if method == LEASE + "LeaseRevoke":
            return state.revoke(request.id)
        answers = {
            KV + "Range": state.range,
            KV + "Put": state.put,
            KV + "DeleteRange": state.delete_range,
            KV + "Txn": state.transaction,
            KV + "Compact": state.compact,
        }
        return answers[method](request)

    def _of_member(self, member: Member, method: str) -> Any:
        if method == MAINTENANCE + "Status":
            return MESSAGES["StatusResponse"](
                header=self.state.header(), version="3.5.21", leader=1 if self.has_leader(member) else 0
            )
        if method == MAINTENANCE + "Alarm":
            return MESSAGES["AlarmResponse"](header=self.state.header())
        if method == CLUSTER + "MemberList":
            members = [MESSAGES["Member"](name=endpoint) for endpoint in self.members]
            return MESSAGES["MemberListResponse"](header=self.state.header(), members=members)
        raise RpcError("UNIMPLEMENTED", f"unknown method {method}")

    async def _expire_leases(self) -> None:
        while True:
            await asyncio.sleep(_LEASES_EVERY)
            if not any(self.has_leader(member) for member in self.members.values()):
                continue
            now = self._loop.time()
            for lease, ends in list(self._lease_ends.items()):
                if lease not in self.state.leases:
                    del self._lease_ends[lease]
                elif ends <= now:
                    del self._lease_ends[lease]
                    self.state.revoke(lease)
