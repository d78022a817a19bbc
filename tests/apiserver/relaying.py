"""A server with a pod on a node, whose kubelet the test plays."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.certificates import make_authority, sign
from bayplan.apiserver.tls import client_tls, tls_context
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import Served, client_of, served

AUTHORITY = make_authority(SystemClock().now())
POD = "/api/v1/namespaces/default/pods/p"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def kubelet_tls() -> ssl.SSLContext:
    """What the kubelet shows."""
    pair = sign(AUTHORITY, SystemClock().now(), "kubelet", hosts=("127.0.0.1",))
    return tls_context(pair, AUTHORITY.certificate)


@contextlib.asynccontextmanager
async def listening(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A web server; yields its port."""
    runner = web.ServerRunner(web.Server(handler))  # type: ignore[arg-type]  # handlers of applications fit
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def node_and_pod(kubelet_port: int, pod_port: int = 80) -> AsyncIterator[Served]:
    """A server with a pod on a node whose kubelet wants to see a certificate."""
    now = SystemClock().now()
    trust = client_tls(sign(AUTHORITY, now, "api", organizations=("system:masters",)), AUTHORITY.certificate)
    async with served(kubelet_tls=trust) as server:
        client = client_of(server.api)
        status = core_v1.NodeStatus(
            addresses=(core_v1.NodeAddress(type="InternalIP", address="127.0.0.1"),),
            daemon_endpoints=core_v1.NodeDaemonEndpoints(kubelet_endpoint=core_v1.DaemonEndpoint(port=kubelet_port)),
        )
        await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="n"), status=status))
        await client.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default")))
        container = core_v1.Container(name="main", image="i", ports=(core_v1.ContainerPort(container_port=pod_port),))
        await client.create(
            core_v1.Pod(
                metadata=meta_v1.ObjectMeta(name="p", namespace="default"),
                spec=core_v1.PodSpec(containers=(container,), node_name="n"),
            )
        )
        addresses = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        await client.patch(core_v1.Pod, "p", "default", {"status": addresses}, subresource="status")
        yield server
