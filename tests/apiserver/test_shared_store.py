"""Two API servers over one etcd, in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.bootstrap.identity import keep_identity, lease_name
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.service_account_tokens.keys import TokenKeys, make_signing_key, public_pem
from bayplan.client import Client
from bayplan.store.errors import StoreUnavailable
from bayplan.store.etcd.client import EtcdClient
from bayplan.support.clock import Clock, SystemClock
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.clock import ManualClock
from tests.apiserver.etcd_stores import etcd_store, new_prefix
from tests.apiserver.serving import client_of, opened
from tests.store.etcd.clients import PATIENCE, running_cluster
from tests.store.etcd.clients import client_of as etcd_client_of
from tests.store.etcd.server import Forwarder, needs_etcd, shared_server

pytestmark = needs_etcd


def api_on_etcd(prefix: str, *endpoints: str) -> contextlib.AbstractAsyncContextManager[ApiServer]:
    """A server over the shared etcd, or over these members."""
    return opened(etcd_store(prefix, *endpoints))


@contextlib.asynccontextmanager
async def two_servers() -> AsyncIterator[tuple[Client, Client]]:
    """Clients of two servers over one prefix, which start at the same time."""
    prefix = new_prefix()
    async with contextlib.AsyncExitStack() as stack:
        servers = await asyncio.gather(*[stack.enter_async_context(api_on_etcd(prefix)) for _ in range(2)])
        yield client_of(servers[0]), client_of(servers[1])


def client_of_etcd() -> contextlib.AbstractAsyncContextManager[EtcdClient]:
    """A client of the etcd itself."""
    return etcd_client_of(shared_server().endpoint)


def config_map(name: str, **data: str) -> core_v1.ConfigMap:
    """A config map in the namespace default."""
    return core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), data=data)


def test_what_one_server_writes_the_other_reads_at_once() -> None:
    async def run() -> None:
        async with two_servers() as (first, second):
            await first.create(config_map("a", round="0"))
            for number in range(1, 101):
                writer, reader = (first, second) if number % 2 else (second, first)
                seen = await writer.get(core_v1.ConfigMap, "a", "default")
                assert seen.data["round"] == str(number - 1)
                seen.data = {"round": str(number)}
                written = await writer.update(seen)
                read = await reader.get(core_v1.ConfigMap, "a", "default")
                assert (read.data["round"], read.metadata.resource_version) == (
                    str(number),
                    written.metadata.resource_version,
                )

    asyncio.run(run())


def node_port_service(name: str, port: int = 0) -> core_v1.Service:
    """A service with a node port; any if it is 0."""
    ports = (core_v1.ServicePort(port=80, node_port=port),)
    return core_v1.Service(
        metadata=meta_v1.ObjectMeta(name=name, namespace="default"),
        spec=core_v1.ServiceSpec(type="NodePort", ports=ports),
    )


def test_servers_give_out_no_address_and_no_port_twice() -> None:
    async def run() -> None:
        async with two_servers() as (first, second):
            made = await asyncio.gather(
                *[(first, second)[number % 2].create(node_port_service(f"s{number}")) for number in range(60)]
            )
            assert len({service.spec.cluster_ip for service in made}) == 60
            assert len({service.spec.ports[0].node_port for service in made}) == 60
            wanted = made[0].spec.ports[0].node_port
            for client in (first, second):
                with pytest.raises(ApiError, match="provided port is already allocated"):
                    await client.create(node_port_service("late", wanted))
            await second.delete(core_v1.Service, "s0", "default")
            again = await first.create(node_port_service("late", wanted))
            assert again.spec.ports[0].node_port == wanted

    asyncio.run(run())


def test_of_two_that_ask_for_one_port_at_once_one_gets_it() -> None:
    async def run() -> None:
        async with two_servers() as (first, second):
            for port in range(31000, 31010):
                outcomes = await asyncio.gather(
                    first.create(node_port_service(f"a{port}", port)),
                    second.create(node_port_service(f"b{port}", port)),
                    return_exceptions=True,
                )
                assert [type(one) for one in outcomes].count(core_v1.Service) == 1
                refused = next(one for one in outcomes if isinstance(one, ApiError))
                assert "provided port is already allocated" in str(refused)

    asyncio.run(run())


def test_a_quota_is_not_exceeded_by_two_servers() -> None:
    async def run() -> None:
        async with two_servers() as (first, second):
            quota = core_v1.ResourceQuota(
                metadata=meta_v1.ObjectMeta(name="few", namespace="default"),
                spec=core_v1.ResourceQuotaSpec(hard={"configmaps": "10"}),
            )
            made = await first.create(quota)
            made.status = core_v1.ResourceQuotaStatus(hard={"configmaps": "10"}, used={"configmaps": "0"})
            await second.update_status(made)
            outcomes = await asyncio.gather(
                *[(first, second)[number % 2].create(config_map(f"c{number}")) for number in range(30)],
                return_exceptions=True,
            )
            assert [type(one) for one in outcomes].count(core_v1.ConfigMap) == 10
            listed = await second.list(core_v1.ConfigMap, "default")
            assert len([one for one in listed.items if one.metadata.name.startswith("c")]) == 10

    asyncio.run(run())


def test_one_name_is_given_once() -> None:
    async def run() -> None:
        async with two_servers() as (first, second):
            outcomes = await asyncio.gather(
                *[(first, second)[number % 2].create(config_map("same", n=str(number))) for number in range(20)],
                return_exceptions=True,
            )
            assert [type(one) for one in outcomes].count(core_v1.ConfigMap) == 1
            reasons = {one.reason for one in outcomes if isinstance(one, ApiError)}
            assert reasons == {"AlreadyExists"}

    asyncio.run(run())


def test_a_watch_at_one_server_sees_what_the_other_writes_in_order() -> None:
    async def run() -> None:
        async with two_servers() as (first, second):
            listed = await second.list(core_v1.ConfigMap, "default")
            stream = await second.watch(core_v1.ConfigMap, "default", resource_version=listed.resource_version)
            written = [(await first.create(config_map("w", n="0"))).metadata.resource_version]
            for number in range(1, 50):
                found = await first.get(core_v1.ConfigMap, "w", "default")
                found.data = {"n": str(number)}
                written.append((await (first if number % 2 else second).update(found)).metadata.resource_version)
            await first.delete(core_v1.ConfigMap, "w", "default")
            seen: list[tuple[str, str]] = []
            async with asyncio.timeout(PATIENCE):
                async for event in stream:
                    if event.object.metadata.name != "w":
                        continue
                    if event.type == "DELETED":
                        break
                    seen.append((event.type, event.object.metadata.resource_version))
            assert seen == [("ADDED" if not at else "MODIFIED", version) for at, version in enumerate(written)]

    asyncio.run(run())


def test_objects_stand_where_kube_apiserver_keeps_them() -> None:
    async def run() -> None:
        prefix = new_prefix()
        async with api_on_etcd(prefix) as api, client_of_etcd() as etcd:
            client = client_of(api)
            await client.create(config_map("a"))
            await client.create(node_port_service("s"))
            found = await etcd.range(prefix.encode() + b"/", prefix.encode() + b"0", keys_only=True)
            keys = {kv.key.decode().removeprefix(prefix) for kv in found.kvs}
            assert {"/configmaps/default/a", "/services/specs/default/s", "/namespaces/default"} <= keys
            assert "/apiregistration.k8s.io/apiservices/v1." in keys
            assert "/clusterroles/cluster-admin" in keys
            assert any(key.startswith("/ranges/servicenodeports/3") for key in keys)

    asyncio.run(run())


def test_after_a_compaction_during_an_outage_clients_list_anew_and_nothing_is_missing() -> None:
    async def run() -> None:
        prefix, forwarder = new_prefix(), Forwarder(shared_server().port)
        await forwarder.mend()
        async with (
            api_on_etcd(prefix) as other,
            api_on_etcd(prefix, f"127.0.0.1:{forwarder.port}") as api,
            client_of_etcd() as etcd,
        ):
            first, second = client_of(other), client_of(api)
            for name in ("kept", "changed", "gone"):
                await first.create(config_map(name, n="0"))
            before = await second.list(core_v1.ConfigMap, "default")
            stream = await second.watch(core_v1.ConfigMap, "default", resource_version=before.resource_version)
            await forwarder.cut()
            await first.delete(core_v1.ConfigMap, "gone", "default")
            changed = await first.get(core_v1.ConfigMap, "changed", "default")
            changed.data = {"n": "1"}
            await first.update(changed)
            await first.create(config_map("new", n="0"))
            await etcd.compact((await etcd.range(b"\0")).revision)
            await forwarder.mend()
            after = await second.list(core_v1.ConfigMap, "default")
            shown = {one.metadata.name: one.data.get("n") for one in after.items if "n" in one.data}
            assert shown == {"kept": "0", "changed": "1", "new": "0"}
            async with asyncio.timeout(PATIENCE):
                while await stream.next_batch():
                    pass
            with pytest.raises(ApiError, match="too old resource version"):
                await second.watch(core_v1.ConfigMap, "default", resource_version=before.resource_version)
            again = await second.watch(core_v1.ConfigMap, "default", resource_version=after.resource_version)
            await first.create(config_map("newest", n="0"))
            async with asyncio.timeout(PATIENCE):
                batch = await again.next_batch()
            assert [obj.metadata.name for _, obj in batch] == ["newest"]
        await forwarder.cut()

    asyncio.run(run())


def test_objects_that_kube_apiserver_wrote_as_protobuf_are_refused_with_the_next_step() -> None:
    async def run() -> None:
        prefix = new_prefix()
        async with client_of_etcd() as etcd:
            await etcd.put(f"{prefix}/configmaps/default/a".encode(), b"k8s\0rest")
            with pytest.raises(StoreUnavailable, match=r"/registry/core/configmaps/default/a.*--storage-media-type"):
                async with api_on_etcd(prefix):
                    pass

    asyncio.run(run())


def test_while_etcd_is_away_requests_fail_and_nothing_is_shown_as_present() -> None:
    async def run() -> None:
        prefix, forwarder = new_prefix(), Forwarder(shared_server().port)
        await forwarder.mend()
        async with api_on_etcd(prefix, f"127.0.0.1:{forwarder.port}") as api:
            client = client_of(api)
            await client.create(config_map("a", n="0"))
            await forwarder.cut()
            calls = (
                client.get(core_v1.ConfigMap, "a", "default"),
                client.create(config_map("b")),
                client.delete(core_v1.ConfigMap, "a", "default"),
            )
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [getattr(one, "code", None) for one in outcomes] == [503, 503, 503]
            await forwarder.mend()
            assert (await client.get(core_v1.ConfigMap, "a", "default")).data == {"n": "0"}
            await client.create(config_map("b"))
        await forwarder.cut()

    asyncio.run(run())


def test_requests_go_on_when_a_member_of_etcd_dies(tmp_path: Path) -> None:
    async def run() -> None:
        with running_cluster(tmp_path) as members:
            async with api_on_etcd("/registry", *[one.endpoint for one in members]) as api:
                client = client_of(api)
                listed = await client.list(core_v1.ConfigMap, "default")
                stream = await client.watch(core_v1.ConfigMap, "default", resource_version=listed.resource_version)
                names = iter(range(400))

                async def write() -> None:
                    for number in names:
                        if number == 100:
                            members[0].stop()
                        await create(f"m{number}")

                async def create(name: str) -> None:
                    """Until it is there: a write whose answer the dead member owes may have been made, or not."""
                    while True:
                        try:
                            await client.create(config_map(name))
                            return
                        except ApiError as error:
                            if error.reason == "AlreadyExists":
                                return
                            if error.reason != "ServiceUnavailable":
                                raise

                await asyncio.gather(*[write() for _ in range(20)])
                seen: list[str] = []
                async with asyncio.timeout(PATIENCE):
                    while len(seen) < 400:
                        seen += [obj.metadata.name for _, obj in await stream.next_batch()]
                assert sorted(seen) == sorted(f"m{number}" for number in range(400))

    asyncio.run(run())


def test_a_server_that_has_just_started_knows_the_events_before_it() -> None:
    async def run() -> None:
        prefix = new_prefix()
        async with api_on_etcd(prefix) as first:
            made = [await client_of(first).create(config_map(name)) for name in ("a", "b", "c")]
            async with api_on_etcd(prefix) as second:
                revision = made[0].metadata.resource_version
                watch = await client_of(second).watch(core_v1.ConfigMap, "default", resource_version=revision)
                seen: list[str] = []
                while len(seen) < 2:
                    seen += [one.metadata.name for _, one in await asyncio.wait_for(watch.next_batch(), PATIENCE)]
                watch.close()
                assert seen == ["b", "c"]
                assert await client_of(second).get(core_v1.ConfigMap, "a", "default") == made[0]

    asyncio.run(run())


@pytest.mark.parametrize("knows", [False, True])
def test_a_store_that_another_cluster_uses_is_left_alone(knows: bool) -> None:
    def server(prefix: str, clock: Clock, keys: TokenKeys) -> ApiServer:
        return ApiServer(etcd_store(prefix), clock=clock, randomness=SystemRandomness(), token_keys=keys)

    async def run() -> None:
        prefix, signing = new_prefix(), make_signing_key()
        first = server(prefix, SystemClock(), TokenKeys(lambda: signing))
        await first.open()
        identity = asyncio.ensure_future(keep_identity(first.context, "host-a"))
        lease = first.context.kinds.of_kind("coordination.k8s.io/v1", "Lease")
        async with asyncio.timeout(PATIENCE):
            while lease is None or not first.context.objects.cache(lease).get("kube-system", lease_name("host-a")):  # noqa: ASYNC110 - nobody says when
                await asyncio.sleep(0.01)
        kinds = [each for each in first.context.kinds if each.is_stored]
        before = {each.storage_prefix: first.context.objects.cache(each).revision for each in kinds}
        public = public_pem(signing) if knows else b""
        keys = TokenKeys(make_signing_key, [public] if knows else [])
        second = server(prefix, SystemClock(), keys)
        if knows:
            await second.open()
            await second.close()
        else:
            with pytest.raises(StoreUnavailable, match="in use by another cluster: the API server on host-a"):
                await second.open()
            await first.context.objects.catch_up()
            after = {each.storage_prefix: first.context.objects.cache(each).revision for each in kinds}
            assert after == before, "nothing was written"
            later = ManualClock(SystemClock().now() + 40)
            third = server(prefix, later, keys)
            await third.open()
            await third.close()
        identity.cancel()
        await first.close()

    asyncio.run(run())
