"""Services. Addresses, node ports and address families are allocated by the API server between `prepare_*` and
`validate`."""

from __future__ import annotations

from msgspec.structs import replace

from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.ip_warnings import ingress_ip_warnings
from bayplan.api.validation.services import (
    check_load_balancer_status,
    service_warnings,
    validate_service,
    validate_service_update,
)


def externally_accessible(spec: core_v1.ServiceSpec) -> bool:
    """Whether traffic from outside the cluster can reach the service."""
    return spec.type in ("LoadBalancer", "NodePort") or (spec.type == "ClusterIP" and bool(spec.external_ips))


def needs_health_check(spec: core_v1.ServiceSpec) -> bool:
    """Whether a node port for health checks belongs to the service."""
    return spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local"


_NODE_PORT_TYPES = ("NodePort", "LoadBalancer")


def needs_node_port(spec: core_v1.ServiceSpec) -> bool:
    """Whether the ports of the service get node ports."""
    return spec.type == "NodePort" or (
        spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is not False
    )


class ServiceStrategy(Strategy):
    """Rules of services."""

    has_status = True
    allow_create_on_update = True
    returns_object_on_delete = True
    name_is_checked_as = "dns-1123-label"
    changes_come_first = True
    selectable_field_names = frozenset(("spec.clusterIP", "spec.type"))

    def default(self, obj: core_v1.Service) -> None:
        spec = obj.spec
        spec.session_affinity = spec.session_affinity or "None"
        if spec.session_affinity == "None":
            spec.session_affinity_config = None
        elif spec.session_affinity == "ClientIP":
            config = spec.session_affinity_config
            if config is None or config.client_ip is None or config.client_ip.timeout_seconds is None:
                spec.session_affinity_config = core_v1.SessionAffinityConfig(
                    client_ip=core_v1.ClientIPConfig(timeout_seconds=10800)
                )
        spec.type = spec.type or "ClusterIP"
        for port in spec.ports:
            port.protocol = port.protocol or "TCP"
            if port.target_port in (0, ""):
                port.target_port = port.port
        if not spec.external_traffic_policy and externally_accessible(spec):
            spec.external_traffic_policy = "Cluster"
        if spec.internal_traffic_policy is None and spec.type in ("NodePort", "LoadBalancer", "ClusterIP"):
            spec.internal_traffic_policy = "Cluster"
        if spec.type == "LoadBalancer":
            if spec.allocate_load_balancer_node_ports is None:
                spec.allocate_load_balancer_node_ports = True
            for ingress in obj.status.load_balancer.ingress:
                if ingress.ip and ingress.ip_mode is None:
                    ingress.ip_mode = "VIP"

    def prepare_create(self, obj: core_v1.Service) -> None:
        super().prepare_create(obj)
        spec = obj.spec
        if spec.type == "ExternalName" and spec.internal_traffic_policy in _TRAFFIC_POLICIES:
            spec.internal_traffic_policy = None
        if spec.cluster_ip and not spec.cluster_ips:
            spec.cluster_ips = (spec.cluster_ip,)

    def prepare_update(self, obj: core_v1.Service, old: core_v1.Service) -> None:
        super().prepare_update(obj, old)
        _keep_allocated(obj.spec, old.spec)
        _normalize_cluster_ips(obj.spec, old.spec)
        _drop_what_the_type_left_behind(obj.spec, old.spec)
        if obj.spec.type != "LoadBalancer" and old.status.load_balancer.ingress:
            obj.status = replace(old.status, load_balancer=core_v1.LoadBalancerStatus())

    def validate(self, obj: core_v1.Service) -> list[FieldError]:
        return validate_service(obj)

    def validate_update(self, obj: core_v1.Service, old: core_v1.Service) -> list[FieldError]:
        return validate_service_update(obj, old)

    def validate_status_update(self, obj: core_v1.Service, old: core_v1.Service) -> list[FieldError]:
        errors: list[FieldError] = []
        check_load_balancer_status(errors, "status.loadBalancer", obj.status.load_balancer, old.spec.type)
        return errors

    def status_warnings(self, obj: core_v1.Service) -> list[str]:
        return ingress_ip_warnings([one.ip for one in obj.status.load_balancer.ingress])

    def warnings(self, obj: core_v1.Service, old: core_v1.Service | None) -> list[str]:
        return service_warnings(obj, old)

    def selectable_fields(self, obj: core_v1.Service) -> dict[str, str]:
        return {"spec.clusterIP": obj.spec.cluster_ip, "spec.type": obj.spec.type}


_TRAFFIC_POLICIES = ("Cluster", "Local")
"""Values of `internalTrafficPolicy`; services that are external names are not shown with one."""


def _normalize_cluster_ips(new: core_v1.ServiceSpec, old: core_v1.ServiceSpec) -> None:
    """A change of `clusterIP` alone is one of `clusterIPs`."""
    if not new.cluster_ips and new.cluster_ip == old.cluster_ip:
        new.cluster_ips = old.cluster_ips
    if new.cluster_ip != old.cluster_ip and new.cluster_ips == old.cluster_ips:
        new.cluster_ips = (new.cluster_ip,) if new.cluster_ip else ()


def _keep_allocated(new: core_v1.ServiceSpec, old: core_v1.ServiceSpec) -> None:
    """What was allocated stays if the update does not mention it."""
    if "ExternalName" not in (new.type, old.type):
        new.cluster_ip = new.cluster_ip or old.cluster_ip
        new.cluster_ips = new.cluster_ips or old.cluster_ips
    if needs_node_port(new) and needs_node_port(old):
        taken = {port.node_port for port in new.ports}
        known = {port.name: port.node_port for port in old.ports}
        for port in new.ports:
            former = known.get(port.name, 0)
            if not port.node_port and former not in taken:
                port.node_port = former
    if needs_health_check(new) and needs_health_check(old) and not new.health_check_node_port:
        new.health_check_node_port = old.health_check_node_port


def _drop_what_the_type_left_behind(new: core_v1.ServiceSpec, old: core_v1.ServiceSpec) -> None:
    """Untouched fields of the old type go with it."""
    if new.type == "ExternalName" and old.type != "ExternalName":
        if new.cluster_ip == old.cluster_ip and new.cluster_ips == old.cluster_ips:
            new.cluster_ip, new.cluster_ips = "", ()
        if new.ip_families == old.ip_families:
            new.ip_families = ()
        if new.ip_family_policy == old.ip_family_policy:
            new.ip_family_policy = None
    if new.type == "ExternalName" and new.internal_traffic_policy in _TRAFFIC_POLICIES:
        new.internal_traffic_policy = None
    former = {0, *(port.node_port for port in old.ports)}
    if (
        old.type in _NODE_PORT_TYPES
        and new.type not in _NODE_PORT_TYPES
        and former.issuperset(port.node_port for port in new.ports)
    ):
        for port in new.ports:
            port.node_port = 0
    if (
        needs_health_check(old)
        and not needs_health_check(new)
        and new.health_check_node_port == old.health_check_node_port
    ):
        new.health_check_node_port = 0
    if (
        externally_accessible(old)
        and not externally_accessible(new)
        and new.external_traffic_policy == old.external_traffic_policy
    ):
        new.external_traffic_policy = ""
    if old.type == "LoadBalancer" and new.type != "LoadBalancer":
        if new.allocate_load_balancer_node_ports == old.allocate_load_balancer_node_ports:
            new.allocate_load_balancer_node_ports = None
        if new.load_balancer_class == old.load_balancer_class:
            new.load_balancer_class = None


STRATEGY = ServiceStrategy()
