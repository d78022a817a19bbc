"""What a cluster with real nodes has besides kubelets: pod network, service proxy, DNS, storage. Their command lines, their rights, the objects that name them."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bayplan.api.codec import from_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, discovery_v1, meta_v1, rbac_v1, storage_v1
from bayplan.client import Client
from bayplan.cluster.real_nodes.settings import DNS, HOST, STORAGE, NodePlace, RealNodeSettings
from bayplan.csi_local.manifests import objects
from bayplan.support.system.process_ids import own_program

logger = logging.getLogger(__name__)

NETWORK_USER: Final = "bayplan:network"
PROXY_USER: Final = "system:kube-proxy"
DNS_USER: Final = "bayplan:dns"
STORAGE_USER: Final = "bayplan:csi-controller"
DNS_PORT: Final = 10053
"""Of the DNS server itself: 53 may be taken on the machine, and is what the Service has."""
_DNS: Final = "kube-dns"
_NAMESPACE: Final = "kube-system"
_STORAGE, _SNAPSHOTS = "storage.k8s.io", "snapshot.storage.k8s.io"
_MANAGED: Final = "endpointslice.kubernetes.io/managed-by"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = (*_READ, "create", "update", "patch", "delete")


def network_command(place: NodePlace) -> tuple[str, ...]:
    """The command line of a node's pod network."""
    settings = place.settings
    is_host = settings.mode == HOST
    flags = {
        "--kubeconfig": place.directory / "network.kubeconfig",
        "--hostname-override": place.name,
        "--data-plane": settings.data_plane,
        # The machine does it for nodes that have networks of their own.
        "--masquerade": "external" if is_host and settings.outbound else "off",
        "--cluster-cidr": settings.pod_network,
        "--cni-conf-dir": place.cni_config,
        "--cni-chain": "portmap,bandwidth,firewall" if is_host else "portmap,bandwidth",
        "--address-dir": place.state / "addresses",
        "--metrics-port": 0 if is_host else 9101,
    }
    return _command("network", flags)


def proxy_command(place: NodePlace) -> tuple[str, ...]:
    """The command line of a node's service proxy."""
    settings = place.settings
    ports = (0, 0) if settings.mode == HOST else (10256, 10249)
    everywhere = "0.0.0.0" if settings.versions[0] == 4 else "[::]"
    flags = {
        "--kubeconfig": place.directory / "proxy.kubeconfig",
        "--hostname-override": place.name,
        "--cluster-cidr": settings.pod_network,
        "--healthz-bind-address": f"{everywhere}:{ports[0]}" if ports[0] else "",
        "--metrics-bind-address": f"127.0.0.1:{ports[1]}" if ports[1] else "",
    }
    if settings.mode == HOST:  # whose own address is the bridge's, which nobody else reaches
        flags["--nodeport-addresses"] = ",".join("0.0.0.0/0" if each == 4 else "::/0" for each in settings.versions)
    return _command("proxy", flags)


def dns_command(settings: RealNodeSettings) -> tuple[str, ...]:
    """The command line of the cluster's DNS."""
    flags = {
        "--kubeconfig": settings.directory / "dns.kubeconfig",
        "--listen": settings.gateways,
        "--port": DNS_PORT,
        "--forward": "/etc/resolv.conf" if settings.outbound else "none",
        "--domain": settings.cluster_domain,
        "--bind-address": settings.gateways[0],
        "--health-port": 0,
        "--ready-port": 0,
    }
    return _command("dns", flags)


def driver_command(place: NodePlace) -> tuple[str, ...]:
    """The command line of a node's storage driver."""
    flags = {
        "--endpoint": _driver_socket(place),
        "--node-id": place.name,
        "--data-dir": place.directory / "csi-local",
        "--plugin-registry": place.directory / "kubelet" / "plugins_registry",
    }
    return _command("csi-local", flags)


def storage_command(place: NodePlace) -> tuple[str, ...]:
    """The command line of the controllers of a node's storage driver."""
    flags = {
        "--kubeconfig": place.directory / "storage.kubeconfig",
        "--csi-address": _driver_socket(place),
        "--node-deployment": "true",
        "--node-deployment-base-delay": "1s",
        "--enable-capacity": "true",
        "--capacity-ownerref-level": -1,
    }
    return ("env", f"NODE_NAME={place.name}", f"NAMESPACE={_NAMESPACE}", *_command("csi-controller", flags))


def _driver_socket(place: NodePlace) -> Path:
    return place.state / "csi.sock"


def _command(verb: str, flags: dict[str, Any]) -> tuple[str, ...]:
    """flags: by name; of several values each is given."""
    each = ((name, value if isinstance(value, tuple) else (value,)) for name, value in flags.items())
    return (*own_program(verb), *(f"{name}={value}" for name, values in each for value in values))


