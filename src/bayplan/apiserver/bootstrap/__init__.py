"""What every API server publishes at start: system namespaces, priority classes, and the service under which it is found."""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1, discovery_v1, meta_v1, scheduling_v1
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.requests import Request, ResourcePath, User
from bayplan.apiserver.verbs.write import create_object, modify

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
LOOPBACK = User("system:apiserver", ("system:masters",))


async def publish(context: Context) -> None:
    """Create what is missing of what every cluster has."""
    for name in NAMESPACES:
        await _ensure(context, core_v1.Namespace(metadata=meta_v1.ObjectMeta(name=name)), "", "v1")
    for name, value, text in (
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ):
        found = scheduling_v1.PriorityClass(metadata=meta_v1.ObjectMeta(name=name), value=value, description=text)
        await _ensure(context, found, "", "scheduling.k8s.io/v1")


def _call(context: Context, kind: Kind, namespace: str, name: str = "") -> Call:
    request = Request("POST", kind.path(namespace, name), {}, LOOPBACK)
    return Call.of(context, request, ResourcePath(kind, namespace, name, None))


async def _ensure(context: Context, obj: Any, namespace: str, api_version: str) -> None:
    kind = context.kinds.of_kind(api_version, type(obj).__name__)
    assert kind is not None
    if context.objects.cache(kind).get(namespace, obj.metadata.name) is None:
        await create_object(_call(context, kind, namespace), obj, plain=True)


async def publish_service(context: Context, ip: str, port: int) -> None:
    """Create or correct `default/kubernetes`: the service, its Endpoints and its EndpointSlice."""
    labels = {"component": "apiserver", "provider": "kubernetes"}
    cluster_ip = context.allocators.cluster_ips.first
    service = core_v1.Service(
        metadata=meta_v1.ObjectMeta(name="kubernetes", labels=labels),
        spec=core_v1.ServiceSpec(
            type="ClusterIP",
            cluster_ip=cluster_ip,
            cluster_ips=(cluster_ip,),
            session_affinity="None",
            ports=(core_v1.ServicePort(name="https", protocol="TCP", port=443, target_port=port),),
        ),
    )
    await _ensure(context, service, "default", "v1")
    subsets = (
        core_v1.EndpointSubset(
            addresses=(core_v1.EndpointAddress(ip=ip),),
            ports=(core_v1.EndpointPort(name="https", port=port, protocol="TCP"),),
        ),
    )
    endpoints = core_v1.Endpoints(
        metadata=meta_v1.ObjectMeta(name="kubernetes", labels={"endpointslice.kubernetes.io/skip-mirror": "true"}),
        subsets=subsets,
    )
    await _ensure(context, endpoints, "default", "v1")
    await _change(context, "v1", "Endpoints", lambda obj: _set(obj, "subsets", subsets))
    ready = (discovery_v1.Endpoint(addresses=(ip,), conditions=discovery_v1.EndpointConditions(ready=True)),)
    ports = (discovery_v1.EndpointPort(name="https", port=port, protocol="TCP"),)
    labels = {"kubernetes.io/service-name": "kubernetes"}
    slice_ = discovery_v1.EndpointSlice(
        metadata=meta_v1.ObjectMeta(name="kubernetes", labels=labels),
        address_type="IPv6" if ":" in ip else "IPv4",
        endpoints=ready,
        ports=ports,
    )
    await _ensure(context, slice_, "default", "discovery.k8s.io/v1")
    await _change(
        context, "discovery.k8s.io/v1", "EndpointSlice", lambda obj: _set(_set(obj, "endpoints", ready), "ports", ports)
    )


def _set(obj: Any, name: str, value: Any) -> Any:
    setattr(obj, name, value)
    return obj


async def _change(context: Context, api_version: str, kind_name: str, change: Any) -> None:
    """Bring `default/kubernetes` up to date after a restart on another address."""
    kind = context.kinds.of_kind(api_version, kind_name)
    assert kind is not None
    await modify(_call(context, kind, "default", "kubernetes"), change, plain=True)
