"""Names of chains: those that kube-proxy gives the same services."""

from __future__ import annotations

import pytest

from bayplan.proxy.objects import Endpoint, PortName
from bayplan.proxy.rules.names import endpoint_base, is_service_chain, port_base

NAME = PortName("testing", "service", "http", "tcp")
LONG = PortName(
    "very-long-namespace-name-abcdefghijklmnopqrstuvwxyz0123456789xx",
    "very-long-service-name-why-would-you-even-do-this-i-mean-really",
    "port-443-providing-the-hypertext-transmission-protocol-with-tls",
    "sctp",
)
LONG_PATH = f"{LONG.namespace}/{LONG.service}/sctp/{LONG.port}"


def endpoint(address: str, port: int) -> Endpoint:
    return Endpoint(address, port, False, True, True, False, frozenset(), frozenset())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (NAME, "P4ZYZVCF-testing/service/tcp/http"),
        (NAME._replace(port="https"), "LZBRENCP-testing/service/tcp/https"),
        (LONG, f"KR6NACJP-{LONG_PATH}"),
    ],
)
def test_a_service_ports_chains_have_kube_proxys_names(name: PortName, expected: str) -> None:
    assert port_base(name) == expected
    assert is_service_chain(f"service-{expected}")
    assert not is_service_chain("services")


@pytest.mark.parametrize(
    ("name", "address", "port", "expected"),
    [
        (NAME, "10.180.0.1", 80, "JO2XBXZR-testing/service/tcp/http__10.180.0.1/80"),
        (NAME, "10.180.0.2", 80, "5S6H3H22-testing/service/tcp/http__10.180.0.2/80"),
        (
            NAME,
            "fd80:abcd:12::a1b2:c3d4:e5f6:9999",
            80,
            "U7E2ET36-testing/service/tcp/http__fd80.abcd.12..a1b2.c3d4.e5f6.9999/80",
        ),
        (
            LONG,
            "1234:5678:9abc:def0::abc:1234",
            443,
            f"5YS7AFEA-{LONG_PATH}__1234.5678.9abc.def0..abc.1234/443",
        ),
        (LONG, "1234:5678:9abc:def0::abcd:1234:5678", 443, f"CI6C53Q3-{LONG_PATH}__1234.5678.9abc.def0..abcd.1234..."),
        (LONG, "1234:5678:9abc:def0::abcd:1234:8765", 443, f"2FLXFK6X-{LONG_PATH}__1234.5678.9abc.def0..abcd.1234..."),
    ],
)
def test_an_endpoints_chains_have_kube_proxys_names(name: PortName, address: str, port: int, expected: str) -> None:
    assert endpoint_base(name, endpoint(address, port)) == expected
    assert len(expected) <= 240
