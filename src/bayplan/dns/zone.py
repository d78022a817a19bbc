"""The zone of a cluster: which names exist and what they have, kept up to date one object at a time.

A change costs time by the size of the object that changed, not of the zone. Each method that changes something returns the keys of what has changed
(`service NAMESPACE/NAME`, `namespace NAME`, `address IP`); a `Lookup` names the keys that it depends on, whether the name exists or not. Pure.

Worked example: the headless Service `db` in `shop` with an EndpointSlice that has port `sql` (TCP, 5432) and the endpoint 10.0.0.7 with hostname `db-0`:

    db.shop.svc.DOMAIN             A    10.0.0.7
    db-0.db.shop.svc.DOMAIN        A    10.0.0.7
    _sql._tcp.db.shop.svc.DOMAIN   SRV  0 100 5432 db-0.db.shop.svc.DOMAIN
    7.0.0.10.in-addr.arpa          PTR  db-0.db.shop.svc.DOMAIN

Source: https://github.com/kubernetes/dns/blob/master/docs/specification.md, and plugin/kubernetes of CoreDNS where it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from bayplan.api.types import core_v1, discovery_v1
from bayplan.dns.objects import EndpointSet, ServiceEntry, endpoint_set, service_entry, service_key

Touched = tuple[str, ...]
"""Keys of what a change has changed; none if the zone says the same as before."""

_NOTHING: Final[Touched] = ()
K = TypeVar("K")
V = TypeVar("V")


def namespace_key(name: str) -> str:
    """The key under which a namespace's coming and going is reported."""
    return f"namespace {name}"


def address_key(address: str) -> str:
    """The key under which changes of what an address belongs to are reported."""
    return f"address {address}"


