"""Messages: the only module that knows dnspython. Bytes to queries, records to bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

try:
    import dns.exception
    import dns.flags
    import dns.message
    import dns.name
    import dns.opcode
    import dns.rcode
    import dns.rdata
    import dns.rdataclass
    import dns.rdatatype
    import dns.rdtypes.ANY.SOA
    import dns.rdtypes.ANY.TXT
    import dns.rdtypes.IN.A
    import dns.rdtypes.IN.AAAA
    import dns.rdtypes.IN.SRV
    import dns.rrset
except ImportError as error:
    raise ImportError(
        f"the DNS server needs a package that is not installed ({error}): pip install 'bayplan[dns]'"
    ) from error

from bayplan.dns.records import Record, RecordType
from bayplan.support.memory.memo import memoized

Message = dns.message.Message
Name = dns.name.Name
Rcode = dns.rcode.Rcode

HEADER: Final = 12
"""Bytes of a message's header (RFC 1035, 4.1.1)."""
PAYLOAD: Final = 1232
"""Largest UDP message that is sent, and offered by EDNS: it is not fragmented on any usual network (DNS flag day 2020)."""
LONGEST_QUERY: Final = 4096
"""Longer queries are refused unread: they cost time and no client sends them."""
_MOST_ADDITIONAL: Final = 2
"""Records that a query may carry: OPT and a signature. A thousand of them would cost milliseconds."""
_CLASSIC: Final = 512
_STREAM: Final = 65_535
_RESPONSE: Final = 0x80
"""The bit of the third byte that tells responses from queries."""
_A: Final[Any] = dns.rdtypes.IN.A.A  # these constructors have no types
_AAAA: Final[Any] = dns.rdtypes.IN.AAAA.AAAA
_SRV: Final[Any] = dns.rdtypes.IN.SRV.SRV
_SOA: Final[Any] = dns.rdtypes.ANY.SOA.SOA
_TRANSFERS: Final = (dns.rdatatype.AXFR, dns.rdatatype.IXFR)


class RefusedQuery(Exception):
    """A query that is not looked up. `response` is what its sender gets; None for what must not be answered at all."""

    def __init__(self, rcode: Rcode, response: bytes | None) -> None:
        super().__init__(rcode.name)
        self.rcode = rcode
        self.response = response


@dataclass(frozen=True, slots=True)
class Query:
    """A query with one question of class IN."""

    message: Message
    name: dns.name.Name
    kind: int
    """Number of the record type."""
    labels: tuple[str, ...]
    """The name in lower case, leftmost first; bytes above 127 are escaped, so that they equal no name of the zone."""
    limit: int
    """Bytes that the answer may have."""

    @property
    def dnssec_ok(self) -> bool:
        """The DO bit."""
        return bool(self.message.ednsflags & dns.flags.DO)

    @property
    def checking_disabled(self) -> bool:
        """The CD bit."""
        return bool(self.message.flags & dns.flags.CD)


def parse_query(data: bytes, *, stream: bool) -> Query:
    """Read a query. Raises RefusedQuery for everything that is none (RFC 1035, 6891; transfers are not given)."""
    if len(data) < HEADER or data[2] & _RESPONSE:
        raise RefusedQuery(Rcode.FORMERR, None)
    opcode = data[2] >> 3 & 15
    if opcode != dns.opcode.QUERY:
        raise RefusedQuery(Rcode.NOTIMP, header_only(data, Rcode.NOTIMP))
    questions, answered, authorities, additionals = struct.unpack_from("!4H", data, 4)
    if len(data) > LONGEST_QUERY or questions != 1 or answered or authorities > 1 or additionals > _MOST_ADDITIONAL:
        raise RefusedQuery(Rcode.FORMERR, header_only(data, Rcode.FORMERR))
    try:
        message = dns.message.from_wire(data)
    except (dns.exception.DNSException, ValueError, NotImplementedError) as error:
        raise RefusedQuery(Rcode.FORMERR, header_only(data, Rcode.FORMERR)) from error
    question = message.question[0]
    limit = _STREAM if stream else _udp_limit(message)
    query = Query(message, question.name, int(question.rdtype), _labels(question.name), limit)
    if message.edns > 0:
        raise RefusedQuery(Rcode.BADVERS, render(query, Rcode.BADVERS))
    if question.rdclass != dns.rdataclass.IN or question.rdtype in _TRANSFERS:
        raise RefusedQuery(Rcode.REFUSED, render(query, Rcode.REFUSED))
    return query


