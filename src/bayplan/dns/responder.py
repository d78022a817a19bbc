"""From a query's bytes to its answer's bytes: cache, zone, other servers, in this order."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bayplan.dns.answer_cache import CachedAnswer
from bayplan.dns.errors import UnresolvedError
from bayplan.dns.forwarder import Forwarder, UpstreamQuestion
from bayplan.dns.listener_context import ListenerContext
from bayplan.dns.lookups import Lookups
from bayplan.dns.metrics import DROPPED, DnsMetrics
from bayplan.dns.records import Lookup, Record, RecordType
from bayplan.dns.settings import DnsSettings
from bayplan.dns.wire import (
    Name,
    Query,
    Rcode,
    RefusedQuery,
    canonical_query,
    header_only,
    lifetime,
    parse_name,
    parse_query,
    render,
)
from bayplan.dns.zone import address_key
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Counter

logger = logging.getLogger(__name__)

Answer = bytes | Coroutine[Any, Any, bytes] | None
"""At once, or when another server has answered, or never: nothing is sent for what is no query."""
_ELSEWHERE: Final = "."
"""The zone, in metrics, of what other servers answer."""
_SHOWN: Final = 512
"""Bytes of a query that are logged."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A query under way: where it came in, when (monotonic seconds), and under which bytes its answer is kept."""

    context: ListenerContext
    query: Query
    key: bytes
    started: float


