"""Rules of single kinds that no recorded answer of kube-apiserver is about."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.kinds import KindTable
from bayplan.api.strategies import strategy_for
from bayplan.api.types import batch_v1, core_v1, meta_v1, networking_v1

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
        ((), ("10.0.0.0/16", "fd00::/64"), ["spec.cidrs"]),
        ((), ("10.0.0.0/16",), ["spec.cidrs"]),
        (("10.0.0.0/16",), ("10.1.0.0/16", "fd00::/64", "fd01::/64"), ["spec.cidrs"]),
        (("10.0.0.0/16", "fd00::/64"), ("10.0.0.0/16", "fd00::/64", "fd01::/64"), ["spec.cidrs"]),
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


@pytest.mark.parametrize(("length", "fields"), [(250, []), (251, ["spec.controller"])])
def test_the_name_of_a_controller_of_ingresses_has_250_characters_at_most(length: int, fields: list[str]) -> None:
    controller = f"example.com/{'c' * (length - 12)}"
    ingress_class = networking_v1.IngressClass(
        metadata=meta_v1.ObjectMeta(name="c"), spec=networking_v1.IngressClassSpec(controller=controller)
    )
    assert [
        one.field for one in strategy("networking.k8s.io", "v1", "ingressclasses").validate(ingress_class)
    ] == fields


@pytest.mark.parametrize(
    ("suspend", "started", "condition", "active", "may_change"),
    [
        (True, False, "", 0, True),  # it has never begun
        (True, True, "True", 0, True),  # it was stopped
        (True, True, "", 0, False),
        (True, True, "False", 0, False),
        (True, True, "True", 1, False),  # a pod of it is left
        (True, False, "", 1, False),
        (False, False, "", 0, False),
        (False, True, "True", 0, False),
    ],
)
def test_where_pods_of_a_job_go_may_change_only_while_it_stands_still(
    suspend: bool, started: bool, condition: str, active: int, may_change: bool
) -> None:
    conditions = (batch_v1.JobCondition(type="Suspended", status=condition),) if condition else ()
    status = batch_v1.JobStatus(
        start_time="2026-01-01T00:00:00Z" if started else None, conditions=conditions, active=active
    )

    def job(**node_selector: str) -> batch_v1.Job:
        container = core_v1.Container(name="c", image="i")
        spec = core_v1.PodSpec(restart_policy="Never", containers=(container,), node_selector=node_selector)
        made = batch_v1.Job(
            metadata=meta_v1.ObjectMeta(name="j", namespace="default"),
            spec=batch_v1.JobSpec(template=core_v1.PodTemplateSpec(spec=spec), suspend=suspend),
            status=status,
        )
        strategy("batch", "v1", "jobs").default(made)
        return made

    found = strategy("batch", "v1", "jobs").validate_update(job(pool="a"), job())
    assert any(one.field.startswith("spec.template") and "immutable" in one.body for one in found) is not may_change
