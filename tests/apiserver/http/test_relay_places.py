"""Where proxied requests go on to, and what is said of a kubelet's refusal."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.requests import Request
from bayplan.apiserver.routing import relays
from bayplan.apiserver.routing.relays import Purpose, Relay
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, client_of, opened


async def publish(api: ApiServer) -> None:
    """A pod, a service in front of it, and endpoints of which one is no pod's."""
    client = client_of(api)
    metadata = meta_v1.ObjectMeta(name="p", namespace="default")
    await client.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default")))
    container = core_v1.Container(name="main", image="i")
    await client.create(core_v1.Pod(metadata=metadata, spec=core_v1.PodSpec(containers=(container,))))
    addresses = {"podIP": "10.1.1.2", "podIPs": [{"ip": "10.1.1.2"}]}
    await client.patch(core_v1.Pod, "p", "default", {"status": addresses}, subresource="status")
    metadata = meta_v1.ObjectMeta(name="s", namespace="default")
    port = core_v1.ServicePort(name="web", port=80)
    await client.create(core_v1.Service(metadata=metadata, spec=core_v1.ServiceSpec(ports=(port,))))
    target = core_v1.ObjectReference(kind="Pod", namespace="default", name="p")
    subset = core_v1.EndpointSubset(
        addresses=tuple(core_v1.EndpointAddress(ip=ip, target_ref=target) for ip in ("10.1.1.1", "10.1.1.2")),
        ports=(core_v1.EndpointPort(name="web", port=8080),),
    )
    await client.create(core_v1.Endpoints(metadata=metadata, subsets=(subset,)))


def test_a_service_is_proxied_to_a_pod_behind_it() -> None:
    async def main() -> None:
        async with opened() as api:
            client = client_of(api)

            async def relayed(name: str) -> Relay | str:
                path = f"/api/v1/namespaces/default/services/{name}/proxy/x/"
                answer = await api.handle(Request("GET", path, {}, ADMIN))
                if answer.relay is not None:
                    return answer.relay
                return str(json.loads(answer.body)["message"])

            assert await relayed("s:web") == 'services "s" not found'
            await publish(api)
            wanted = Relay(
                purpose=Purpose.PROXY, scheme="http", host="10.1.1.2", port="8080", path="/x/", query="", subject="s"
            )
            assert await relayed("s:web") == await relayed("s:80") == wanted
            assert await relayed("https:s:web") == dataclasses.replace(wanted, scheme="https")
            assert await relayed("s") == 'no endpoints available for service "s"'
            assert await relayed("s:81") == 'no service port 81 found for service "s"'
            assert await relayed("a:b:c") == 'invalid service request "a:b:c"'
            await client.delete(core_v1.Pod, "p", "default")
            assert await relayed("s:web") == 'no endpoints available for service "s:web"'

    asyncio.run(main())


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (404, "NotFound", "the server could not find the requested resource ( pods/log p)"),
        (403, "Forbidden", "text ( pods/log p)"),
        (500, "InternalError", "Internal error occurred: text"),
        (
            502,
            "InternalError",
            'an error on the server ("text") has prevented the request from succeeding ( pods/log p)',
        ),
        (418, "", "the server responded with the status code 418 but did not return more information ( pods/log p)"),
    ],
)
def test_a_kubelets_refusal_of_a_log_is_a_status(code: int, reason: str, message: str) -> None:
    status = relays.log_refusal(code, "text", "p").status
    assert (status.code, status.reason, status.message) == (code, reason, message)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "169.254.1.1", "0.0.0.0", "224.0.0.1", "", "name"])
def test_what_only_the_api_server_should_reach_is_not_proxied(address: str) -> None:
    with pytest.raises(Exception, match="address not allowed"):
        relays.check_address(address)
    relays.check_address("10.1.2.3")
    relays.check_address("fd00::1")