class Responder:
    """Answers queries. synced: whether the zone is complete; until then, what it does not have may yet come."""

    def __init__(
        self,
        lookups: Lookups,
        forwarder: Forwarder | None,
        settings: DnsSettings,
        *,
        synced: Callable[[], bool],
        clock: Clock,
        metrics: DnsMetrics,
    ) -> None:
        self._lookups = lookups
        self._forwarder = forwarder
        self._settings = settings
        self._synced = synced
        self._clock = clock
        self._metrics = metrics
        self._zone = settings.domain + "."
        self._domain = tuple(settings.domain.split("."))
        self._contexts: list[ListenerContext] = []
        self._changes = 0
        """How often the zone has changed."""

    def listener_context(self, server: str, proto: str, family: str) -> ListenerContext:
        """A context for one listener, see ListenerContext."""
        context = ListenerContext(self._metrics, server, proto, family, self._settings.cache_entries)
        self._contexts.append(context)
        return context

    def zone_changed(self, changed: Sequence[str]) -> None:
        """Forget answers that depend on one of these keys of the zone."""
        self._changes += 1
        for context in self._contexts:
            context.cache.invalidate(changed)

    def answer(self, context: ListenerContext, data: bytes) -> Answer:
        """The answer to whatever a client has sent. It does not raise; what it returns to be awaited may, see `internal_error`."""
        started = self._clock.monotonic()
        cached = self._cached(context, data, started)
        if cached is not None:
            return cached
        try:
            return self._look_up(context, data, started)
        except RefusedQuery as refused:
            return self._refused(context, refused)
        except Exception:
            return self.internal_error(data)

    def _cached(self, context: ListenerContext, data: bytes, started: float) -> bytes | None:
        found = context.cache.reply(data, started)
        if found is None:
            return None
        message, answer = found
        for counter in answer.counters:
            counter.inc()
        answer.duration.observe(self._clock.monotonic() - started)
        return message

    def _look_up(self, context: ListenerContext, data: bytes, started: float) -> Answer:
        query = parse_query(data, stream=context.stream)
        key = canonical_query(query, data)
        if key is not data:
            cached = self._cached(context, key, started)
            if cached is not None:
                return cached
        context.misses.inc()
        request = _Request(context, query, key, started)
        labels = query.labels
        if labels[-len(self._domain) :] == self._domain:
            return self._from_zone(request, self._lookups.find(labels[: -len(self._domain)], query.kind))
        address = reverse_address(labels)
        if address and query.kind == RecordType.PTR:
            found = self._lookups.reverse(address)
            if found is not None:
                return self._from_zone(request, found)
        if self._forwarder is None:
            return self._fail(request, Rcode.REFUSED, _ELSEWHERE)
        depends = (address_key(address),) if address else ()
        return self._forward(request, self._forwarder, _upstream_question(query, query.name), (), depends)

    def _from_zone(self, request: _Request, found: Lookup) -> Answer:
        """The answer to a name of the cluster."""
        if found.alias and self._forwarder is not None:
            question = _upstream_question(request.query, parse_name(found.alias))
            return self._forward(request, self._forwarder, question, found.answer, found.depends)
        negative = _is_negative(found, request.query.kind)
        if negative and not self._synced():
            return self._fail(request, Rcode.SERVFAIL, self._zone)
        rcode = Rcode.NOERROR if found.exists else Rcode.NXDOMAIN
        message = render(
            request.query,
            rcode,
            found.answer,
            (self._lookups.soa(),) if negative else (),
            found.additional,
            authoritative=True,
            recursion=self._forwarder is not None,
        )
        counters = self._count(request, rcode, self._zone, "kubernetes")
        if found.cacheable:
            self._keep(request, message, found.depends, counters, self._zone, denial=negative)
        return message

    async def _forward(
        self,
        request: _Request,
        forwarder: Forwarder,
        question: UpstreamQuestion,
        aliases: tuple[Record, ...],
        depends: tuple[str, ...],
    ) -> bytes:
        """The answer of an upstream server, behind our own aliases."""
        zone, changes = self._zone if aliases else _ELSEWHERE, self._changes
        try:
            response = await forwarder.resolve(question)
        except UnresolvedError as error:
            logger.info("%s", error)
            return self._fail(request, Rcode.SERVFAIL, zone)
        rcode = response.rcode()
        if rcode > Rcode.YXRRSET and request.query.message.edns < 0:
            rcode = Rcode.SERVFAIL  # codes above 15 need EDNS, and those above 7 make no sense here
        message = render(request.query, rcode, aliases, authoritative=bool(aliases), recursion=True, upstream=response)
        counters = self._count(request, rcode, zone, "forward")
        seconds = min((lifetime(response, question.kind), self._settings.cache_seconds, *(one.ttl for one in aliases)))
        outdated = bool(depends) and changes != self._changes
        if seconds and not outdated:
            self._keep(request, message, depends, counters, zone, denial=not response.answer, seconds=seconds)
        return message

    def _keep(
        self,
        request: _Request,
        message: bytes,
        depends: Sequence[str],
        counters: Sequence[Counter],
        zone: str,
        *,
        denial: bool,
        seconds: int | None = None,
    ) -> None:
        """Put an answer into the cache. seconds: for so long; None: until something changes that it depends on."""
        answer = CachedAnswer(
            message,
            depends,
            counters=(*counters, request.context.hits(zone, denial=denial)),
            duration=request.context.duration(zone),
            stored=self._clock.monotonic(),
            lifetime=seconds,
        )
        request.context.cache.put(request.key, answer, message)

    def _fail(self, request: _Request, rcode: Rcode, zone: str) -> bytes:
        """An answer without records, which is not kept."""
        self._count(request, rcode, zone, "")
        return render(request.query, rcode, recursion=self._forwarder is not None)

    def _count(self, request: _Request, rcode: Rcode, zone: str, plugin: str) -> tuple[Counter, ...]:
        counters = request.context.counters(zone, request.query.kind, rcode.name, plugin)
        for counter in counters:
            counter.inc()
        request.context.duration(zone).observe(self._clock.monotonic() - request.started)
        return counters

    def _refused(self, context: ListenerContext, refused: RefusedQuery) -> bytes | None:
        if refused.response is None:
            self._metrics.invalid.inc()
        else:
            for counter in context.counters(DROPPED, 0, refused.rcode.name, ""):
                counter.inc()
        return refused.response

    def internal_error(self, data: bytes) -> bytes:
        """The answer to a query that has met a fault of ours: call it while the exception is handled."""
        logger.exception("a query cannot be answered: %s", data[:_SHOWN].hex())
        self._metrics.panics.inc()
        return header_only(data, Rcode.SERVFAIL)


def reverse_address(labels: Sequence[str]) -> str:
    """The address that a name below in-addr.arpa or ip6.arpa spells in full; "" if it spells none (RFC 1035, 3596)."""
    digits = labels[-3::-1]
    try:
        match labels[-2:], len(digits):
            case ["in-addr", "arpa"], 4:
                return str(ipaddress.IPv4Address(".".join(digits)))
            case ["ip6", "arpa"], 32 if all(len(one) == 1 for one in digits):
                return str(ipaddress.IPv6Address(int("".join(digits), 16)))
    except ValueError:
        pass
    return ""


def _is_negative(found: Lookup, kind: int) -> bool:
    """Whether a look-up has ended without what was asked for, which the SOA record says then (RFC 2308)."""
    if found.alias:
        return False
    return not found.exists or not any(kind == RecordType.CNAME or one.type != RecordType.CNAME for one in found.answer)


def _upstream_question(query: Query, name: Name) -> UpstreamQuestion:
    """The question for other servers that a client's query is."""
    return UpstreamQuestion(name.canonicalize(), query.kind, query.dnssec_ok, query.checking_disabled)
