"""The health of devices is what their drivers said last, for as long as it holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.kubelet.dynamic_resources.claims import ClaimState, PreparedDevice
from bayplan.kubelet.dynamic_resources.health import DeviceHealth, HealthCache
from bayplan.kubelet.dynamic_resources.health_watch import RETRY_SECONDS, HealthWatch
from bayplan.kubelet.dynamic_resources.messages import MESSAGES
from bayplan.kubelet.dynamic_resources.shown_devices import claimed_devices, health_statuses
from bayplan.support.clock import LoopClock
from bayplan.support.grpc.errors import RpcError
from bayplan.support.virtual_time import run

SOCKET = Path("/one.sock")


def test_a_report_holds_as_long_as_its_driver_says(tmp_path: Path) -> None:
    async def main() -> None:
        clock = LoopClock(1_767_323_045.0)
        cache = HealthCache(tmp_path / "state", clock)
        short, usual = DeviceHealth("p", "a", "Healthy", "fine", 10.0), DeviceHealth("p", "b", "Unhealthy", "hot")
        assert [one.device for one in cache.update("gpu", [short, usual])] == ["a", "b"]
        assert cache.update("gpu", [short, usual]) == [], "nothing is new"
        await asyncio.sleep(10.5)
        assert cache.of("gpu", "p", "a") == DeviceHealth("p", "a"), "unknown, without the old message"
        assert cache.of("gpu", "p", "b").message == "hot"
        assert [(one.device, one.health) for one in cache.update("gpu", [usual])] == [("a", "Unknown")]
        assert [one.message for one in cache.update("gpu", [DeviceHealth("p", "b", "Unhealthy", "hotter")])] == [
            "hotter"
        ]
        cache.clear("gpu")
        assert cache.of("gpu", "p", "b").health == "Unknown"

    run(main())


def test_health_outlives_the_kubelet_in_kubelets_own_form(tmp_path: Path) -> None:
    async def main() -> None:
        file, clock = tmp_path / "state", LoopClock(1_767_323_045.0)
        HealthCache(file, clock).update("gpu", [DeviceHealth("p", "a", "Healthy", "fine")])
        assert json.loads(file.read_bytes()) == {
            "gpu": {
                "Devices": {
                    "p/a": {
                        "PoolName": "p",
                        "DeviceName": "a",
                        "Health": "Healthy",
                        "LastUpdated": "2026-01-02T03:04:05Z",
                        "HealthCheckTimeout": 30_000_000_000,
                        "Message": "fine",
                    }
                }
            }
        }
        after = HealthCache(file, clock)
        after.load()
        assert after.of("gpu", "p", "a").message == "fine"
        file.write_text('{"gpu":{"Devices":{"p/a":{}}}}')
        broken = HealthCache(file, clock)
        broken.load()
        assert broken.of("gpu", "p", "a").health == "Unknown"

    run(main())


class FakeDriver:
    """Says of its device what `said` holds, stream by stream, and then that it has no such service."""

    def __init__(self, *said: list[dict[str, Any]]) -> None:
        self.said = list(said)
        self.streams = 0

    async def stream(self, method: str, request: Any, answer: type[Any]) -> AsyncIterator[Any]:
        assert method == "/v1alpha1.DRAResourceHealth/NodeWatchResources"
        self.streams += 1
        if not self.said:
            raise RpcError("UNIMPLEMENTED", "unknown service")
        for fields in self.said.pop(0):
            yield answer(devices=[{"device": {"pool_name": "p", "device_name": "a"}, **fields}])
            await asyncio.sleep(1)


def test_a_drivers_stream_is_followed_and_asked_for_again_when_it_ends(tmp_path: Path) -> None:
    async def main() -> None:
        clock = LoopClock(1_767_323_045.0)
        cache = HealthCache(tmp_path / "state", clock)
        watch = HealthWatch(cache, clock)
        seen: list[tuple[str, str, int]] = []
        watch.on_change = lambda driver, found: seen.extend((driver, one.health, len(one.message)) for one in found)
        driver = FakeDriver([{"health": 1}, {"health": 2, "message": "é" * 600}], [{"health": 7}])
        watch.start("gpu", SOCKET, driver)
        await asyncio.sleep(1.5)
        assert cache.of("gpu", "p", "a").message == "é" * 510 + "...", "1,024 bytes are enough, in whole letters"
        await asyncio.sleep(1)
        assert cache.of("gpu", "p", "a").health == "Unknown", "who says no more is not believed any longer"
        await asyncio.sleep(3 * RETRY_SECONDS)
        assert seen == [("gpu", "Healthy", 0), ("gpu", "Unhealthy", 513), ("gpu", "Unknown", 0)]
        assert driver.streams == 3
        await watch.close()
        await asyncio.sleep(2 * RETRY_SECONDS)
        assert driver.streams == 3

    run(main())


def test_the_enumeration_and_the_fields_have_the_numbers_of_the_interface() -> None:
    device = MESSAGES["DeviceHealth"](health=2, last_updated_time=3, health_check_timeout_seconds=4, message="m")
    assert device.SerializeToString() == bytes([0x10, 2, 0x18, 3, 0x20, 4, 0x2A, 1]) + b"m"


def container(*claims: dict[str, str]) -> core_v1.Container:
    return from_tree(core_v1.Container, {"name": "c", "resources": {"claims": list(claims)}})


def test_a_container_shows_the_health_of_the_devices_of_its_requests() -> None:
    one = PreparedDevice("p", "a", ("r",), ("v/c=0", "v/c=1"))
    same = PreparedDevice("p", "same", ("r",), ("v/c=0",))
    other = PreparedDevice("p", "b", ("s",))
    claim = ClaimState("uid", "made", "d", {"gpu": (one, same, other)})
    known = {"a": DeviceHealth("p", "a", "Unhealthy", "hot")}

    def shown(entry: str, request: str) -> list[tuple[str, list[tuple[str, str, str | None]]]]:
        found = health_statuses([(entry, request, claim)], lambda _, pool, name: known.get(name, DeviceHealth("", "")))
        return [(one.name, [(each.resource_id, each.health, each.message) for each in one.resources]) for one in found]

    hot, unknown = ("v/c=0", "Unhealthy", "hot"), ("gpu/p/b", "Unknown", None)
    assert shown("x", "r") == [("claim:x/r", [hot])]
    assert shown("x", "r/large") == [("claim:x/r/large", [hot])]
    assert shown("x", "s") == [("claim:x/s", [unknown])]
    assert shown("x", "") == [("claim:x", [hot, unknown])]
    assert shown("x", "t") == []
    assert shown("", "") == [], "extended resources are shown by no name of a claim"
    [quiet] = health_statuses([("x", "r", claim)], lambda *_: known["a"], with_messages=False)
    assert [(each.health, each.message) for each in quiet.resources] == [("Unhealthy", None)]


def test_monitors_see_each_claim_of_a_container_whole_and_once() -> None:
    device = PreparedDevice("p", "a", ("r",), ("v/c=0",), "share")
    claim = ClaimState("uid", "made", "d", {"gpu": (device,)})
    assert claimed_devices([("x", "r", claim), ("x", "s", claim)]) == [
        ("made", "d", (("gpu", "p", "a", ("v/c=0",), "share"),))
    ]