def header_only(data: bytes, rcode: Rcode) -> bytes:
    """An answer to what cannot be read: its id, opcode and RD, and nothing else."""
    return data[:2] + bytes((_RESPONSE | data[2] & 0x79, int(rcode) & 15)) + bytes(8)


def render(
    query: Query,
    rcode: Rcode,
    answer: Iterable[Record] = (),
    authority: Iterable[Record] = (),
    additional: Iterable[Record] = (),
    *,
    authoritative: bool = False,
    recursion: bool = False,
    upstream: Message | None = None,
) -> bytes:
    """The answer to a query, cut (with TC set) to what its sender takes. upstream: a message whose sections are added."""
    response = _response(query, rcode, authoritative=authoritative, recursion=recursion)
    response.answer = [_rrset(one, query.name) for one in answer]
    response.authority = [_rrset(one, query.name) for one in authority]
    response.additional = [_rrset(one, query.name) for one in additional]
    if upstream is not None:
        response.answer += upstream.answer
        response.authority += upstream.authority
        response.additional += upstream.additional
        response.flags |= upstream.flags & dns.flags.AD
    return response.to_wire(max_size=query.limit, prefer_truncation=True)


def canonical_query(query: Query, data: bytes) -> bytes:
    """The query as it would be without EDNS options, which are for this hop and change no answer (cookies, padding, ...)."""
    if not query.message.options:
        return data
    plain = dns.message.Message(id=query.message.id)
    plain.flags = query.message.flags
    plain.question = query.message.question
    plain.use_edns(0, query.message.ednsflags, query.message.payload)
    return plain.to_wire()


def make_upstream_query(
    name: dns.name.Name, kind: int, identity: int, *, dnssec_ok: bool, checking_disabled: bool
) -> bytes:
    """A query of our own for an upstream server."""
    message = dns.message.Message(id=identity)
    message.flags = dns.flags.RD | (dns.flags.CD if checking_disabled else 0)
    message.question = [dns.rrset.RRset(name, dns.rdataclass.IN, dns.rdatatype.RdataType.make(kind))]
    message.use_edns(0, dns.flags.DO if dnssec_ok else 0, PAYLOAD)
    return message.to_wire()


def answers(query: bytes, response: bytes) -> bool:
    """Whether a message is the response to our query: same id, and the same question but for the case."""
    end = question_end(query)
    return (
        len(response) >= end
        and response[:2] == query[:2]
        and bool(response[2] & _RESPONSE)
        and response[4:6] == b"\0\1"
        and response[HEADER : end - 4].lower() == query[HEADER : end - 4].lower()
        and response[end - 4 : end] == query[end - 4 : end]
    )


def is_truncated(response: bytes) -> bool:
    """Whether TC is set."""
    return bool(response[2] & 2)


def parse_response(response: bytes) -> Message:
    """Read what an upstream server has sent, each record as a set of its own. Raises ValueError if it cannot be read."""
    try:
        return dns.message.from_wire(response, one_rr_per_rrset=True)
    except (dns.exception.DNSException, ValueError, NotImplementedError) as error:
        raise ValueError(f"a malformed response: {error}") from error


def question_end(data: bytes) -> int:
    """Where the question of a message ends that has a plain, uncompressed one."""
    return data.index(0, HEADER) + 5


def lifetime(message: Message, kind: int) -> int:
    """Seconds that a response to a question of a type may be kept; 0 for failures and negative answers without a SOA (RFC 2308)."""
    if message.rcode() not in (Rcode.NOERROR, Rcode.NXDOMAIN) or message.flags & dns.flags.TC:
        return 0
    lifetimes = [int(one.ttl) for one in (*message.answer, *message.authority)]
    if not any(kind in (one.rdtype, dns.rdatatype.ANY) for one in message.answer):
        minima = [one[0].minimum for one in message.authority if one.rdtype == dns.rdatatype.SOA]
        if not minima:
            return 0
        lifetimes += minima
    return min(lifetimes, default=0)


def parse_name(text: str) -> dns.name.Name:
    """A name from its usual form, without the final dot."""
    return dns.name.from_text(text)


