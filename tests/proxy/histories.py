"""Random histories of a few services, their slices and the node, for property tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from bayplan.api.types import core_v1, discovery_v1
from bayplan.proxy.families import IPV4
from bayplan.proxy.rules.desired_table import DesiredTable
from bayplan.proxy.rules.table_options import TableOptions, local_by_range
from tests.proxy.objects import NODE, endpoint, endpoint_slice, service

OPTIONS = TableOptions(family=IPV4, node_name=NODE)
Step = Callable[[DesiredTable], object]

NAMES = st.sampled_from(("a", "b", "c"))
PORTS = (("p80", "TCP", 80), ("p80", "UDP", 80), ("other", "TCP", 81))


def _services() -> st.SearchStrategy[core_v1.Service]:
    """Addresses depend on the name, but external ones are shared: services compete for them."""
    return st.builds(
        lambda name, ports, **spec: service(name, f"10.96.0.{ord(name)}", ports=ports, **spec),
        NAMES,
        st.lists(st.sampled_from(PORTS), min_size=1, max_size=3, unique=True),
        node_ports=st.sampled_from(((), (30001,), (30002, 30003, 30004))),
        balancers=st.sampled_from(((), ("203.0.113.1",), ("203.0.113.1", "203.0.113.2"))),
        external_ips=st.sampled_from(((), ("203.0.113.3",), ("203.0.113.1",))),
        load_balancer_source_ranges=st.sampled_from(((), ("192.0.2.0/24",), ("192.0.2.0/24", "198.51.100.0/24"))),
        affinity=st.sampled_from((0, 10, 20)),
        external_traffic_policy=st.sampled_from(("Cluster", "Local")),
        internal_traffic_policy=st.sampled_from(("Cluster", "Local")),
    )


def _slices() -> st.SearchStrategy[discovery_v1.EndpointSlice]:
    endpoints = st.builds(
        endpoint,
        st.sampled_from(("10.1.0.1", "10.1.0.2", "10.2.0.1")),
        local=st.booleans(),
        ready=st.booleans(),
        serving=st.booleans(),
        terminating=st.booleans(),
        zones=st.sampled_from(((), ("west",), ("east",))),
    )
    return st.builds(
        lambda name, number, found, ports: endpoint_slice(name, *found, name=f"{name}-{number}", ports=ports),
        NAMES,
        st.sampled_from((1, 2)),
        st.lists(endpoints, max_size=3),
        st.sampled_from((PORTS, PORTS[:1], (("p80", "TCP", 8080),))),
    )


def _options() -> st.SearchStrategy[TableOptions]:
    return st.builds(
        lambda **changes: replace(OPTIONS, **changes),
        zone=st.sampled_from(("", "west")),
        node_address=st.sampled_from(("", "192.0.2.1")),
        node_port_addresses=st.sampled_from((None, (), ("192.0.2.1",), ("192.0.2.1", "192.0.2.2"))),
        service_ranges=st.sampled_from(((), ("10.96.0.0/16",), ("10.96.0.0/16", "10.97.0.0/16"))),
        masquerade_all=st.booleans(),
        local_traffic=st.sampled_from((None, local_by_range(IPV4, "10.0.0.0/8"))),
    )


def steps() -> st.SearchStrategy[Step]:
    """One thing that happens to the desired table."""
    return st.one_of(
        _services().map(lambda one: lambda table: table.put_service(one)),
        NAMES.map(lambda name: lambda table: table.remove_service("ns", name)),
        _slices().map(lambda one: lambda table: table.put_slice(one)),
        _slices().map(lambda one: lambda table: table.remove_slice(one)),
        _options().map(lambda one: lambda table: table.set_options(one)),
    )


def histories() -> st.SearchStrategy[list[list[Step]]]:
    """Batches of steps; each batch is one transaction."""
    return st.lists(st.lists(steps(), min_size=1, max_size=4), min_size=1, max_size=8)
