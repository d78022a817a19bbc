"""How the kinds of `networking.k8s.io` look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import NONE, load_balancer_addresses, object_age, printers, selector_text
from bayplan.api.types import networking_v1

_SHOWN = 3
"""How many hosts of an Ingress are shown."""


def _hosts(rules: tuple[networking_v1.IngressRule, ...]) -> str:
    """The first hosts. Rules without one take no place, but all rules behind the last shown host count as more."""
    named = [index for index, rule in enumerate(rules) if rule.host]
    if not named:
        return "*"
    text = ",".join(rules[index].host for index in named[:_SHOWN])
    is_more = len(named) >= _SHOWN and len(rules) > named[_SHOWN - 1] + 1
    return f"{text} + {len(rules) - _SHOWN} more..." if is_more else text


def _ingress(obj: networking_v1.Ingress, now: float) -> list[Any]:
    return [
        obj.metadata.name,
        NONE if obj.spec.ingress_class_name is None else obj.spec.ingress_class_name,
        _hosts(obj.spec.rules),
        load_balancer_addresses(obj.status),
        "80, 443" if obj.spec.tls else "80",
        object_age(obj, now),
    ]


def _ingress_class(obj: networking_v1.IngressClass, now: float) -> list[Any]:
    parameters = obj.spec.parameters
    shown = NONE
    if parameters is not None:
        shown = parameters.kind + (f".{parameters.api_group}" if parameters.api_group else "") + f"/{parameters.name}"
    return [obj.metadata.name, obj.spec.controller, shown, object_age(obj, now)]


def _network_policy(obj: networking_v1.NetworkPolicy, now: float) -> list[Any]:
    return [obj.metadata.name, selector_text(obj.spec.pod_selector), object_age(obj, now)]


def _ip_address(obj: networking_v1.IPAddress, now: float) -> list[Any]:
    """One cell more than there are columns: Kubernetes describes no column for the age that it gives."""
    parent = obj.spec.parent_ref
    shown = ""
    if parent is not None:
        resource = f"{parent.resource}.{parent.group}" if parent.group else parent.resource
        shown = "/".join(part for part in (resource, parent.namespace, parent.name) if part)
    return [obj.metadata.name, shown, object_age(obj, now)]


def _service_cidr(obj: networking_v1.ServiceCIDR, now: float) -> list[Any]:
    return [obj.metadata.name, ",".join(obj.spec.cidrs), object_age(obj, now)]


PRINTERS = printers(
    "networking",
    {
        "IPAddress": _ip_address,
        "Ingress": _ingress,
        "IngressClass": _ingress_class,
        "NetworkPolicy": _network_policy,
        "ServiceCIDR": _service_cidr,
    },
)
