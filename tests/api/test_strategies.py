"""Rules of single kinds that no recorded answer of kube-apiserver is about."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.kinds import KindTable
from bayplan.api.strategies import strategy_for
from bayplan.api.types import core_v1, meta_v1, networking_v1

KINDS = KindTable()


def strategy(group: str, version: str, plural: str) -> Any:
    kind = KINDS.of_resource(group, version, plural)
    assert kind is not None
    return strategy_for(kind)


def ranges(*cidrs: str) -> networking_v1.ServiceCIDR:
    return networking_v1.ServiceCIDR(
        metadata=meta_v1.ObjectMeta(name="r"), spec=networking_v1.ServiceCIDRSpec(cidrs=cidrs)
    )


@pytest.mark.parametrize(
    ("before", "now", "fields"),
    [
        (("10.0.0.0/16",), ("10.0.0.0/16",), []),
        (("10.0.0.0/16",), ("10.0.0.0/16", "fd00::/64"), []),  # a cluster gets its second family
        (("10.0.0.0/16",), ("10.1.0.0/16", "fd00::/64"), ["spec.cidrs[0]"]),
        (("10.0.0.0/16",), ("10.1.0.0/16",), ["spec.cidrs[0]"]),
        (("10.0.0.0/16", "fd00::/64"), ("10.0.0.0/16",), ["spec.cidrs"]),
        (("10.0.0.0/16", "fd00::/64"), ("10.0.0.0/16", "fd01::/64"), ["spec.cidrs[1]"]),
        (("10.0.0.0/16",), (), ["spec.cidrs"]),
    ],
)
def test_ranges_of_services_may_only_be_joined_by_a_second_family(
    before: tuple[str, ...], now: tuple[str, ...], fields: list[str]
) -> None:
    found = strategy("networking.k8s.io", "v1", "servicecidrs").validate_update(ranges(*now), ranges(*before))
    assert [one.field for one in found] == fields


@pytest.mark.parametrize(
    ("ip", "mode", "expected"),
    [("1.2.3.4", None, "VIP"), ("1.2.3.4", "Proxy", "Proxy"), ("", None, None)],
)
def test_addresses_of_load_balancers_are_virtual_unless_they_say_otherwise(
    ip: str, mode: str | None, expected: str | None
) -> None:
    ingress = core_v1.LoadBalancerIngress(ip=ip, hostname="" if ip else "h.example", ip_mode=mode)
    service = core_v1.Service(
        metadata=meta_v1.ObjectMeta(name="s", namespace="default"),
        spec=core_v1.ServiceSpec(type="LoadBalancer", ports=(core_v1.ServicePort(port=80),)),
        status=core_v1.ServiceStatus(load_balancer=core_v1.LoadBalancerStatus(ingress=(ingress,))),
    )
    strategy("", "v1", "services").default(service)
    assert [one.ip_mode for one in service.status.load_balancer.ingress] == [expected]
