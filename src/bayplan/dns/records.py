"""What the zone answers with: records and the result of a look-up. No wire format, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple


class RecordType(IntEnum):
    """The types that the zone has records of, by their numbers in messages (RFC 1035, 2782, 3596)."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    TXT = 16
    AAAA = 28
    SRV = 33


class Record(NamedTuple):
    """One resource record of class IN."""

    name: str
    """Owner, without the final dot; "" for the name of the question."""
    type: RecordType
    ttl: int
    """Seconds."""
    data: str
    """The address, the target's name without the final dot, the text, or the serial of a SOA."""
    port: int = 0
    """Of SRV."""
    weight: int = 0
    """Of SRV; the priority is always 0."""


ADDRESS_TYPES: Final = (RecordType.A, RecordType.AAAA)


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the zone says about a name and a type."""

    exists: bool
    """False: NXDOMAIN. True without records: NODATA, also of names that only have names below them (RFC 8020)."""
    answer: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()
    alias: str = ""
    """Name outside of the zone that the last CNAME of the answer leads to; "" if there is none."""
    depends: tuple[str, ...] = ()
    """Keys (see `zone`) of whatever can change this result."""
    cacheable: bool = True
    """Whether it holds until something under one of those keys changes."""


def address_type(address: str) -> RecordType:
    """The type of an address's record."""
    return RecordType.AAAA if ":" in address else RecordType.A


def address_label(address: str) -> str:
    """The name of an endpoint that has no hostname, as CoreDNS makes it: `10-0-0-1`, `2001-db8--1`, and `2001-db8--0` for `2001:db8::`."""
    label = address.replace(".", "-").replace(":", "-")
    return label + "0" if label.endswith("-") else label


def is_name(text: str) -> bool:
    """Whether a text fits into a message as a name: labels of 1 to 63 bytes, 253 in all (RFC 1035)."""
    return len(text) <= 253 and text.isascii() and all(0 < len(label) < 64 for label in text.split("."))
