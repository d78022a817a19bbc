"""What the table of one family should hold, kept one service at a time. Pure.

`changes` gives what has changed since the last call: the state before and after of everything that the changed services have had and have now. Nothing else
is looked at, so that a change costs the same in small and in large clusters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from bayplan.api.types import core_v1, discovery_v1
from bayplan.proxy.objects import (
    SERVICE_NAME,
    Endpoint,
    ServicePort,
    SliceEntry,
    endpoints_of,
    health_check_port,
    service_ports,
    slice_entry,
)
from bayplan.proxy.rules.base_rules import base_items
from bayplan.proxy.rules.service_rules import PortRules, port_rules
from bayplan.proxy.rules.table_items import Item, Items, Value, as_items
from bayplan.proxy.rules.table_options import TableOptions

ServiceKey = tuple[str, str]
"""Namespace and name."""


class Changes(NamedTuple):
    """What changed services have had and have now."""

    before: Items
    after: Items
    services: frozenset[ServiceKey]
    """Services whose rules were worked out again."""
    udp: bool
    """Whether one of them has a UDP port: connections may be left that lead nowhere."""


class _Service:
    """What is known of one service, with or without a Service object."""

    __slots__ = ("health_port", "items", "ports", "slices", "unserved")

    def __init__(self) -> None:
        self.ports: tuple[ServicePort, ...] = ()
        self.health_port = 0
        self.slices: dict[str, SliceEntry] = {}
        self.items: Items = {}
        """What it adds to the table."""
        self.unserved = (0, 0)
        """Ports without endpoints by the internal and by the external policy, while there are some on other nodes."""


class DesiredTable:
    """The desired content of a family's table."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._services: dict[ServiceKey, _Service] = {}
        self._changed: set[ServiceKey] = set()
        self._base: Items = {}
        self._owners: defaultdict[Item, dict[ServiceKey, Value]] = defaultdict(dict)
        """Which services want an item; several may want one element. The first one by name gets its way."""
        self._options_changed = True

    @property
    def options(self) -> TableOptions:
        """What rules depend on besides services."""
        return self._options

    @property
    def is_changed(self) -> bool:
        """Whether `changes` has something to tell."""
        return self._options_changed or bool(self._changed)

    @property
    def unserved(self) -> tuple[int, int]:
        """Ports without endpoints on this node by the internal, and by the external policy."""
        counts = [one.unserved for one in self._services.values()]
        return sum(one[0] for one in counts), sum(one[1] for one in counts)

    def set_options(self, options: TableOptions) -> bool:
        """Replace the options. Returns whether that changes anything."""
        if options == self._options:
            return False
        if options.node_name != self._options.node_name or options.family != self._options.family:
            raise ValueError("node and family of a table stay as they are")
        old, self._options = self._options, options
        self._options_changed = True
        if (
            replace(options, service_ranges=old.service_ranges, node_port_addresses=old.node_port_addresses) != old
        ):  # the rest of the options shows in rules of services, too
            self._changed.update(self._services)
        return True

    def put_service(self, service: core_v1.Service) -> bool:
        """A service is there, or has changed. Returns whether that matters."""
        key = (service.metadata.namespace, service.metadata.name)
        ports = service_ports(service, self._options.family)
        known = self._services.get(key)
        if known is None:
            if not ports:
                return False
            known = self._services[key] = _Service()
        port = health_check_port(service) if ports else 0
        if (known.ports, known.health_port) == (ports, port):
            return False
        known.ports, known.health_port = ports, port
        self._changed.add(key)
        return True

    def remove_service(self, namespace: str, name: str) -> bool:
        """A service is gone. Returns whether that matters."""
        known = self._services.get((namespace, name))
        if known is None or not known.ports:
            return False
        known.ports, known.health_port = (), 0
        self._changed.add((namespace, name))
        return True

    def put_slice(self, part: discovery_v1.EndpointSlice) -> bool:
        """An EndpointSlice is there, or has changed. Returns whether that matters."""
        entry = slice_entry(part, self._options.family, self._options.node_name)
        key = _service_of(part)
        if entry is None or key is None:
            return False
        known = self._services.setdefault(key, _Service())
        name = part.metadata.name
        if known.slices.get(name) == entry:
            return False
        known.slices[name] = entry
        self._changed.add(key)
        return True

    def remove_slice(self, part: discovery_v1.EndpointSlice) -> bool:
        """An EndpointSlice is gone. Returns whether that matters."""
        key = _service_of(part)
        known = self._services.get(key) if key is not None else None
        if key is None or known is None or known.slices.pop(part.metadata.name, None) is None:
            return False
        self._changed.add(key)
        return True

    def changes(self) -> Changes:
        """What has changed since the last call."""
        before: dict[Item, Value | None] = {}
        base: Items = {}
        if self._options_changed:
            before.update(self._base)
            base = self._base = base_items(self._options)
        udp = False
        for key in sorted(self._changed):
            known = self._services[key]
            udp = udp or any(name == "udp" for name in _protocols(known))
            self._replace(key, known, before)
        after = as_items((item, self._value(item)) for item in {**before, **base})
        made = Changes(as_items(before.items()), after, frozenset(self._changed), udp)
        self._forget()
        return made

    def items(self) -> Items:
        """All that should be in the table, as of the last `changes`."""
        return as_items((item, self._value(item)) for item in {**self._base, **self._owners})

    def has(self, item: Item) -> bool:
        """Whether an item should be in the table, as of the last `changes`."""
        return item in self._owners or item in self._base

    def port_endpoints(self) -> Iterator[tuple[ServicePort, tuple[Endpoint, ...]]]:
        """Every service port, with all of its endpoints, used or not."""
        for known in self._services.values():
            for port in known.ports:
                yield port, endpoints_of(known.slices.values(), port.name.port, port.name.protocol)

    def health_checks(self) -> Mapping[ServiceKey, tuple[int, int]]:
        """Services whose load balancers ask for endpoints of this node: (port to ask at, number of ready endpoints)."""
        return {
            key: (known.health_port, _local_ready(known)) for key, known in self._services.items() if known.health_port
        }

    def _replace(self, key: ServiceKey, known: _Service, before: dict[Item, Value | None]) -> None:
        """Work out a service's items again; what was there before goes into `before`, unless an earlier service put it there."""
        old = known.items
        parts = self._port_rules(known)
        known.items = {item: value for part in parts for item, value in part.items.items()}
        known.unserved = (
            sum(part.no_internal_endpoints for part in parts),
            sum(part.no_external_endpoints for part in parts),
        )
        for item in {**old, **known.items}:
            if item not in before:
                before[item] = self._value(item)
        for item in old.keys() - known.items.keys():
            self._disown(key, item)
        for item, value in known.items.items():
            self._owners[item][key] = value

    def _port_rules(self, known: _Service) -> list[PortRules]:
        return [
            port_rules(port, endpoints_of(known.slices.values(), port.name.port, port.name.protocol), self._options)
            for port in known.ports
        ]

    def _disown(self, key: ServiceKey, item: Item) -> None:
        owners = self._owners[item]
        del owners[key]
        if not owners:
            del self._owners[item]

    def _value(self, item: Item) -> Value | None:
        owners = self._owners.get(item)
        if not owners:
            return self._base.get(item)
        return next(iter(owners.values())) if len(owners) == 1 else owners[min(owners)]

    def _forget(self) -> None:
        """Begin to collect changes anew."""
        for key in self._changed:
            known = self._services[key]
            if not known.ports and not known.slices:
                del self._services[key]
        self._changed.clear()
        self._options_changed = False


def _service_of(part: discovery_v1.EndpointSlice) -> ServiceKey | None:
    name = part.metadata.labels.get(SERVICE_NAME, "")
    return (part.metadata.namespace, name) if name else None


def _protocols(known: _Service) -> Iterator[str]:
    for port in known.ports:
        yield port.name.protocol
    for part in known.slices.values():
        for _, protocol, _ in part.ports:
            yield protocol


def _local_ready(known: _Service) -> int:
    """Ready endpoints on this node, each address once."""
    return len({one.address for part in known.slices.values() for one in part.endpoints if one.local and one.ready})
