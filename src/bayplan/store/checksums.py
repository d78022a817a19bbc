"""The checksums of a stored record.

A record has two CRC-32 checksums: one of its value, and one of everything else including the value's checksum. Reading a
record from the index `log_facts` therefore verifies all but the value, and reading the value verifies the value.

CRC-32 finds every damage of up to 32 consecutive bits and misses one in 2**32 of all others. It protects against failing
hardware and stray writes, not against an attacker, who could recompute any checksum that needs no key. Measured for a
value of 2,000 bytes: 0.6 µs, against 5.1 µs of blake2b.
"""

from __future__ import annotations

import struct
from zlib import crc32

_pack = struct.Struct("<qqqqqd").pack
_NO_EXPIRY = float("nan")
"""Stands for "no time to live": SQLite cannot store it, so no record has it as a deadline."""


def value_checksum(value: bytes | None) -> int:
    """The checksum of a value; 0 for None (the record of a deletion)."""
    return 0 if value is None else crc32(value)


def facts_checksum(
    revision: int,
    key: str,
    create_revision: int,
    previous_revision: int,
    expires: float | None,
    deleted: int,
    checksum_of_value: int,
) -> int:
    """The checksum of everything that a record holds besides its value."""
    packed = _pack(
        revision,
        create_revision,
        previous_revision,
        deleted,
        checksum_of_value,
        _NO_EXPIRY if expires is None else expires,
    )
    return crc32(packed, crc32(key.encode()))


def record_checksums(
    revision: int,
    key: str,
    create_revision: int,
    previous_revision: int,
    expires: float | None,
    deleted: int,
    value: bytes | None,
) -> tuple[int, int]:
    """`value_checksum` and `facts_checksum` of a record."""
    of_value = value_checksum(value)
    return of_value, facts_checksum(revision, key, create_revision, previous_revision, expires, deleted, of_value)


def has_intact_facts(facts: tuple[object, ...], checksum: object) -> bool:
    """Whether the arguments of `facts_checksum`, as read from a file, have this checksum. Damage can also change types."""
    try:
        return facts_checksum(*facts) == checksum  # type: ignore[arg-type]
    except (TypeError, AttributeError, UnicodeError, struct.error):
        return False


def has_intact_value(value: object, checksum: object) -> bool:
    """Whether a value, as read from a file, has this checksum."""
    if value is None:
        return checksum == 0
    return isinstance(value, bytes) and crc32(value) == checksum


def summary_checksum(compacted: int, kept: int, kept_checksums: int) -> int:
    """The checksum of what the table `meta` says."""
    return crc32(struct.pack("<qqq", compacted, kept, kept_checksums))
