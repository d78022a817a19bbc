"""Group versions that another server answers, over HTTPS, with a live API server in front."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import pytest

from bayplan.api.errors import ApiError
from bayplan.api.nodes import SIMULATED
from bayplan.api.types import apiregistration_v1, core_v1, discovery_v1, meta_v1, rbac_v1
from bayplan.apiserver import upkeep
from bayplan.apiserver.aggregation.forwarding import relay_to
from bayplan.apiserver.routing.forwards import parse_forward
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.simulated.webhooks import ANNOTATION
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
from bayplan.kubelet.simulator import SimulatorSettings
from bayplan.testing.cluster import eventually
from tests.apiserver.aggregation.remote_server import GROUP, PATH, VERSION, RemoteServer, remote_server
from tests.apiserver.serving import ADMIN, client_of, opened

THINGS = f"{PATH}/namespaces/shop/things"
TOKENS = (("ann-token", "ann", "", ("staff",)),)


class Front:
    """A cluster as HTTP clients see it."""

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.client = cluster.client()
        self._session = session

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        token: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> tuple[int, Any]:
        """Status code and body, decoded if it is JSON."""
        own = {"Authorization": f"Bearer {token or self.cluster.credentials.admin_token}", **(headers or {})}
        url = self.cluster.server_url + path
        async with self._session.request(method, url, headers=own, data=body or None, ssl=False) as answer:
            data = await answer.read()
            return answer.status, json.loads(data) if "json" in answer.content_type else data.decode()

    async def add_service(
        self, port: int, name: str = "stats", group: str = GROUP, version: str = VERSION, **spec: Any
    ) -> None:
        """An APIService whose server is at a port of this machine."""
        await self.client.create(
            core_v1.Service(
                metadata=meta_v1.ObjectMeta(name=name, namespace="default"),
                spec=core_v1.ServiceSpec(type="ExternalName", external_name="localhost"),
            )
        )
        wanted = apiregistration_v1.APIServiceSpec(
            group=group,
            version=version,
            service=apiregistration_v1.ServiceReference(namespace="default", name=name, port=port),
            group_priority_minimum=2000,
            version_priority=10,
            **spec,
        )
        service = apiregistration_v1.APIService(metadata=meta_v1.ObjectMeta(name=f"{version}.{group}"), spec=wanted)
        await self.client.create(service)

    async def condition(self, status: str, name: str = f"{VERSION}.{GROUP}") -> apiregistration_v1.APIServiceCondition:
        """The condition once it has a status."""
        async with asyncio.timeout(20):
            while True:
                found = (await self.client.get(apiregistration_v1.APIService, name)).status.conditions
                if found and found[0].status == status:
                    return found[0]
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def front() -> AsyncIterator[Front]:
    settings = ClusterSettings(nodes=SimulatorSettings(nodes=0), api=CLUSTER_API, tokens=TOKENS, run_scheduler=False)
    cluster = Cluster(settings)
    await cluster.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Front(cluster, session)
    finally:
        await cluster.stop()


async def no_seats_taken(found: Front) -> None:
    """What was passed on has given its seat back. Raises TimeoutError."""
    gate = found.cluster.api.gate
    assert gate is not None
    levels = gate.configuration.levels.values()
    async with asyncio.timeout(20):
        while True:
            taken = [ticket.details.path for one in levels for ticket in one.queue_set.executing_tickets()]
            if not any(path.startswith(f"/apis/{GROUP}") for path in taken):
                return
            await asyncio.sleep(0.02)


def play(story: Callable[[Front, RemoteServer], Awaitable[None]], *, secure: bool = True) -> None:
    """Run a story with a cluster and a server that it takes as available."""

    async def main() -> None:
        async with front() as found, remote_server(found.cluster.credentials.front_proxy.certificate) as remote:
            trust: dict[str, Any] = {"ca_bundle": remote.ca_bundle} if secure else {"insecure_skip_tls_verify": True}
            await found.add_service(remote.port, **trust)
            await found.condition("True")
            await story(found, remote)
            await no_seats_taken(found)

    asyncio.run(main())


def headers_of(seen: Mapping[str, Any], prefix: str) -> list[list[str]]:
    return [one for one in seen["headers"] if one[0].startswith(prefix)]


@pytest.mark.parametrize("secure", [True, False])
def test_requests_go_on_with_the_identity_of_their_user(*, secure: bool) -> None:
    async def story(found: Front, remote: RemoteServer) -> None:
        forged = {"X-Remote-User": "root", "X-Remote-Group": "system:masters", "X-Remote-Extra-Scopes": "all"}
        code, seen = await found.ask(f"{THINGS}/a?x=%20y&x=z", headers={**forged, "X-Mine": "1"})
        assert (code, seen["path"], seen["certificate"]) == (200, f"{THINGS}/a?x=%20y&x=z", "front-proxy-client")
        assert headers_of(seen, "x-remote-") == [
            ["x-remote-user", "kubernetes-admin"],
            ["x-remote-group", "system:masters"],
            ["x-remote-group", "system:authenticated"],
        ]
        assert headers_of(seen, "authorization") == []
        assert headers_of(seen, "x-mine") == [["x-mine", "1"]]
        somebody = {"Impersonate-User": "bob", "Impersonate-Group": "system:masters"}
        code, seen = await found.ask(THINGS, method="POST", body=b'{"a": 1}', headers=somebody)
        assert (code, seen["method"], seen["body"]) == (201, "POST", '{"a": 1}')
        assert headers_of(seen, "x-remote-user") == [["x-remote-user", "bob"]]
        assert headers_of(seen, "impersonate") == []

    if secure:
        play(story)
        return

    async def refused(found: Front, remote: RemoteServer) -> None:
        """Bob may do nothing: he is not passed on."""
        code, seen = await found.ask(f"{THINGS}/a")
        assert (code, seen["certificate"]) == (200, "front-proxy-client")
        code, status = await found.ask(THINGS, headers={"Impersonate-User": "bob"})
        assert (code, status["reason"]) == (403, "Forbidden")

    play(refused, secure=False)


def test_who_has_no_right_is_not_passed_on() -> None:
    async def story(found: Front, remote: RemoteServer) -> None:
        code, status = await found.ask(THINGS, token="ann-token")
        assert code == 403
        assert 'User "ann" cannot list resource "things" in API group "stats.example.com"' in status["message"]
        assert remote.requests == []
        await found.client.create(
            rbac_v1.ClusterRole(
                metadata=meta_v1.ObjectMeta(name="things"),
                rules=(rbac_v1.PolicyRule(api_groups=(GROUP,), resources=("things",), verbs=("list", "watch")),),
            )
        )
        await found.client.create(
            rbac_v1.ClusterRoleBinding(
                metadata=meta_v1.ObjectMeta(name="things"),
                role_ref=rbac_v1.RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="things"),
                subjects=(rbac_v1.Subject(api_group="rbac.authorization.k8s.io", kind="User", name="ann"),),
            )
        )
        code, seen = await found.ask(THINGS, token="ann-token")
        assert (code, headers_of(seen, "x-remote-user")) == (200, [["x-remote-user", "ann"]])
        assert (await found.ask(f"{THINGS}?watch=true", token="ann-token"))[1] == '{"type":"ADDED"}\n'
        assert (await found.ask(THINGS, token="ann-token", method="POST", body=b"{}"))[0] == 403

    play(story)


def test_discovery_shows_what_the_server_has() -> None:
    async def story(found: Front, remote: RemoteServer) -> None:
        _, groups = await found.ask("/apis")
        names = [one["name"] for one in groups["groups"]]
        assert names[-1] == GROUP
        assert (await found.ask(f"/apis/{GROUP}"))[1]["preferredVersion"]["groupVersion"] == f"{GROUP}/v1"
        assert (await found.ask(PATH))[1]["resources"][0]["shortNames"] == ["th"]
        accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        _, everything = await found.ask("/apis", headers=accept)
        (one,) = [item for item in everything["items"] if item["metadata"]["name"] == GROUP]
        (version,) = one["versions"]
        assert (version["version"], version["freshness"]) == ("v1", "Current")
        (things,) = version["resources"]
        assert (things["resource"], things["scope"], things["shortNames"]) == ("things", "Namespaced", ["th"])
        assert things["subresources"][0]["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}

    play(story)


def test_openapi_has_what_the_server_has() -> None:
    async def story(found: Front, remote: RemoteServer) -> None:
        _, index = await found.ask("/openapi/v3", headers={"Accept": "application/json"})
        paths = json.loads(index)["paths"] if isinstance(index, str) else index["paths"]
        url = paths[PATH[1:]]["serverRelativeURL"]
        assert url == f"/openapi/v3{PATH}?hash=ABC"
        assert (await found.ask(url))[1]["paths"] == {"mine": {}}
        _, document = await found.ask("/openapi/v2")
        assert document["paths"][f"{PATH}/things"]["get"]["schema"] == {"$ref": "#/definitions/Thing"}
        assert {"Thing", "Part"} <= document["definitions"].keys()
        assert "Unused" not in document["definitions"]
        assert "/api/v1/pods" in document["paths"]

    play(story)


def test_clients_in_this_process_are_answered() -> None:
    async def story(found: Front, remote: RemoteServer) -> None:
        seen = json.loads(await found.client.raw("GET", f"{THINGS}/a", {}, b""))
        assert seen["path"] == f"{THINGS}/a"
        assert headers_of(seen, "x-remote-user") == [["x-remote-user", "kubernetes-admin"]]

    play(story)


def test_a_server_that_ends_is_not_available_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_LOOKED_EVERY", 0.1)

    async def story(found: Front, remote: RemoteServer) -> None:
        documents, remote.documents = remote.documents, {PATH: None}
        del remote.documents[PATH]
        remote.documents["/gone"] = {}
        remote.handle = _refuse  # type: ignore[method-assign]
        condition = await found.condition("False")
        assert condition.reason == "FailedDiscoveryCheck"
        assert f"bad status from {PATH}: 500" in condition.message
        code, status = await found.ask(THINGS)
        assert (code, status["message"]) == (503, "service unavailable")
        accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        _, everything = await found.ask("/apis", headers=accept)
        (one,) = [item for item in everything["items"] if item["metadata"]["name"] == GROUP]
        assert one["versions"][0]["freshness"] == "Stale"
        remote.documents = documents
        del remote.handle
        assert (await found.condition("True")).reason == "Passed"
        assert (await found.ask(THINGS))[0] == 200

    play(story)


def test_a_certificate_of_somebody_else_is_not_taken() -> None:
    async def main() -> None:
        async with front() as found, remote_server(found.cluster.credentials.front_proxy.certificate) as remote:
            await found.add_service(
                remote.port, name="other", ca_bundle=remote.ca_bundle
            )  # it is for stats.default.svc
            condition = await found.condition("False")
            assert condition.reason == "FailedDiscoveryCheck"
            assert "tls: failed to verify certificate" in condition.message
            assert (await found.ask(THINGS))[0] == 503

    asyncio.run(main())


def test_the_servers_own_metrics_api_can_be_replaced() -> None:
    async def main() -> None:
        async with front() as found, remote_server(found.cluster.credentials.front_proxy.certificate) as remote:
            nodes = "/apis/metrics.k8s.io/v1beta1/nodes"
            assert (await found.ask(nodes))[1]["kind"] == "NodeMetricsList"
            remote.documents["/apis/metrics.k8s.io/v1beta1"] = {
                "groupVersion": "metrics.k8s.io/v1beta1",
                "resources": [],
            }
            await found.add_service(remote.port, group="metrics.k8s.io", version="v1beta1", ca_bundle=remote.ca_bundle)
            await found.condition("True", "v1beta1.metrics.k8s.io")
            assert (await found.ask(nodes))[1]["path"] == nodes
            await found.client.delete(apiregistration_v1.APIService, "v1beta1.metrics.k8s.io")
            assert (await found.ask(nodes))[1]["kind"] == "NodeMetricsList"

    asyncio.run(main())


@pytest.mark.parametrize("routing", [True, False])
def test_requests_go_to_an_endpoint_or_to_the_cluster_ip(*, routing: bool) -> None:
    async def main() -> None:
        async with opened(settings=ApiServerSettings(enable_aggregator_routing=routing)) as api:
            client = client_of(api)
            port = core_v1.ServicePort(name="https", port=443, target_port=8443)
            spec = core_v1.ServiceSpec(ports=(port,), cluster_ip="10.96.7.7")
            metadata = meta_v1.ObjectMeta(name="stats", namespace="default")
            await client.create(core_v1.Service(metadata=metadata, spec=spec))
            labels = {"kubernetes.io/service-name": "stats"}
            await client.create(
                discovery_v1.EndpointSlice(
                    metadata=meta_v1.ObjectMeta(name="stats", namespace="default", labels=labels),
                    address_type="IPv4",
                    endpoints=(discovery_v1.Endpoint(addresses=("192.0.2.7",)),),
                    ports=(discovery_v1.EndpointPort(name="https", port=8443, protocol="TCP"),),
                )
            )
            relay = relay_to(api.context, stats(), PATH, ADMIN)
            assert (relay.host, relay.port) == (("192.0.2.7", "8443") if routing else ("10.96.7.7", "443"))
            assert relay.tls_name == "stats.default.svc"

    asyncio.run(main())


async def add_simulated(found: Front, group: str, version: str, annotation: str = "") -> None:
    """An APIService whose service leads to a simulated pod."""
    marked = meta_v1.ObjectMeta(name="n", annotations={SIMULATED: "true"})
    await found.client.create(core_v1.Node(metadata=marked, spec=core_v1.NodeSpec(pod_cidr="10.128.4.0/24")))
    port = core_v1.ServicePort(name="https", port=443, target_port=8443)
    metadata = meta_v1.ObjectMeta(name="stats", namespace="default")
    await found.client.create(core_v1.Service(metadata=metadata, spec=core_v1.ServiceSpec(ports=(port,))))
    labels = {"kubernetes.io/service-name": "stats"}
    await found.client.create(
        discovery_v1.EndpointSlice(
            metadata=meta_v1.ObjectMeta(name="stats", namespace="default", labels=labels),
            address_type="IPv4",
            endpoints=(discovery_v1.Endpoint(addresses=("10.128.4.7",)),),
            ports=(discovery_v1.EndpointPort(name="https", port=8443, protocol="TCP"),),
        )
    )
    reference = apiregistration_v1.ServiceReference(namespace="default", name="stats", port=443)
    annotations = {ANNOTATION: annotation} if annotation else {}
    spec = apiregistration_v1.APIServiceSpec(
        group=group, version=version, service=reference, group_priority_minimum=2000, version_priority=10
    )
    named = meta_v1.ObjectMeta(name=f"{version}.{group}", annotations=annotations)
    await found.client.create(apiregistration_v1.APIService(metadata=named, spec=spec))


async def groups_of(found: Front) -> set[str]:
    """The groups that discovery shows, in both forms, which have the same."""
    aggregated = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    plain = {one["name"] for one in (await found.ask("/apis"))[1]["groups"]}
    assert plain == {one["metadata"]["name"] for one in (await found.ask("/apis", headers=aggregated))[1]["items"]}
    return plain


@pytest.mark.parametrize("annotation", ["", "fail"])
def test_a_group_version_of_simulated_pods_is_left_out_or_unavailable(annotation: str) -> None:
    async def main() -> None:
        async with front() as found:
            await add_simulated(found, GROUP, VERSION, annotation)
            condition = await found.condition("False")
            assert condition.reason == "SimulatedPods"
            assert "service default/stats leads to simulated pods only" in condition.message
            assert (GROUP in await groups_of(found)) is (annotation == "fail")
            code, status = await found.ask(THINGS)
            assert code == 503
            assert ("leads to simulated pods only" in status["message"]) is (annotation != "fail")

    asyncio.run(main())


def test_one_event_tells_of_a_group_version_that_is_left_out() -> None:
    async def main() -> None:
        async with front() as found:
            await add_simulated(found, GROUP, VERSION)
            await found.condition("False")

            async def told() -> list[core_v1.Event]:
                events = (await found.client.list(core_v1.Event)).items
                return [one for one in events if one.involved_object.kind == "APIService"]

            [event] = await eventually(told)
            assert event.reason == "SimulatedPods"
            assert event.message.startswith(f"{GROUP}/{VERSION} is not served: service default/stats leads to")

    asyncio.run(main())


def test_a_simulated_metrics_server_does_not_take_the_servers_own_metrics_api_away() -> None:
    async def main() -> None:
        async with front() as found:
            name = "v1beta1.metrics.k8s.io"
            nodes = "/apis/metrics.k8s.io/v1beta1/nodes"
            await add_simulated(found, "metrics.k8s.io", "v1beta1")
            condition = await found.condition("True", name)
            assert condition.reason == "SimulatedPods"
            assert condition.message.startswith("this server answers itself: service default/stats leads to simulated")
            assert (await found.ask(nodes))[1]["kind"] == "NodeMetricsList"
            assert "metrics.k8s.io" in await groups_of(found)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("target", "tls_name", "scheme"),
    [
        ("localhost:9443", "", "https"),
        ("http://127.0.0.1:9443", "", "http"),
        ("dev.example.com:9443", "stats.default.svc", "https"),
    ],
)
def test_certificates_are_not_checked_on_this_machine_only(target: str, tls_name: str, scheme: str) -> None:
    async def main() -> None:
        async with opened() as api:
            api.context.services.forwards.set(parse_forward(f"service/default/stats={target}"))
            relay = relay_to(api.context, stats(), PATH, ADMIN)
            assert (relay.tls_name, relay.scheme) == (tls_name, scheme)

    asyncio.run(main())


def test_a_service_with_the_name_of_a_simulated_address_is_not_dialled() -> None:
    async def main() -> None:
        async with opened() as api:
            client = client_of(api)
            marked = meta_v1.ObjectMeta(name="n", annotations={SIMULATED: "true"})
            await client.create(core_v1.Node(metadata=marked, spec=core_v1.NodeSpec(pod_cidr="10.128.4.0/24")))
            spec = core_v1.ServiceSpec(type="ExternalName", external_name="10.128.4.7")
            metadata = meta_v1.ObjectMeta(name="stats", namespace="default")
            await client.create(core_v1.Service(metadata=metadata, spec=spec))
            with pytest.raises(ApiError, match="no route to host"):
                relay_to(api.context, stats(), PATH, ADMIN)

    asyncio.run(main())


def stats() -> apiregistration_v1.APIService:
    """An APIService whose service is `default/stats`."""
    reference = apiregistration_v1.ServiceReference(namespace="default", name="stats", port=443)
    return apiregistration_v1.APIService(
        metadata=meta_v1.ObjectMeta(name=f"{VERSION}.{GROUP}"),
        spec=apiregistration_v1.APIServiceSpec(group=GROUP, version=VERSION, service=reference),
    )


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_server_on_this_machine_answers_for_a_service(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_LOOKED_EVERY", 3600.0)

    async def main() -> None:
        async with (
            front() as found,
            remote_server(found.cluster.credentials.front_proxy.certificate, "my.laptop") as remote,
        ):
            await add_simulated(found, GROUP, VERSION)
            await found.condition("False")
            forwards = found.cluster.api.context.services.forwards
            forward = parse_forward(f"service/default/stats={host}:{remote.port}")
            forwards.set(forward)
            assert (await found.condition("True")).reason == "Passed"  # not at the next look
            code, seen = await found.ask(f"{THINGS}/a")
            assert (code, seen["path"], seen["certificate"]) == (200, f"{THINGS}/a", "front-proxy-client")
            assert headers_of(seen, "x-remote-user") == [["x-remote-user", "kubernetes-admin"]]
            assert GROUP in await groups_of(found)
            assert (await found.ask("/apis/stats.example.com/v1"))[1]["resources"]
            forwards.remove(forward.service)
            assert (await found.condition("False")).reason == "SimulatedPods"
            assert (await found.ask(THINGS))[0] == 503

    asyncio.run(main())


def test_servers_learn_from_the_api_whom_to_believe() -> None:
    async def main() -> None:
        async with front() as found:
            name = "extension-apiserver-authentication"
            data = (await found.client.get(core_v1.ConfigMap, name, "kube-system")).data
            authority = found.cluster.credentials.front_proxy.certificate.decode()
            assert data["requestheader-client-ca-file"] == authority != data["client-ca-file"]
            assert json.loads(data["requestheader-allowed-names"]) == ["front-proxy-client"]
            assert json.loads(data["requestheader-extra-headers-prefix"]) == ["X-Remote-Extra-"]

    asyncio.run(main())


async def _refuse(http: Any) -> Any:
    return aiohttp.web.Response(status=500)
