"""The service `default/kubernetes` under which the API servers of a cluster are found, and its endpoints.

A server that is the only one over its store publishes its own address. Servers that share a store each hold a key with a time to live under `/masterleases/`, and
each publishes the addresses of all that are there; so one that dies is taken out by the others. Source: kube-apiserver's lease endpoint reconciler.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from bayplan.api.errors import ApiError, service_unavailable
from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.apiserver.bootstrap.publishing import change, ensure, kind_of
from bayplan.apiserver.context import Context
from bayplan.apiserver.store_partition import SERVERS
from bayplan.store.errors import Conflict, StoreError

_DISCOVERY: Final = "discovery.k8s.io/v1"
_SERVER_SECONDS: Final = 15.0
"""How long a server counts that has not said again that it is there."""
_TRIES, _PAUSE = 50, 0.1
"""How often, and how many seconds apart, the service is tried to be created while another server creates it."""


async def publish_service(context: Context, ip: str, port: int) -> None:
    """Create or correct `default/kubernetes`: the service, its Endpoints and its EndpointSlice. Raises ApiError."""
    addresses: Sequence[str] = (ip,)
    if context.objects.is_shared:
        addresses = await _join(context, ip)
    await _publish_service(context, port)
    await _publish_endpoints(context, addresses, port)
    await _publish_slice(context, addresses, port)


async def restore_service(context: Context, ip: str, port: int) -> None:
    """Publish again what is missing. A server alone leaves addresses of others that are in it; servers that share a store say again that they are there, and
    publish who is. Raises ApiError."""
    if context.objects.is_shared:
        await context.objects.catch_up()
        await publish_service(context, ip, port)
        return
    for api_version, kind in (("v1", "Service"), ("v1", "Endpoints"), (_DISCOVERY, "EndpointSlice")):
        if context.objects.cache(kind_of(context, api_version, kind)).get("default", "kubernetes") is None:
            await publish_service(context, ip, port)
            return


async def withdraw_service(context: Context, ip: str, port: int) -> None:
    """This server ends: others that share the store are found from now on, and it is not. Raises ApiError."""
    if not context.objects.is_shared:
        return
    try:
        with suppress(Conflict):
            await context.objects.store.delete(SERVERS + ip)
        addresses = await _servers(context)
    except StoreError as error:
        raise service_unavailable(str(error)) from error
    if addresses:
        await _publish_endpoints(context, addresses, port)
        await _publish_slice(context, addresses, port)


async def _join(context: Context, ip: str) -> Sequence[str]:
    """Say that this server is there; returns the addresses of all that are. Raises ApiError (503)."""
    subset = {"addresses": [{"ip": ip}]}
    value = {"kind": "Endpoints", "apiVersion": "v1", "metadata": {}, "subsets": [subset]}
    try:
        await context.objects.store.put(SERVERS + ip, msgspec.json.encode(value), ttl=_SERVER_SECONDS)
        return await _servers(context) or (ip,)
    except StoreError as error:
        raise service_unavailable(f"the store cannot be written to: {error}") from error


async def _servers(context: Context) -> tuple[str, ...]:
    found = await context.objects.store.range(SERVERS, SERVERS[:-1] + "0")
    return tuple(sorted(item.key[len(SERVERS) :] for item in found.items))


async def _publish_service(context: Context, port: int) -> None:
    cluster_ip = context.allocators.addresses.ranges[0].first
    for tries in range(_TRIES):
        service = core_v1.Service(
            metadata=_named({"component": "apiserver", "provider": "kubernetes"}),
            spec=core_v1.ServiceSpec(
                type="ClusterIP",
                cluster_ip=cluster_ip,
                ip_family_policy="SingleStack",
                session_affinity="None",
                ports=(core_v1.ServicePort(name="https", protocol="TCP", port=443, target_port=port),),
            ),
        )
        try:
            await ensure(context, service, "v1")
            return
        except ApiError:
            # Another server has taken the address and is about to write the service.
            if not context.objects.is_shared or tries == _TRIES - 1:
                raise
        await context.clock.sleep(_PAUSE)
        await context.objects.catch_up()


async def _publish_endpoints(context: Context, addresses: Sequence[str], port: int) -> None:
    subset = core_v1.EndpointSubset(
        addresses=tuple(core_v1.EndpointAddress(ip=ip) for ip in addresses),
        ports=(core_v1.EndpointPort(name="https", port=port, protocol="TCP"),),
    )
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    endpoints = core_v1.Endpoints(metadata=_named(labels), subsets=(subset,))
    if await ensure(context, endpoints, "v1"):
        return
    found = context.find("Endpoints", "default", "kubernetes")
    if found is None or _addresses(found) != set(addresses) or not context.objects.is_shared:
        await change(context, "v1", "Endpoints", "default", "kubernetes", lambda obj: _with(obj, subsets=(subset,)))


def _addresses(endpoints: core_v1.Endpoints) -> set[str]:
    return {address.ip for subset in endpoints.subsets for address in subset.addresses}


async def _publish_slice(context: Context, addresses: Sequence[str], port: int) -> None:
    conditions = discovery_v1.EndpointConditions(ready=True)
    ready = tuple(discovery_v1.Endpoint(addresses=(ip,), conditions=conditions) for ip in addresses)
    ports = (discovery_v1.EndpointPort(name="https", port=port, protocol="TCP"),)
    new = discovery_v1.EndpointSlice(
        metadata=_named({"kubernetes.io/service-name": "kubernetes"}),
        address_type="IPv6" if ":" in addresses[0] else "IPv4",
        endpoints=ready,
        ports=ports,
    )
    if await ensure(context, new, _DISCOVERY):
        return
    found = context.find("EndpointSlice", "default", "kubernetes", _DISCOVERY)
    known = {address for endpoint in found.endpoints for address in endpoint.addresses} if found is not None else set()
    if known != set(addresses) or not context.objects.is_shared:
        await change(
            context,
            _DISCOVERY,
            "EndpointSlice",
            "default",
            "kubernetes",
            lambda obj: _with(obj, endpoints=ready, ports=ports),
        )


def _named(labels: dict[str, str]) -> meta_v1.ObjectMeta:
    return meta_v1.ObjectMeta(name="kubernetes", namespace="default", labels=labels)


def _with(obj: Any, **fields: Any) -> Any:
    """The same object with these fields."""
    for name, value in fields.items():
        setattr(obj, name, value)
    return obj
