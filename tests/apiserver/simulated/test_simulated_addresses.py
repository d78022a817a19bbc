"""Addresses of simulated nodes and their pods are never dialled."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.nodes import SIMULATED
from bayplan.api.types import admissionregistration_v1 as admission
from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.apiserver.requests import Request
from bayplan.apiserver.routing.forwards import parse_forward
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.simulated.webhooks import ANNOTATION
from tests.apiserver.serving import ADMIN, client_of, opened
from tests.apiserver.webhooks.senders import RefusedSender

ADDRESS = "10.128.4.7"


def node(name: str, *, simulated: bool, cidrs: tuple[str, ...] = (), address: str = "") -> core_v1.Node:
    addresses = (core_v1.NodeAddress(type="InternalIP", address=address),) if address else ()
    return core_v1.Node(
        metadata=meta_v1.ObjectMeta(name=name, annotations={SIMULATED: "true"} if simulated else {}),
        spec=core_v1.NodeSpec(pod_cidr=cidrs[0] if cidrs else "", pod_cidrs=cidrs),
        status=core_v1.NodeStatus(addresses=addresses),
    )


@pytest.mark.parametrize(
    ("host", "is_refused"),
    [
        ("10.128.4.7", True),
        ("::ffff:10.128.4.7", True),
        ("10.128.5.7", False),
        ("fd00:1::5", True),
        ("fd00:2::5", False),
        ("192.0.2.9", True),
        ("192.0.2.8", False),
        ("10.64.0.1", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_networks_and_addresses_of_simulated_nodes_are_known(host: str, is_refused: bool) -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            assert api.context.simulated.reason(host) == ""
            cidrs = ("10.128.4.0/24", "fd00:1::/64")
            await client.create(node("s", simulated=True, cidrs=cidrs, address="192.0.2.9"))
            await client.create(node("r", simulated=False, cidrs=("10.64.0.0/24",)))
            assert bool(api.context.simulated.reason(host)) is is_refused

    asyncio.run(run())


def test_what_a_simulated_node_had_is_remembered_until_a_real_node_has_it() -> None:
    async def run() -> None:
        async with opened() as api:
            client, reason = client_of(api), api.context.simulated.reason
            await client.create(node("s", simulated=True, cidrs=("10.128.4.0/24",), address="192.0.2.9"))
            await client.delete(core_v1.Node, "s", "")
            assert reason("10.128.4.7")
            assert reason("192.0.2.9")
            await client.create(node("other", simulated=True, cidrs=("10.128.6.0/24",)))
            assert reason("10.128.4.7")
            await client.create(node("r", simulated=False, cidrs=("10.128.4.0/23",)))
            assert reason("10.128.4.7") == ""
            assert reason("192.0.2.9")
            await client.create(node("again", simulated=True, cidrs=("10.128.4.0/25",)))
            assert reason("10.128.4.7")
            assert reason("10.128.4.207") == ""

    asyncio.run(run())


async def service_and_pod(api: ApiServer, port: int) -> None:
    """A pod on the node `n`, and a service that leads to it."""
    client = client_of(api)
    await client.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default")))
    metadata = meta_v1.ObjectMeta(name="p", namespace="default")
    container = core_v1.Container(name="c", image="i", ports=(core_v1.ContainerPort(container_port=port),))
    await client.create(core_v1.Pod(metadata=metadata, spec=core_v1.PodSpec(containers=(container,), node_name="n")))
    addresses = {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
    await client.patch(core_v1.Pod, "p", "default", {"status": addresses}, subresource="status")
    ports = (core_v1.ServicePort(name="x", port=443, target_port=port),)
    named = meta_v1.ObjectMeta(name="s", namespace="default")
    await client.create(core_v1.Service(metadata=named, spec=core_v1.ServiceSpec(ports=ports)))
    target = core_v1.ObjectReference(kind="Pod", name="p", namespace="default")
    await client.create(
        core_v1.Endpoints(
            metadata=named,
            subsets=(
                core_v1.EndpointSubset(
                    addresses=(core_v1.EndpointAddress(ip=ADDRESS, target_ref=target),),
                    ports=(core_v1.EndpointPort(name="x", port=port),),
                ),
            ),
        )
    )
    await client.create(
        discovery_v1.EndpointSlice(
            metadata=meta_v1.ObjectMeta(name="s-1", namespace="default", labels={"kubernetes.io/service-name": "s"}),
            address_type="IPv4",
            endpoints=(discovery_v1.Endpoint(addresses=(ADDRESS,), target_ref=target),),
            ports=(discovery_v1.EndpointPort(name="x", port=port),),
        )
    )


def hook(config: admission.WebhookClientConfig) -> admission.ValidatingWebhookConfiguration:
    rule = admission.RuleWithOperations(
        api_groups=("",), api_versions=("v1",), operations=("CREATE",), resources=("configmaps",)
    )
    return admission.ValidatingWebhookConfiguration(
        metadata=meta_v1.ObjectMeta(name="h"),
        webhooks=(
            admission.ValidatingWebhook(
                name="h.example.com",
                client_config=config,
                rules=(rule,),
                side_effects="None",
                admission_review_versions=("v1",),
                timeout_seconds=5,
            ),
        ),
    )


@pytest.mark.parametrize("by", ["service", "url"])
@pytest.mark.parametrize("simulated", [True, False])
def test_webhooks_in_simulated_pods_are_not_dialled(by: str, simulated: bool) -> None:
    async def run() -> None:
        async with opened() as api:
            sender = api.context.webhook_sender = RefusedSender()
            client = client_of(api)
            await client.create(node("n", simulated=simulated, cidrs=("10.128.4.0/24",)))
            await service_and_pod(api, 8443)
            service = admission.ServiceReference(name="s", namespace="default")
            url = f"https://{ADDRESS}:8443/x"
            config = admission.WebhookClientConfig(service=service) if by == "service" else None
            wanted = hook(config or admission.WebhookClientConfig(url=url))
            wanted.metadata.annotations = {ANNOTATION: "fail"}
            await client.create(wanted)
            with pytest.raises(ApiError) as refused:
                await client.create(core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="c", namespace="default")))
            assert "failed calling webhook" in refused.value.message
            why = (
                "leads to simulated pods only"
                if by == "service"
                else "no route to host: it is an address of a simulated"
            )
            assert (why in refused.value.message) is simulated
            assert len(sender.targets) == (not simulated)

    asyncio.run(run())


@pytest.mark.parametrize("path", ["pods/p/proxy/x", "services/s:x/proxy/x", "services/s/proxy/x"])
def test_proxies_to_simulated_pods_lead_nowhere(path: str) -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(node("n", simulated=True, cidrs=("10.128.4.0/24",)))
            await service_and_pod(api, 8080)
            request = Request("GET", f"/api/v1/namespaces/default/{path}", {}, ADMIN)
            response = await api.handle(request)
            assert (response.code, response.relay) == (503, None)
            if path != "services/s/proxy/x":  # which names no port that there is
                assert (b"simulated node" in response.body) is (path == "pods/p/proxy/x")
                assert (b"leads to simulated pods only" in response.body) is (path != "pods/p/proxy/x")
            await client.patch(core_v1.Node, "n", "", {"metadata": {"annotations": {SIMULATED: None}}})
            response = await api.handle(request)
            assert (response.relay is not None) is (path != "services/s/proxy/x")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "forward", "scheme", "port"),
    [
        ("s:x", "service/default/s=localhost:9443", "http", "9443"),
        ("https:s:443", "service/default/s=localhost:9443", "https", "9443"),
        ("s:443", "service/default/s=https://localhost:9443", "https", "9443"),
        ("https:s:x", "service/default/s:443=http://127.0.0.1:8080", "http", "8080"),
        ("missing", "service/default/missing=[::1]:9443", "http", "9443"),
    ],
)
def test_proxies_of_services_follow_forwards(name: str, forward: str, scheme: str, port: str) -> None:
    async def run() -> None:
        async with opened() as api:
            await client_of(api).create(node("n", simulated=True, cidrs=("10.128.4.0/24",)))
            await service_and_pod(api, 8080)
            found = parse_forward(forward)
            api.context.services.forwards.set(found)
            path = f"/api/v1/namespaces/default/services/{name}/proxy/x"
            relay = (await api.handle(Request("GET", path, {}, ADMIN))).relay
            assert relay is not None
            assert (relay.scheme, relay.host, relay.port, relay.path) == (scheme, found.host, port, "/x")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "forward", "why"),
    [
        ("s:x", "service/default/s=dev.example.com:9443", b"leads to another machine"),
        ("s:x", "service/default/s:80=localhost:9443", b"leads to simulated pods only"),
        ("s:x", "service/other/s=localhost:9443", b"leads to simulated pods only"),
    ],
)
def test_proxies_check_no_certificates_and_follow_forwards_on_this_machine_only(
    name: str, forward: str, why: bytes
) -> None:
    async def run() -> None:
        async with opened() as api:
            await client_of(api).create(node("n", simulated=True, cidrs=("10.128.4.0/24",)))
            await service_and_pod(api, 8080)
            api.context.services.forwards.set(parse_forward(forward))
            path = f"/api/v1/namespaces/default/services/{name}/proxy/x"
            response = await api.handle(Request("GET", path, {}, ADMIN))
            assert (response.code, response.relay) == (503, None)
            assert why in response.body

    asyncio.run(run())


def test_the_kubelet_of_a_simulated_node_is_not_asked() -> None:
    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            one = node("n", simulated=True, address="192.0.2.9")
            endpoint = core_v1.DaemonEndpoint(port=10250)
            one.status.daemon_endpoints = core_v1.NodeDaemonEndpoints(kubelet_endpoint=endpoint)
            await client.create(one)
            await service_and_pod(api, 8080)
            for path in ("namespaces/default/pods/p/portforward", "nodes/n/proxy/x", "nodes/n:10250/proxy/x"):
                response = await api.handle(Request("GET", f"/api/v1/{path}", {}, ADMIN))
                assert (response.code, response.relay) == (503, None), response
            response = await api.handle(Request("GET", "/api/v1/namespaces/default/pods/p/log", {}, ADMIN))
            assert (response.code, response.relay) == (400, None)
            assert b"is not available" in response.body

    asyncio.run(run())
