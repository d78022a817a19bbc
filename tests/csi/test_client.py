"""The client, against the fake driver at a socket and in the process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bayplan.csi import messages as csi
from bayplan.csi.client import CsiClient
from bayplan.csi.errors import CsiError
from bayplan.csi.registration import GET_INFO, NOTIFY, RegistrationServer, registration_socket
from bayplan.csi.server import csi_server, handlers
from bayplan.support import virtual_time
from bayplan.support.clock import LoopClock, SystemClock
from bayplan.support.grpc.calls import Connection
from bayplan.support.grpc.errors import RpcError
from bayplan.testing.csi_driver import FakeDriver

CAPABILITY = csi.VolumeCapability(mount=csi.MountVolume("ext4"), access_mode=csi.AccessMode(1))


def request(name: str = "pvc-1", size: int = 1 << 20, **fields: Any) -> csi.CreateVolumeRequest:
    return csi.CreateVolumeRequest(name, csi.CapacityRange(size), (CAPABILITY,), **fields)


@asynccontextmanager
async def served(path: Path, driver: FakeDriver, seconds: float = 5.0) -> AsyncIterator[CsiClient]:
    server = driver.server(path)
    await server.start()
    client = CsiClient(Connection(path), seconds=seconds, clock=SystemClock())
    try:
        yield client
    finally:
        await client.close()
        await server.stop()


def in_memory(test: Callable[[FakeDriver, CsiClient], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        clock = LoopClock(1_000.0)
        driver = FakeDriver(clock, **options)
        client = CsiClient(driver.connection(), seconds=15.0, clock=clock)
        try:
            await test(driver, client)
        finally:
            await client.close()

    virtual_time.run(main())


async def code_of(call: Awaitable[Any]) -> str:
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value.code


def test_a_volume_lives_and_dies_over_a_socket(short_path: Path) -> None:
    async def main() -> None:
        driver = FakeDriver(SystemClock(), topology={"zone": "a"})
        async with served(short_path / "csi.sock", driver) as client:
            await client.wait_until_ready(lambda: None)
            info = await client.info()
            assert (info.name, info.version, info.has_topology) == ("fake.csi.bayplan.dev", "1.0", True)
            assert info.controller == driver.controller
            assert info.node == driver.node
            assert info.expansion == {csi.Expansion.ONLINE}
            volume = await client.create_volume(request(secrets={"key": "hidden"}))
            assert volume.capacity_bytes == 1 << 20
            assert volume.accessible_topology == (csi.Topology({"zone": "a"}),)
            assert await client.create_volume(request()) == volume
            expanded = await client.controller_expand_volume(
                csi.ControllerExpandVolumeRequest(volume.volume_id, csi.CapacityRange(5 << 20))
            )
            assert expanded == csi.ControllerExpandVolumeResponse(5 << 20, True)
            staged = csi.NodeStageVolumeRequest(volume.volume_id, {}, "/staging", CAPABILITY)
            await client.node_stage_volume(staged)
            target = short_path / "target"
            published = csi.NodePublishVolumeRequest(volume.volume_id, {}, "/staging", str(target), CAPABILITY)
            await client.node_publish_volume(published)
            assert target.is_dir()
            stats = await client.node_get_volume_stats(csi.NodeGetVolumeStatsRequest(volume.volume_id, str(target)))
            assert [(one.total, one.unit) for one in stats.usage] == [(5 << 20, csi.Unit.BYTES)]
            await client.node_unpublish_volume(csi.NodeUnpublishVolumeRequest(volume.volume_id, str(target)))
            await client.node_unstage_volume(csi.NodeUnstageVolumeRequest(volume.volume_id, "/staging"))
            await client.delete_volume(csi.DeleteVolumeRequest(volume.volume_id))
            assert (driver.volumes, driver.staged, driver.targets) == ({}, {}, {})
            assert not target.exists()
            assert driver.requests("CreateVolume")[0].secrets == {"key": "hidden"}

    asyncio.run(main())


def test_errors_have_the_code_and_the_text_of_the_driver(short_path: Path) -> None:
    async def main() -> None:
        driver = FakeDriver(SystemClock())
        async with served(short_path / "csi.sock", driver) as client:
            await client.create_volume(request())
            with pytest.raises(CsiError) as caught:
                await client.create_volume(request(size=7))
            assert (caught.value.code, caught.value.message) == ("ALREADY_EXISTS", "pvc-1 has another size")
            assert str(caught.value) == "rpc error: code = AlreadyExists desc = pvc-1 has another size"

    asyncio.run(main())


def test_calls_that_a_driver_does_not_have_are_unimplemented(short_path: Path) -> None:
    class Small:
        async def node_get_info(self, request: csi.Empty) -> csi.NodeGetInfoResponse:
            return csi.NodeGetInfoResponse("here", 3)

    async def main() -> None:
        path = short_path / "csi.sock"
        server = csi_server(path, handlers(Small()))
        await server.start()
        client = CsiClient(Connection(path), clock=SystemClock())
        assert await client.node_get_info() == csi.NodeGetInfoResponse("here", 3)
        assert await code_of(client.get_plugin_info()) == "UNIMPLEMENTED"
        await client.close()
        await server.stop()

    asyncio.run(main())


def test_a_driver_that_is_not_there_is_unavailable(short_path: Path) -> None:
    async def main() -> None:
        client = CsiClient(Connection(short_path / "none.sock"), seconds=2.0, clock=SystemClock())
        assert await code_of(client.get_plugin_info()) in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        await client.close()

    asyncio.run(main())


def test_a_call_that_takes_too_long_ends_and_the_driver_goes_on() -> None:
    async def test(driver: FakeDriver, client: CsiClient) -> None:
        driver.delay("CreateVolume", 20.0)
        assert await code_of(client.create_volume(request())) == "DEADLINE_EXCEEDED"
        assert driver.volumes == {}
        await asyncio.sleep(6.0)
        assert list(driver.volumes) == ["volume-1"]

    in_memory(test)


def test_an_answer_that_is_lost_is_found_by_asking_again() -> None:
    async def test(driver: FakeDriver, client: CsiClient) -> None:
        driver.lose("CreateVolume")
        assert await code_of(client.create_volume(request())) == "UNAVAILABLE"
        assert (await client.create_volume(request())).volume_id == "volume-1"
        assert len(driver.volumes) == 1

    in_memory(test)


@pytest.mark.parametrize(
    ("code", "final", "infeasible"),
    [
        ("CANCELLED", False, False),
        ("DEADLINE_EXCEEDED", False, False),
        ("UNAVAILABLE", False, False),
        ("RESOURCE_EXHAUSTED", False, False),
        ("ABORTED", False, False),
        ("INTERNAL", True, False),
        ("INVALID_ARGUMENT", True, True),
        ("OUT_OF_RANGE", True, True),
        ("NOT_FOUND", True, True),
        ("ALREADY_EXISTS", True, False),
    ],
)
def test_codes_say_whether_the_driver_may_still_be_at_it(code: str, final: bool, infeasible: bool) -> None:
    error = CsiError(code, "text")
    assert (error.is_final, error.is_infeasible) == (final, infeasible)


def test_waiting_goes_on_until_the_driver_is_there_and_ready() -> None:
    async def test(driver: FakeDriver, client: CsiClient) -> None:
        driver.is_alive, driver.ready = False, False
        waits: list[str] = []
        waiting = asyncio.ensure_future(client.wait_until_ready(lambda: waits.append("told")))
        await asyncio.sleep(1.0)
        assert not waits
        await asyncio.sleep(20.0)
        assert not waiting.done()
        assert waits == ["told"]
        driver.is_alive = True
        await asyncio.sleep(8.0)
        assert not waiting.done()
        driver.ready = None
        await asyncio.wait_for(waiting, 6.0)
        driver.fail("Probe", "FAILED_PRECONDITION", "no device")
        assert await code_of(client.wait_until_ready(lambda: None)) == "FAILED_PRECONDITION"

    in_memory(test)


def test_a_driver_without_controller_is_not_asked_for_its_calls() -> None:
    async def test(driver: FakeDriver, client: CsiClient) -> None:
        info = await client.info()
        assert info.controller == frozenset()
        assert driver.requests("ControllerGetCapabilities") == []
        assert not info.has_topology
        driver.fail("NodeGetCapabilities", "UNIMPLEMENTED")
        assert (await client.info()).node == frozenset()
        driver.fail("NodeGetCapabilities", "INTERNAL")
        assert await code_of(client.info()) == "INTERNAL"

    in_memory(test, controller=())


def test_lists_are_read_page_by_page() -> None:
    async def test(driver: FakeDriver, client: CsiClient) -> None:
        for number in range(5):
            await client.create_volume(request(f"pvc-{number}"))
        found = await client.list_volumes(max_entries=2)
        assert [one.volume.volume_id for one in found if one.volume] == [f"volume-{n}" for n in range(1, 6)]
        assert [one.starting_token for one in driver.requests("ListVolumes")] == ["", "2", "4"]

    in_memory(test)


def test_an_answer_without_a_volume_is_an_error() -> None:
    class Empty(FakeDriver):
        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.VolumeResponse:
            return csi.VolumeResponse(csi.Volume(5))

    async def main() -> None:
        clock = LoopClock(0.0)
        client = CsiClient(Empty(clock).connection(), clock=clock)
        assert await code_of(client.create_volume(request())) == "INTERNAL"

    virtual_time.run(main())


def test_calls_are_observed_with_code_and_time_and_secrets_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, str, float]] = []

    async def main() -> None:
        clock = LoopClock(0.0)
        driver = FakeDriver(clock)
        client = CsiClient(driver.connection(), clock=clock, observe=lambda *what: seen.append(what))
        driver.delay("CreateVolume", 3.0)
        await client.create_volume(request(secrets={"password": "hunter2"}))
        driver.fail("DeleteVolume", "INTERNAL", "broken")
        assert await code_of(client.delete_volume(csi.DeleteVolumeRequest("v", {"password": "hunter2"}))) == "INTERNAL"

    with caplog.at_level(logging.DEBUG):
        virtual_time.run(main())
    assert seen == [
        ("/csi.v1.Controller/CreateVolume", "OK", 3.0),
        ("/csi.v1.Controller/DeleteVolume", "INTERNAL", 0.0),
    ]
    assert "broken" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_kubelet_finds_the_driver_by_its_registration(short_path: Path) -> None:
    async def main() -> None:
        registry = short_path / "plugins_registry"
        server = RegistrationServer(registry, "local.csi.bayplan.dev", Path("/plugins/csi.sock"))
        await server.start()
        path = registration_socket(registry, "local.csi.bayplan.dev")
        assert path.name == "local.csi.bayplan.dev-reg.sock"
        kubelet = Connection(path)
        info = await kubelet.call(GET_INFO, csi.Empty(), csi.PluginInfo, 5.0)
        assert info == csi.PluginInfo("CSIPlugin", "local.csi.bayplan.dev", "/plugins/csi.sock", ("1.0.0",))
        assert server.status is None
        await kubelet.call(NOTIFY, csi.RegistrationStatus(False, "no such node"), csi.Empty, 5.0)
        assert await asyncio.wait_for(server.wait(), 5.0) == csi.RegistrationStatus(False, "no such node")
        await kubelet.close()
        await server.stop()
        assert not path.exists()
        kubelet = Connection(path)
        with pytest.raises(RpcError):
            await kubelet.call(GET_INFO, csi.Empty(), csi.PluginInfo, 2.0)
        await kubelet.close()

    asyncio.run(main())