def roles() -> Iterator[rbac_v1.ClusterRole | rbac_v1.ClusterRoleBinding]:
    """What the components may do, by the users that they are."""
    everything: dict[str, list[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]] = {
        NETWORK_USER: [
            (("",), ("nodes", "pods", "namespaces"), _READ),
            (("",), ("nodes/status",), ("patch",)),
            (("networking.k8s.io",), ("networkpolicies",), _READ),
        ],
        DNS_USER: [
            (("",), ("services", "namespaces"), _READ),
            (("discovery.k8s.io",), ("endpointslices",), _READ),
        ],
        STORAGE_USER: [
            (("",), ("nodes", "pods", "secrets"), _READ),
            (("",), ("persistentvolumes", "persistentvolumes/status"), _WRITE),
            (("",), ("persistentvolumeclaims", "persistentvolumeclaims/status"), (*_READ, "update", "patch")),
            (("", "events.k8s.io"), ("events",), ("create", "update", "patch")),
            ((_STORAGE,), ("storageclasses", "csinodes", "volumeattributesclasses"), _READ),
            ((_STORAGE,), ("csistoragecapacities",), _WRITE),
            ((_STORAGE,), ("volumeattachments", "volumeattachments/status"), (*_READ, "patch")),
            ((_SNAPSHOTS,), ("*",), _WRITE),
        ],
    }
    for user, rules in everything.items():
        metadata = meta_v1.ObjectMeta(name=user)
        yield rbac_v1.ClusterRole(
            metadata=metadata,
            rules=tuple(
                rbac_v1.PolicyRule(api_groups=groups, resources=resources, verbs=verbs)
                for groups, resources, verbs in rules
            ),
        )
        yield rbac_v1.ClusterRoleBinding(
            metadata=metadata,
            role_ref=rbac_v1.RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=user),
            subjects=(rbac_v1.Subject(api_group="rbac.authorization.k8s.io", kind="User", name=user),),
        )


def storage_objects() -> Iterator[storage_v1.CSIDriver | storage_v1.StorageClass]:
    """What the cluster knows of the driver that each node has, and its classes; claims that name no class get the first."""
    kinds: dict[str, type[Any]] = {"CSIDriver": storage_v1.CSIDriver, "StorageClass": storage_v1.StorageClass}
    for tree in objects():
        yield from_tree(kinds[tree["kind"]], tree)


def dns_service(settings: RealNodeSettings) -> core_v1.Service:
    """The Service under whose address pods find the DNS, as in other clusters."""
    return core_v1.Service(
        metadata=meta_v1.ObjectMeta(
            name=_DNS,
            namespace=_NAMESPACE,
            labels={"k8s-app": _DNS, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "Bayplan"},
        ),
        spec=core_v1.ServiceSpec(
            cluster_ip=settings.cluster_dns[0],
            cluster_ips=settings.cluster_dns,
            ip_family_policy="SingleStack" if len(settings.cluster_dns) == 1 else "RequireDualStack",
            ports=(
                core_v1.ServicePort(name="dns", port=53, protocol="UDP", target_port=DNS_PORT),
                core_v1.ServicePort(name="dns-tcp", port=53, protocol="TCP", target_port=DNS_PORT),
            ),
        ),
    )


def dns_endpoints(address: str) -> discovery_v1.EndpointSlice:
    """Where that Service leads to at an address of the machine: it has no selector, as the DNS server runs in no pod."""
    version = ipaddress.ip_address(address).version
    return discovery_v1.EndpointSlice(
        metadata=meta_v1.ObjectMeta(
            name=_DNS if version == 4 else f"{_DNS}-ipv6",
            namespace=_NAMESPACE,
            labels={"kubernetes.io/service-name": _DNS, _MANAGED: "bayplan", "k8s-app": _DNS},
        ),
        address_type=f"IPv{version}",
        endpoints=(
            discovery_v1.Endpoint(addresses=(address,), conditions=discovery_v1.EndpointConditions(ready=True)),
        ),
        ports=(
            discovery_v1.EndpointPort(name="dns", port=DNS_PORT, protocol="UDP"),
            discovery_v1.EndpointPort(name="dns-tcp", port=DNS_PORT, protocol="TCP"),
        ),
    )


async def publish(client: Client, settings: RealNodeSettings) -> None:
    """Bring into the API what the components need: roles, and of those that the nodes have, the driver's objects and the DNS' Service. Raises ApiError.

    Storage objects that are there stay as they are, and so does a Service of that name which leads to pods: somebody has installed another DNS server.
    """
    for obj in roles():
        await _put(client, obj)
    for storage in storage_objects() if STORAGE not in settings.without else ():
        with contextlib.suppress(AlreadyThere):
            await _create(client, storage)
    if DNS in settings.without:
        return
    try:
        await _publish_dns(client, settings)
    except ApiError as error:
        logger.warning("the cluster's DNS has no Service: %s", error)


async def _publish_dns(client: Client, settings: RealNodeSettings) -> None:
    """Raises ApiError."""
    wanted = dns_service(settings)
    try:
        # Not created at once: where it is there, its address is, which is refused first.
        found = await client.get(core_v1.Service, _DNS, _NAMESPACE)
    except ApiError as error:
        if error.status.reason != "NotFound":
            raise
        found = await client.create(wanted)
    if found.spec.selector:
        return
    if len(found.spec.cluster_ips) < len(wanted.spec.cluster_ips):  # the cluster has got a second IP version since then
        spec = {"clusterIPs": list(wanted.spec.cluster_ips), "ipFamilyPolicy": wanted.spec.ip_family_policy}
        await client.patch(core_v1.Service, _DNS, _NAMESPACE, {"spec": spec})
    for address in settings.gateways[: len(wanted.spec.cluster_ips)]:
        await _put(client, dns_endpoints(address))


async def _put(client: Client, obj: Any) -> None:
    try:
        await _create(client, obj)
    except AlreadyThere:
        await client.update(obj)


class AlreadyThere(Exception):
    """An object of that name is there."""


async def _create(client: Client, obj: Any) -> None:
    """Raises AlreadyThere, ApiError."""
    try:
        await client.create(obj)
    except ApiError as error:
        if error.status.reason == "AlreadyExists":
            raise AlreadyThere from error
        raise
