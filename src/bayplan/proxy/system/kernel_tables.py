"""What the kernel's table holds now: names, and a fingerprint by which changes of others are seen (nf_tables over netlink).

Every commit of anybody to any table raises the generation of the network namespace by one. While it is the one that the own last commit has left, nothing
else has happened; otherwise fingerprints tell whether the own table was touched.
"""

from __future__ import annotations

import hashlib
import socket
import struct
from typing import Final

from bayplan.proxy.errors import NetlinkError
from bayplan.proxy.families import IPV4, Family
from bayplan.proxy.rules.names import AFFINITY, TABLE
from bayplan.proxy.rules.transactions import KernelNames, KernelSet
from bayplan.proxy.system.netlink import NETFILTER, NetlinkSocket, attribute, attributes, is_missing

_SUBSYSTEM: Final = 10 << 8
_GET_TABLE, _GET_CHAIN, _GET_RULE, _GET_SET, _GET_ELEMENTS, _GET_GENERATION = (
    _SUBSYSTEM | number for number in (1, 4, 7, 10, 13, 16)
)
_HEADER: Final = 4
"""Bytes of a message before its attributes: family, version, and a part of the generation."""
_TABLE_OF: Final = 1
"""Attribute with the table, of chains, rules, sets and lists of elements alike."""
_CHAIN_NAME: Final = 3
_SET_NAME, _SET_FLAGS, _SET_TIMEOUT = 2, 3, 11
_SET_FIXED: Final = 18
"""Attributes above tell how many elements a set has now."""
_ANONYMOUS, _MAP = 0x1, 0x8
_ELEMENTS: Final = 3
_TABLE_HANDLE: Final = 4


class KernelTables:
    """The tables `kube-proxy` of this network namespace. Calls block for some milliseconds."""

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(NETFILTER)

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()

    def generation(self) -> int:
        """Number of commits so far, by anybody to any table."""
        for message in self._netlink.request(_GET_GENERATION, bytes(_HEADER)):
            for kind, value in attributes(message.payload, _HEADER):
                if kind == 1:
                    number: int = struct.unpack(">I", value)[0]
                    return number
        raise NetlinkError(0, "the kernel does not tell the generation of its tables")

    def names(self, family: Family) -> KernelNames:
        """Chains and sets of the family's table; none if it is not there."""
        chains = [
            _text(found[_CHAIN_NAME]) for found in self._parts(family, _GET_CHAIN) if _text(found[_TABLE_OF]) == TABLE
        ]
        sets = {}
        for found in self._parts(family, _GET_SET):
            flags = struct.unpack(">I", found.get(_SET_FLAGS, bytes(4)))[0]
            if _text(found[_TABLE_OF]) == TABLE and not flags & _ANONYMOUS:
                milliseconds = struct.unpack(">Q", found.get(_SET_TIMEOUT, bytes(8)))[0]
                sets[_text(found[_SET_NAME])] = KernelSet(bool(flags & _MAP), milliseconds // 1000)
        return KernelNames(frozenset(chains), sets)

    def fingerprint(self, family: Family) -> bytes:
        """A digest of the whole table but the elements of affinity sets, which packets change; b"" if it is not there."""
        handle = self._handle(family)
        if not handle:
            return b""
        digest = hashlib.blake2b(handle)
        for kind in (_GET_CHAIN, _GET_RULE):
            for message in self._netlink.dump(kind, _scope(family)):
                if _TABLE_BYTES in message.payload:
                    digest.update(message.payload[_HEADER:])
        for found in self._parts(family, _GET_SET):
            digest.update(b"".join(value for attribute_kind, value in found.items() if attribute_kind <= _SET_FIXED))
        for name, known in sorted(self.names(family).sets.items()):
            if not name.startswith(AFFINITY):
                digest.update(f"{name} {known.is_map} {self._elements(family, name)}".encode())
        return digest.digest()

    def _handle(self, family: Family) -> bytes:
        """What tells a table from one of the same name before it."""
        try:
            messages = self._netlink.request(_GET_TABLE, _scope(family))
        except NetlinkError as error:
            if is_missing(error):
                return b""
            raise
        return b"".join(
            value for one in messages for kind, value in attributes(one.payload, _HEADER) if kind == _TABLE_HANDLE
        )

    def _elements(self, family: Family, name: str) -> int:
        """A sum over all elements of a set, as their order may change."""
        scope = _scope(family) + attribute(2, name.encode() + b"\0")
        return sum(
            int.from_bytes(hashlib.blake2b(one, digest_size=8).digest())
            for message in self._netlink.dump(_GET_ELEMENTS, scope)
            for kind, elements in attributes(message.payload, _HEADER)
            if kind == _ELEMENTS
            for _, one in attributes(elements)
        )

    def _parts(self, family: Family, kind: int) -> list[dict[int, bytes]]:
        try:
            messages = self._netlink.dump(kind, _scope(family))
        except NetlinkError as error:
            if is_missing(error):
                return []
            raise
        return [dict(attributes(message.payload, _HEADER)) for message in messages]


_TABLE_BYTES: Final = attribute(_TABLE_OF, TABLE.encode() + b"\0")


def _scope(family: Family) -> bytes:
    """The header of a request about the family's table, and the table's name; older kernels dump the chains of all tables nevertheless."""
    number = socket.AF_INET if family is IPV4 else socket.AF_INET6
    return bytes((number, 0, 0, 0)) + _TABLE_BYTES


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode()
