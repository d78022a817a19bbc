"""Questions about names outside of the cluster: whom to ask, how often, and what to believe. Sockets are behind `Exchange`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from bayplan.dns.errors import UnresolvedError
from bayplan.dns.metrics import DnsMetrics
from bayplan.dns.settings import DnsSettings, Server
from bayplan.dns.wire import Message, Name, Rcode, answers, is_truncated, make_upstream_query, parse_response
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness

logger = logging.getLogger(__name__)

_AVOIDED_SECONDS: Final = 5.0
"""How long a server that has not answered is asked last."""
_TRY_ANOTHER: Final = (Rcode.SERVFAIL, Rcode.REFUSED, Rcode.NOTIMP)

Accept = Callable[[bytes], bool]


class Exchange(Protocol):
    """Sends a query to a server and returns the first message from there that `accept` takes. Raises OSError.

    It waits until it is cancelled; messages that are not accepted are passed over, as anyone can send them.
    """

    async def udp(self, server: Server, query: bytes, accept: Accept) -> bytes:
        """From a socket, and so a source port, of its own."""

    async def tcp(self, server: Server, query: bytes, accept: Accept) -> bytes:
        """Over a new connection."""


@dataclass(frozen=True, slots=True)
class UpstreamQuestion:
    """A question for other servers. Equal questions that wait at the same time are asked once."""

    name: Name
    kind: int
    dnssec_ok: bool
    checking_disabled: bool


class Forwarder:
    """Asks upstream servers, one after the other.

    A loop (a server that sends our own question back to us) is bounded: the question that comes back is equal to one that waits, and waits with it until
    the time is over.
    """

    def __init__(
        self, settings: DnsSettings, exchange: Exchange, *, clock: Clock, randomness: Randomness, metrics: DnsMetrics
    ) -> None:
        self._settings = settings
        self._exchange = exchange
        self._clock = clock
        self._randomness = randomness
        self._metrics = metrics
        self._pending: dict[UpstreamQuestion, asyncio.Task[Message]] = {}
        self._waiting = 0
        self._avoided: dict[Server, float] = {}
        """Server -> monotonic time until which it is asked last."""

    async def resolve(self, question: UpstreamQuestion) -> Message:
        """The response of an upstream server, whatever its code. Raises UnresolvedError."""
        task = self._pending.get(question)
        if self._waiting >= self._settings.max_waiting or (
            task is None and len(self._pending) >= self._settings.max_concurrent
        ):
            self._metrics.rejects.inc()
            raise UnresolvedError(
                f"{self._waiting} clients with {len(self._pending)} questions wait for upstream servers already"
            )
        if task is None:
            task = asyncio.create_task(self._ask(question), name=f"dns question {question.name}")
            self._pending[question] = task
            task.add_done_callback(lambda _: self._pending.pop(question))
        self._waiting += 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise UnresolvedError("the server stops") from None
            raise
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Give up all questions that wait."""
        tasks = list(self._pending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, question: UpstreamQuestion) -> Message:
        deadline = self._clock.monotonic() + self._settings.total_seconds
        refusal: Message | None = None
        for server in self._order():
            seconds = min(self._settings.attempt_seconds, deadline - self._clock.monotonic())
            if seconds <= 0:
                break
            started = self._clock.monotonic()
            try:
                async with asyncio.timeout(seconds):
                    response = parse_response(await self._ask_one(server, question))
            except (OSError, ValueError) as error:  # TimeoutError is an OSError
                self._failed(server, question, error)
                continue
            code = response.rcode()
            self._metrics.upstream(str(server), code.name).observe(self._clock.monotonic() - started)
            if code not in _TRY_ANOTHER:
                self._avoided.pop(server, None)
                return response
            refusal = response
        if refusal is not None:
            return refusal
        raise UnresolvedError(f"no upstream server has answered for {question.name}")

    async def _ask_one(self, server: Server, question: UpstreamQuestion) -> bytes:
        identity = int(self._randomness.uuid4()[:4], 16)  # of the operating system's randomness: hard to guess
        query = make_upstream_query(
            question.name,
            question.kind,
            identity,
            dnssec_ok=question.dnssec_ok,
            checking_disabled=question.checking_disabled,
        )

        def accept(response: bytes) -> bool:
            return answers(query, response)

        response = await self._exchange.udp(server, query, accept)
        if is_truncated(response):
            response = await self._exchange.tcp(server, query, accept)
        return response

    def _order(self) -> list[Server]:
        """Servers in the order in which they are asked: those that have failed lately last, a single one twice."""
        servers = list(self._settings.forward)
        self._randomness.shuffle(servers)
        now = self._clock.monotonic()
        servers.sort(key=lambda one: self._avoided.get(one, 0.0) > now)
        return servers * 2 if len(servers) == 1 else servers

    def _failed(self, server: Server, question: UpstreamQuestion, error: Exception) -> None:
        logger.info("upstream %s, question %s: %s", server, question.name, error or type(error).__name__)
        self._metrics.upstream_failure(str(server)).inc()
        self._avoided[server] = self._clock.monotonic() + _AVOIDED_SECONDS
