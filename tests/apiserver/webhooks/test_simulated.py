"""Webhooks whose pods are all simulated: what comes of requests, and who is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.nodes import SIMULATED
from bayplan.api.types import core_v1, discovery_v1, meta_v1
from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.routing.forwards import parse_forward
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.simulated.webhooks import ANNOTATION, SimulatedReport, SimulatedReports
from bayplan.apiserver.upkeep.simulated_webhooks import event_of
from bayplan.apiserver.webhooks.calling import Target
from bayplan.client import Client
from bayplan.testing.cluster import eventually
from tests.apiserver.audit.recording import record
from tests.apiserver.custom_resources.converters import versions
from tests.apiserver.custom_resources.things import DEFINITIONS, definition, path, thing
from tests.apiserver.serving import ADMIN, client_of, opened
from tests.apiserver.webhooks.senders import CONFIGURATIONS, MAPS, RULE, RefusedSender, Tree, config_map, create

ADDRESS = "10.128.4.7"
FACT = "service default/hook leads to simulated pods only, which run no programs"


def with_simulated_hook(
    test: Callable[[ApiServer, Client, RefusedSender], Awaitable[None]], *, choice: str = "skip"
) -> None:
    """Run a test with the service `default/hook`, of a simulated pod."""

    async def run() -> None:
        settings = ApiServerSettings(service_cluster_ip_range="10.0.0.0/16", simulated_webhooks=choice)
        async with opened(settings=settings) as api:
            sender = api.context.webhook_sender = RefusedSender()
            client = client_of(api)
            marked = meta_v1.ObjectMeta(name="n", annotations={SIMULATED: "true"})
            await client.create(core_v1.Node(metadata=marked, spec=core_v1.NodeSpec(pod_cidr="10.128.4.0/24")))
            ports = (core_v1.ServicePort(name="x", port=443),)
            metadata = meta_v1.ObjectMeta(name="hook", namespace="default")
            await client.create(core_v1.Service(metadata=metadata, spec=core_v1.ServiceSpec(ports=ports)))
            labels = {"kubernetes.io/service-name": "hook"}
            await client.create(
                discovery_v1.EndpointSlice(
                    metadata=meta_v1.ObjectMeta(name="hook-1", namespace="default", labels=labels),
                    address_type="IPv4",
                    endpoints=(discovery_v1.Endpoint(addresses=(ADDRESS,)),),
                    ports=(discovery_v1.EndpointPort(name="x", port=8443),),
                )
            )
            await test(api, client, sender)

    asyncio.run(run())


async def configure(
    client: Client, name: str = "hook", *, mutating: bool = False, annotation: str = "", **more: Any
) -> Tree:
    """A configuration that leads to the simulated service."""
    kind = "Mutating" if mutating else "Validating"
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        **more,
    }
    metadata = {"name": name, "annotations": {ANNOTATION: annotation} if annotation else {}}
    path = f"{CONFIGURATIONS}/{kind.lower()}webhookconfigurations"
    return await create(client, path, {"metadata": metadata, "webhooks": [webhook]})


async def write(api: ApiServer, name: str, **query: str) -> Response:
    """Create a config map."""
    body = json.dumps(config_map(name)).encode()
    return await api.handle(Request("POST", MAPS, query, ADMIN, body))


async def events(client: Client, kind: str, count: int) -> list[core_v1.Event]:
    """Events about objects of a kind, once there are so many of them."""

    async def written() -> list[core_v1.Event] | None:
        found = [one for one in (await client.list(core_v1.Event)).items if one.involved_object.kind == kind]
        return found if len(found) >= count else None

    return await eventually(written)


@pytest.mark.parametrize("mutating", [True, False])
def test_a_request_counts_as_allowed_and_the_client_is_warned(*, mutating: bool) -> None:
    async def test(api: ApiServer, client: Client, sender: RefusedSender) -> None:
        await configure(client, mutating=mutating)
        answer = await write(api, "one")
        assert answer.code == 201
        named = 'admission webhook "hook.example.com" was not called and counts as allowing the request'
        assert list(answer.warnings) == [f"{named}: {FACT}"]
        assert sender.targets == []

    with_simulated_hook(test)


@pytest.mark.parametrize("mutating", [True, False])
def test_the_audit_log_tells_that_a_webhook_was_skipped(*, mutating: bool) -> None:
    async def test(api: ApiServer, client: Client, _: RefusedSender) -> None:
        await configure(client, mutating=mutating)
        log = record(api, {"level": "Metadata"})
        await write(api, "one")
        prefix = "mutation" if mutating else "validating"
        key = f"skipped-simulated.{prefix}.webhook.admission.k8s.io/round_0_index_0"
        assert (await log.last())["annotations"][key] == "hook.example.com"

    with_simulated_hook(test)


def test_one_event_per_configuration_tells_what_to_do() -> None:
    async def test(api: ApiServer, client: Client, _: RefusedSender) -> None:
        made = [await configure(client, "a"), await configure(client, "b")]
        for number in range(5):
            await write(api, f"m{number}")
        made.append(await configure(client, "c"))  # whose event is the last that is written
        await write(api, "last")
        found = await events(client, "ValidatingWebhookConfiguration", 3)
        assert sorted(one.involved_object.uid for one in found) == sorted(one["metadata"]["uid"] for one in made)
        event = next(one for one in found if one.involved_object.name == "a")
        assert (event.type, event.reason, event.metadata.namespace) == ("Warning", "SimulatedPods", "default")
        assert FACT in event.message
        assert "bayplan forward service/default/hook=localhost:PORT" in event.message

    with_simulated_hook(test)


@pytest.mark.parametrize(
    ("choice", "annotation", "code"),
    [
        ("skip", "", 201),
        ("skip", "fail", 500),
        ("skip", "nonsense", 201),
        ("fail", "", 500),
        ("fail", "skip", 201),
        ("fail", "nonsense", 500),
    ],
)
def test_the_annotation_of_a_configuration_wins_over_the_choice_of_the_cluster(
    choice: str, annotation: str, code: int
) -> None:
    async def test(api: ApiServer, client: Client, sender: RefusedSender) -> None:
        await configure(client, annotation=annotation)
        answer = await write(api, "one")
        assert answer.code == code
        assert sender.targets == []
        if code == 500:
            message = json.loads(answer.body)["message"]
            assert message.startswith('Internal error occurred: failed calling webhook "hook.example.com": failed to')
            assert FACT in message
            assert "bayplan forward service/default/hook=localhost:PORT" in message

    with_simulated_hook(test, choice=choice)


def test_where_calls_fail_the_failure_policy_decides() -> None:
    async def test(api: ApiServer, client: Client, _: RefusedSender) -> None:
        await configure(client, failurePolicy="Ignore")
        log = record(api, {"level": "Metadata"})
        assert (await write(api, "one")).code == 201
        noted = (await log.last())["annotations"]
        assert "failed-open.validating.webhook.admission.k8s.io/round_0_index_0" in noted
        assert not [key for key in noted if key.startswith("skipped-simulated")]

    with_simulated_hook(test, choice="fail")


def test_webhooks_at_urls_of_simulated_pods_are_skipped_as_well() -> None:
    async def test(api: ApiServer, client: Client, sender: RefusedSender) -> None:
        await configure(client, clientConfig={"url": f"https://{ADDRESS}:8443/x"})
        answer = await write(api, "one")
        assert answer.code == 201
        assert f"{ADDRESS}:8443: no route to host: it is an address of a simulated node" in answer.warnings[0]
        assert sender.targets == []

    with_simulated_hook(test)


@pytest.mark.parametrize("by", ["externalName", "forward"])
def test_what_leads_to_an_address_of_simulated_pods_in_other_ways_is_not_dialled(by: str) -> None:
    async def test(api: ApiServer, client: Client, sender: RefusedSender) -> None:
        if by == "forward":
            api.context.services.forwards.set(parse_forward(f"service/default/hook=https://{ADDRESS}:9443"))
        else:
            spec = core_v1.ServiceSpec(type="ExternalName", external_name=ADDRESS)
            metadata = meta_v1.ObjectMeta(name="elsewhere", namespace="default")
            await client.create(core_v1.Service(metadata=metadata, spec=spec))
        name = "hook" if by == "forward" else "elsewhere"
        await configure(client, clientConfig={"service": {"namespace": "default", "name": name}})
        answer = await write(api, "one")
        assert answer.code == 201
        assert "no route to host: it is an address of a simulated node" in answer.warnings[0]
        assert sender.targets == []

    with_simulated_hook(test)


def test_a_configuration_is_noted_once() -> None:
    async def main() -> None:
        reports = SimulatedReports()
        one, other = (core_v1.ObjectReference(name=name, uid=name) for name in ("a", "b"))
        for regarding in (one, one, other, one):
            reports.note(regarding, "why")
        assert [(await reports.next()).regarding.name for _ in range(2)] == ["a", "b"]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reports.next(), 0)

    asyncio.run(main())


def test_the_event_of_a_configuration_has_the_same_name_on_every_server() -> None:
    names = [
        event_of(SimulatedReport(core_v1.ObjectReference(name=name, uid=uid), "why"), now).metadata.name
        for name, uid, now in (("a", "1", 1.0), ("a", "1", 2.0), ("a", "2", 1.0), ("a" * 253, "1", 1.0))
    ]
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("a.")
    assert len(names[3]) <= 253


def test_the_others_are_asked_where_one_is_skipped() -> None:
    async def test(api: ApiServer, client: Client, sender: RefusedSender) -> None:
        await configure(client, "a")
        await configure(client, "b", clientConfig={"url": "https://192.0.2.1:8443/x"})
        answer = await write(api, "one")
        assert answer.code == 500
        assert b"b.example.com" in answer.body
        assert [target.url for target in sender.targets] == ["https://192.0.2.1:8443/x"]

    with_simulated_hook(test)


def test_a_forward_ends_the_skipping() -> None:
    async def test(api: ApiServer, client: Client, sender: RefusedSender) -> None:
        await configure(client)
        forward = parse_forward("service/default/hook=localhost:9443")
        api.context.services.forwards.set(forward)
        assert (await write(api, "one")).code == 500
        target = Target("https://hook.default.svc:443/", ("localhost", 9443), b"", forward)
        assert sender.targets == [target]
        api.context.services.forwards.remove(forward.service)
        assert (await write(api, "one")).code == 201

    with_simulated_hook(test)


def test_objects_that_only_a_simulated_webhook_converts_are_refused_clearly() -> None:
    async def test(api: ApiServer, client: Client, sender: RefusedSender) -> None:
        webhook = {
            "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
            "conversionReviewVersions": ["v1"],
        }
        await create(
            client,
            DEFINITIONS,
            definition(*versions(), conversion={"strategy": "Webhook", "webhook": webhook}),
        )

        async def written(version: str) -> Response:
            body = json.dumps(thing("a", version=version)).encode()
            request = Request("POST", path(version=version), {}, ADMIN, body)

            async def served() -> Response | None:
                found = await api.handle(request)
                return found if found.code != 404 else None

            return await eventually(served)

        assert (await written("v1")).code == 201
        refused = await written("v2")
        assert refused.code == 500
        message = json.loads(refused.body)["message"]
        assert "conversion webhook for" in message
        assert FACT in message
        assert sender.targets == []
        [event] = await events(client, "CustomResourceDefinition", 1)
        assert event.message.startswith(f"objects cannot be converted: {FACT}")

    with_simulated_hook(test)