class Zone:
    """An index of Services, EndpointSlices and Namespaces by what questions name."""

    def __init__(self) -> None:
        self._services: dict[str, ServiceEntry] = {}
        self._slices: dict[tuple[str, str], EndpointSet] = {}
        """By namespace and name of the EndpointSlice."""
        self._slices_of: dict[str, tuple[tuple[str, str], ...]] = {}
        """Service key -> its slices, in the order of their names, so that the order of arrival changes no answer."""
        self._owners: dict[str, tuple[str, ...]] = {}
        """Cluster IP -> keys of the services that have it, in order."""
        self._holders: dict[str, tuple[tuple[str, str], ...]] = {}
        """Address of an endpoint -> slices that have it, in order."""
        self._namespaces: set[str] = set()
        self._services_in: dict[str, int] = {}
        """Namespace -> number of its services: a namespace with services exists, whichever informer is ahead."""
        self.serial = 1
        """Of the SOA record. Whoever changes the zone sets it."""

    def put_service(self, service: core_v1.Service) -> Touched:
        """A Service is there, or has changed."""
        entry = service_entry(service)
        key = service_key(entry.namespace, entry.name)
        old = self._services.get(key)
        if old == entry:
            return _NOTHING
        touched = [key]
        if old is None:
            self._services_in[entry.namespace] = self._services_in.get(entry.namespace, 0) + 1
            touched.append(namespace_key(entry.namespace))
        self._services[key] = entry
        touched += self._change_owners(key, old.addresses if old else (), entry.addresses)
        if old is None or old.publish_not_ready != entry.publish_not_ready:
            touched += self._addresses_of(key)
        return tuple(touched)

    def remove_service(self, namespace: str, name: str) -> Touched:
        """A Service is gone. Its EndpointSlices may still be there, and name nothing."""
        key = service_key(namespace, name)
        old = self._services.pop(key, None)
        if old is None:
            return _NOTHING
        count = self._services_in[namespace] - 1
        if count:
            self._services_in[namespace] = count
        else:
            del self._services_in[namespace]
        touched = [key, namespace_key(namespace), *self._change_owners(key, old.addresses, ())]
        return (*touched, *self._addresses_of(key))

    def put_slice(self, part: discovery_v1.EndpointSlice) -> Touched:
        """An EndpointSlice is there, or has changed."""
        name = (part.metadata.namespace, part.metadata.name)
        return self._replace_slice(name, endpoint_set(part))

    def remove_slice(self, namespace: str, name: str) -> Touched:
        """An EndpointSlice is gone."""
        return self._replace_slice((namespace, name), None)

    def add_namespace(self, name: str) -> Touched:
        """A Namespace is there."""
        if name in self._namespaces:
            return _NOTHING
        self._namespaces.add(name)
        return (namespace_key(name),)

    def remove_namespace(self, name: str) -> Touched:
        """A Namespace is gone."""
        if name not in self._namespaces:
            return _NOTHING
        self._namespaces.remove(name)
        return (namespace_key(name),)

    def has_namespace(self, name: str) -> bool:
        """Whether there is such a namespace."""
        return name in self._namespaces or name in self._services_in

    def service(self, namespace: str, name: str) -> ServiceEntry | None:
        """A service, or None."""
        return self._services.get(service_key(namespace, name))

    def endpoint_sets(self, entry: ServiceEntry) -> Iterator[EndpointSet]:
        """The slices of a service, with all their endpoints, ready or not."""
        for name in self._slices_of.get(service_key(entry.namespace, entry.name), ()):
            yield self._slices[name]

    def owner_of(self, address: str) -> ServiceEntry | None:
        """The service that has a cluster IP, or None."""
        owners = self._owners.get(address)
        return self._services[owners[0]] if owners else None

    def endpoints_at(self, address: str) -> Iterator[tuple[ServiceEntry, str]]:
        """Services that publish an endpoint with this address, with its label below each."""
        for name in self._holders.get(address, ()):
            part = self._slices[name]
            entry = self._services.get(part.service)
            if entry is not None:
                for one in part.endpoints:
                    if one.address == address and (one.ready or entry.publish_not_ready):
                        yield entry, one.host

    def _replace_slice(self, name: tuple[str, str], new: EndpointSet | None) -> Touched:
        old = self._slices.get(name)
        if old == new:
            return _NOTHING
        touched: dict[str, None] = {}
        if old is not None:
            self._unlist_slice(name, old, touched)
        if new is not None:
            self._list_slice(name, new, touched)
        return tuple(touched)

    def _list_slice(self, name: tuple[str, str], part: EndpointSet, touched: dict[str, None]) -> None:
        self._slices[name] = part
        self._slices_of[part.service] = tuple(sorted((*self._slices_of.get(part.service, ()), name)))
        touched[part.service] = None
        for address in dict.fromkeys(one.address for one in part.endpoints):
            self._holders[address] = tuple(sorted((*self._holders.get(address, ()), name)))
            touched[address_key(address)] = None

    def _unlist_slice(self, name: tuple[str, str], part: EndpointSet, touched: dict[str, None]) -> None:
        del self._slices[name]
        _take_out(self._slices_of, part.service, name)
        touched[part.service] = None
        for address in dict.fromkeys(one.address for one in part.endpoints):
            _take_out(self._holders, address, name)
            touched[address_key(address)] = None

    def _change_owners(self, key: str, before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
        """List a service under other cluster IPs; returns the keys of those."""
        for address in before:
            if address not in after:
                _take_out(self._owners, address, key)
        for address in after:
            if address not in before:
                self._owners[address] = tuple(sorted((*self._owners.get(address, ()), key)))
        return [address_key(address) for address in dict.fromkeys((*before, *after))]

    def _addresses_of(self, key: str) -> list[str]:
        """Keys of the addresses of all endpoints of a service."""
        slices = (self._slices[name] for name in self._slices_of.get(key, ()))
        return [address_key(one.address) for part in slices for one in part.endpoints]


def _take_out(index: dict[K, tuple[V, ...]], key: K, value: V) -> None:
    rest = tuple(one for one in index[key] if one != value)
    if rest:
        index[key] = rest
    else:
        del index[key]
