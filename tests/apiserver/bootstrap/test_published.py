"""What a server publishes at start, and how it brings it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api.types import apiregistration_v1, coordination_v1, core_v1, flowcontrol_v1, meta_v1
from bayplan.apiserver.bootstrap.authentication import FrontProxy, publish_authentication
from bayplan.apiserver.bootstrap.flow_control_table import flow_schemas, priority_levels
from bayplan.apiserver.bootstrap.identity import keep_identity, lease_name
from bayplan.apiserver.certificates import make_authority
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import client_of, opened


def run(case: Callable[[ApiServer, Client], Awaitable[None]]) -> None:
    async def inner() -> None:
        async with opened() as api:
            await case(api, client_of(api))

    asyncio.run(inner())


def test_every_flow_schema_names_a_level_that_exists() -> None:
    levels = {level.metadata.name for level in priority_levels()}
    assert {schema.spec.priority_level_configuration.name for schema in flow_schemas()} <= levels

    async def case(api: ApiServer, client: Client) -> None:
        for schema in (await client.list(flowcontrol_v1.FlowSchema)).items:
            assert [(one.type, one.status) for one in schema.status.conditions] == [("Dangling", "False")]

    run(case)


def test_own_group_versions_are_available() -> None:
    async def case(api: ApiServer, client: Client) -> None:
        services = (await client.list(apiregistration_v1.APIService)).items
        assert {"v1.", "v1.apps", "v2.autoscaling"} <= {one.metadata.name for one in services}
        assert {one.status.conditions[0].reason for one in services} == {"Local"}

    run(case)


def test_an_api_service_of_what_is_not_served_any_more_is_taken_away_unless_somebody_took_it_over(
    tmp_path: Path,
) -> None:
    def service(version: str, **spec: Any) -> apiregistration_v1.APIService:
        labels = {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
        metadata = meta_v1.ObjectMeta(name=f"{version}.metrics.k8s.io", labels=labels)
        spec = {"group_priority_minimum": 100, "version_priority": 15, **spec}
        return apiregistration_v1.APIService(
            metadata=metadata,
            spec=apiregistration_v1.APIServiceSpec(group="metrics.k8s.io", version=version, **spec),
        )

    async def names(client: Client) -> set[str]:
        return {one.metadata.name for one in (await client.list(apiregistration_v1.APIService)).items}

    async def case() -> None:
        url = f"sqlite:{tmp_path / 'store'}"
        elsewhere = apiregistration_v1.ServiceReference(namespace="monitoring", name="adapter", port=443)
        async with opened(open_store(url, clock=SystemClock())) as api:
            published = await names(client_of(api))
            await client_of(api).create(service("v1alpha1"))
            await client_of(api).create(service("v1beta1", service=elsewhere, insecure_skip_tls_verify=True))
        async with opened(open_store(url, clock=SystemClock())) as api:
            assert await names(client_of(api)) == {*published, "v1beta1.metrics.k8s.io"}

    asyncio.run(case())


def test_a_changed_schema_is_corrected_at_the_next_start_unless_it_is_claimed(tmp_path: Path) -> None:
    async def case() -> None:
        url = f"sqlite:{tmp_path / 'store'}"
        async with opened(open_store(url, clock=SystemClock())) as api:
            client = client_of(api)
            for name, claimed in (("probes", False), ("system-nodes", True)):
                found = await client.get(flowcontrol_v1.FlowSchema, name)
                spec = msgspec.structs.replace(found.spec, matching_precedence=77)
                annotations = {"apf.kubernetes.io/autoupdate-spec": "false" if claimed else "true"}
                metadata = msgspec.structs.replace(found.metadata, annotations=annotations)
                await client.update(msgspec.structs.replace(found, spec=spec, metadata=metadata))
        async with opened(open_store(url, clock=SystemClock())) as api:
            client = client_of(api)
            corrected = await client.get(flowcontrol_v1.FlowSchema, "probes")
            assert (corrected.spec.matching_precedence, corrected.metadata.generation) == (2, 3)
            assert (await client.get(flowcontrol_v1.FlowSchema, "system-nodes")).spec.matching_precedence == 77

    asyncio.run(case())


def test_the_authority_of_clients_is_published_beside_what_others_wrote() -> None:
    async def case(api: ApiServer, client: Client) -> None:
        name, namespace = "extension-apiserver-authentication", "kube-system"
        metadata = meta_v1.ObjectMeta(name=name, namespace=namespace)
        await client.create(core_v1.ConfigMap(metadata=metadata, data={"other": "x", "client-ca-file": "OLD"}))
        users, proxies = (make_authority(api.context.clock.now()).certificate.decode() for _ in range(2))
        await publish_authentication(api.context, users, FrontProxy(proxies, ("front",)))
        found = await client.get(core_v1.ConfigMap, name, namespace)
        assert found.data == {
            "other": "x",
            "client-ca-file": users,
            "requestheader-client-ca-file": proxies,
            "requestheader-allowed-names": '["front"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }

    run(case)


def test_a_server_holds_its_lease_and_takes_expired_ones_away() -> None:
    async def case(api: ApiServer, client: Client) -> None:
        labels = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
        gone = coordination_v1.Lease(
            metadata=meta_v1.ObjectMeta(name="apiserver-gone", namespace="kube-system", labels=labels),
            spec=coordination_v1.LeaseSpec(
                holder_identity="x", lease_duration_seconds=1, renew_time="2020-01-01T00:00:00.000000Z"
            ),
        )
        await client.create(gone)
        objects = api.context.objects
        task = asyncio.ensure_future(keep_identity(api.context, "host"))
        await asyncio.wait_for(objects.partition("").wait_for(objects.revision + 2), 5)
        task.cancel()
        left = (await client.list(coordination_v1.Lease, "kube-system")).items
        assert [one.metadata.name for one in left] == [lease_name("host")]
        held = await client.get(coordination_v1.Lease, lease_name("host"), "kube-system")
        assert held.spec.holder_identity is not None
        assert held.spec.holder_identity.startswith(f"{lease_name('host')}_")

    run(case)
