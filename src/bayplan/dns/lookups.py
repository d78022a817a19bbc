"""Questions to the zone: what a name below the cluster's domain has, and which names an address has. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from bayplan.dns.objects import NO_PORT, Port, ServiceEntry, service_key
from bayplan.dns.records import ADDRESS_TYPES, Lookup, Record, RecordType, address_type
from bayplan.dns.zone import Zone, address_key, namespace_key

VERSION: Final = "1.1.0"
_VERSION_TTL: Final = 28_800
_LONGEST_CHAIN: Final = 10
"""CNAMEs that are followed within the zone, as in CoreDNS."""
_LONGEST_SOA_TTL: Final = 300
_DNS_SERVICE: Final = ("kube-system", "kube-dns")
"""The Service by which pods reach the DNS server; its addresses are those of the zone's name server."""


class _Target(NamedTuple):
    """One address and port that stands behind a name."""

    name: str
    address: str
    port: int


class Lookups:
    """Answers questions from a zone.

    domain: the cluster's, in lower case without the final dot. ttl: seconds, of all records but the version's. addresses: what the name server has if
    there is no Service `kube-system/kube-dns`.
    """

    def __init__(self, zone: Zone, domain: str, *, ttl: int, addresses: Sequence[str] = ()) -> None:
        self.domain = domain
        self._zone = zone
        self._ttl = ttl
        self._addresses = tuple(addresses)

    def soa(self) -> Record:
        """The zone's SOA record, which every negative answer carries."""
        return Record(self.domain, RecordType.SOA, min(self._ttl, _LONGEST_SOA_TTL), str(self._zone.serial))

    def find(self, labels: Sequence[str], kind: int) -> Lookup:
        """What a name has. labels: those before the domain, leftmost first, in lower case; kind: the number of the record type."""
        chain: dict[str, None] = {}
        records: list[Record] = []
        depends: list[str] = []
        name = ""
        while True:
            found = self._find_one(labels, kind)
            depends += found.depends
            if not found.alias:
                answer = tuple(one._replace(name=one.name or name) for one in found.answer)
                return Lookup(
                    found.exists, (*records, *answer), found.additional, "", tuple(depends), cacheable=found.cacheable
                )
            chain[name or ".".join((*labels, self.domain))] = None
            target = found.alias
            records.append(Record(name, RecordType.CNAME, self._ttl, target))
            if kind == RecordType.CNAME:
                return Lookup(True, tuple(records), (), "", tuple(depends))
            lower = target.lower()
            if not lower.endswith("." + self.domain):
                return Lookup(True, tuple(records), (), target, tuple(depends))
            if lower in chain or len(chain) >= _LONGEST_CHAIN:
                return Lookup(True, tuple(records), (), "", tuple(depends))
            name = lower
            labels = lower.removesuffix("." + self.domain).split(".")

    def reverse(self, address: str) -> Lookup | None:
        """The names of an address; None if the zone knows none, and others are to be asked."""
        owner = self._zone.owner_of(address)
        if owner is not None:
            names = [self._service_name(owner)]
        else:
            names = [f"{host}.{self._service_name(entry)}" for entry, host in self._zone.endpoints_at(address)]
        if not names:
            return None
        answer = tuple(Record("", RecordType.PTR, self._ttl, name) for name in dict.fromkeys(names))
        return Lookup(True, answer, depends=(address_key(address),))

    def _find_one(self, labels: Sequence[str], kind: int) -> Lookup:
        """What a name has, without following aliases."""
        match labels:
            case []:
                return self._apex(kind)
            case ["dns-version"]:
                text = Record("", RecordType.TXT, _VERSION_TTL, VERSION)
                return Lookup(True, (text,) if kind == RecordType.TXT else ())
            case ["dns"] | ["svc"] | ["pod"]:
                return Lookup(True)
            case ["ns", "dns"]:
                return self._name_server(kind)
            case [namespace, "svc" | "pod"]:
                return Lookup(self._zone.has_namespace(namespace), depends=(namespace_key(namespace),))
            case [label, namespace, "pod"]:
                return self._pod(label, namespace, kind)
            case [*rest, service, namespace, "svc"] if len(rest) < 3:
                return self._service(rest, namespace, service, kind)
        return Lookup(False)

    def _apex(self, kind: int) -> Lookup:
        if kind == RecordType.SOA:
            return Lookup(True, (self.soa(),), cacheable=False)
        if kind == RecordType.NS:
            name = f"ns.dns.{self.domain}"
            glue = tuple(Record(name, address_type(one), self._ttl, one) for one in self._server_addresses())
            return Lookup(
                True, (Record("", RecordType.NS, self._ttl, name),), glue, depends=(service_key(*_DNS_SERVICE),)
            )
        return Lookup(True)

    def _name_server(self, kind: int) -> Lookup:
        answer = _address_records(self._server_addresses(), kind, self._ttl)
        return Lookup(True, answer, depends=(service_key(*_DNS_SERVICE),))

    def _server_addresses(self) -> tuple[str, ...]:
        service = self._zone.service(*_DNS_SERVICE)
        return service.addresses if service is not None and service.addresses else self._addresses

    def _pod(self, label: str, namespace: str, kind: int) -> Lookup:
        """`1-2-3-4.NAMESPACE.pod`: the address that the label spells, whether a pod has it or not, as with CoreDNS' `pods insecure`."""
        address = _spelled_address(label)
        exists = bool(address) and self._zone.has_namespace(namespace)
        answer = _address_records((address,), kind, self._ttl) if exists else ()
        return Lookup(exists, answer, depends=(namespace_key(namespace),))

    def _service(self, rest: Sequence[str], namespace: str, service: str, kind: int) -> Lookup:
        depends = (service_key(namespace, service),)
        entry = self._zone.service(namespace, service)
        if entry is None:
            return Lookup(False, depends=depends)
        if entry.external:
            exists = bool(entry.external_name) and not rest
            return Lookup(exists, alias=entry.external_name if exists else "", depends=depends)
        host = port = protocol = ""
        match rest:
            case []:
                pass
            case [label] if label.startswith("_"):
                # `_tcp.SERVICE` has no records, but exists if a port's name is below it.
                published = self._published_ports(entry)
                return Lookup(any(one.name and "_" + one.protocol == label for one in published), depends=depends)
            case [host]:
                pass
            case [first, second] if len(first) > 1 and first[0] == "_" == second[:1]:
                port, protocol = first[1:], second[1:]
            case _:
                return Lookup(False, depends=depends)
        targets = list(self._targets(entry, host, port, protocol))
        exists = bool(targets) or (not (host or entry.headless) and bool(_matching(entry.ports, port, protocol)))
        if kind in ADDRESS_TYPES:
            answer = _address_records((one.address for one in targets), kind, self._ttl)
            return Lookup(exists, answer, depends=depends)
        if kind == RecordType.SRV:
            return Lookup(exists, self._srv(targets), self._srv_addresses(targets), depends=depends)
        return Lookup(exists, depends=depends)

    def _targets(self, entry: ServiceEntry, host: str, port: str, protocol: str) -> Iterator[_Target]:
        """What stands behind a service's name; only one endpoint with `host`, only one port with `port` and `protocol`."""
        name = self._service_name(entry)
        if not entry.headless and not host:
            for one in _matching(entry.ports, port, protocol):
                for address in entry.addresses:
                    yield _Target(name, address, one.number)
            return
        for part in self._zone.endpoint_sets(entry):
            ports = _matching(part.ports, port, protocol)
            for endpoint in part.endpoints:
                if (endpoint.ready or entry.publish_not_ready) and (not host or endpoint.host == host):
                    for one in ports:
                        yield _Target(f"{endpoint.host}.{name}", endpoint.address, one.number)

    def _published_ports(self, entry: ServiceEntry) -> Iterator[Port]:
        """Ports by which SRV records of a service are named."""
        if not entry.headless:
            yield from entry.ports
            return
        for part in self._zone.endpoint_sets(entry):
            if any(one.ready or entry.publish_not_ready for one in part.endpoints):
                yield from part.ports

    def _srv(self, targets: Sequence[_Target]) -> tuple[Record, ...]:
        """SRV records of equal weights that add up to 100 or less, as CoreDNS gives them."""
        weight = max(1, 100 // len(targets)) if targets else 0
        found = {(one.name, one.port): None for one in targets if one.port != NO_PORT}
        return tuple(Record("", RecordType.SRV, self._ttl, name, port, weight) for name, port in found)

    def _srv_addresses(self, targets: Sequence[_Target]) -> tuple[Record, ...]:
        found = {(one.name, one.address): None for one in targets if one.port != NO_PORT}
        return tuple(Record(name, address_type(address), self._ttl, address) for name, address in found)

    def _service_name(self, entry: ServiceEntry) -> str:
        return f"{entry.name}.{entry.namespace}.svc.{self.domain}"


def _matching(ports: Sequence[Port], name: str, protocol: str) -> list[Port]:
    """Ports of a name and protocol; all if no name is given."""
    return [port for port in ports if not name or (port.name == name and port.protocol == protocol)]


def _address_records(addresses: Iterable[str], kind: int, ttl: int) -> tuple[Record, ...]:
    """Records of one type, each address once, under the name of the question."""
    return tuple(
        Record("", address_type(one), ttl, one) for one in dict.fromkeys(addresses) if address_type(one) == kind
    )


def _spelled_address(label: str) -> str:
    """The address that the label of a pod spells; "" if it spells none."""
    four = label.count("-") == 3 and "--" not in label
    text = label.replace("-", "." if four else ":")
    try:
        return "" if "%" in text else str(ipaddress.ip_address(text))
    except ValueError:
        return ""