def ttl_offsets(message: bytes) -> tuple[int, ...]:
    """Where the TTLs of a message's records are; not that of OPT, which is none."""
    found = []
    records = sum(struct.unpack_from("!HHH", message, 6))
    position = question_end(message)
    for _ in range(records):
        position = _skip_name(message, position)
        kind, length = struct.unpack_from("!H6xH", message, position)
        if kind != dns.rdatatype.OPT:
            found.append(position + 4)
        position += 10 + length
    return tuple(found)


def aged(message: bytes, offsets: Sequence[int], seconds: int) -> bytes:
    """A message whose TTLs are shorter by so many seconds."""
    changed = bytearray(message)
    for offset in offsets:
        (ttl,) = struct.unpack_from("!I", changed, offset)
        struct.pack_into("!I", changed, offset, max(0, ttl - seconds))
    return bytes(changed)


def rotations(message: bytes, most: int = 16) -> tuple[bytes, ...]:
    """A message whose addresses come in several orders, so that clients that take the first one spread over all (CoreDNS' `loadbalance`).

    Only messages whose answers are all of one address type and under the question's name have more than one order. Records are then of equal size: a name
    that is a pointer to the question, 2 bytes, type to length, 10 bytes, and the address.
    """
    (count,) = struct.unpack_from("!H", message, 6)
    start = question_end(message)
    kind = message[start + 2 : start + 4]
    size = {b"\0\1": 16, b"\0\x1c": 28}.get(kind, 0)
    end = start + count * size
    if count < 2 or not size or any(message[at : at + 4] != b"\xc0\x0c" + kind for at in range(start, end, size)):
        return (message,)
    orders = min(count, most)
    firsts = (start + size * (count * order // orders) for order in range(orders))
    return tuple(message[:start] + message[at:end] + message[start:at] + message[end:] for at in firsts)


def _skip_name(message: bytes, position: int) -> int:
    while (length := message[position]) and length < 0xC0:
        position += length + 1
    return position + (2 if length else 1)


def _udp_limit(message: Message) -> int:
    return min(max(message.payload, _CLASSIC), PAYLOAD) if message.edns >= 0 else _CLASSIC


def _labels(name: dns.name.Name) -> tuple[str, ...]:
    return tuple(label.decode("ascii", "backslashreplace").lower() for label in name.labels[:-1])


def _response(query: Query, rcode: Rcode, *, authoritative: bool, recursion: bool) -> Message:
    response = dns.message.Message(id=query.message.id)
    response.flags = dns.flags.QR | query.message.flags & (dns.flags.RD | dns.flags.CD)
    if authoritative:
        response.flags |= dns.flags.AA
    if recursion:
        response.flags |= dns.flags.RA
    response.question = query.message.question
    if query.message.edns >= 0:
        response.use_edns(0, query.message.ednsflags & dns.flags.DO, PAYLOAD)
    response.set_rcode(rcode)
    return response


def _rrset(record: Record, question: dns.name.Name) -> dns.rrset.RRset:
    """A record as a set of its own: sets are cut as a whole, and part of an answer is better than none."""
    name = _interned_name(record.name) if record.name else question
    return dns.rrset.from_rdata(name, record.ttl, _rdata(record))


@memoized(4096)
def _interned_name(text: str) -> dns.name.Name:
    return dns.name.from_text(text)


def _rdata(record: Record) -> dns.rdata.Rdata:
    class_, kind = dns.rdataclass.IN, dns.rdatatype.RdataType(record.type)
    data: dns.rdata.Rdata
    match record.type:
        case RecordType.A:
            data = _A(class_, kind, record.data)
        case RecordType.AAAA:
            data = _AAAA(class_, kind, record.data)
        case RecordType.SRV:
            data = _SRV(class_, kind, 0, record.weight, record.port, _interned_name(record.data))
        case RecordType.TXT:
            data = dns.rdtypes.ANY.TXT.TXT(class_, kind, (record.data.encode(),))
        case RecordType.SOA:
            server, mail = _interned_name(f"ns.dns.{record.name}"), _interned_name(f"hostmaster.{record.name}")
            data = _SOA(class_, kind, server, mail, int(record.data), 7200, 1800, 86_400, record.ttl)
        case _:
            data = dns.rdata.from_text(class_, kind, record.data + ".")
    return data
