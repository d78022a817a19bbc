"""Claims are prepared before their pods start and taken back after the last of them, also by the kubelet that comes next."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, resource_v1
from bayplan.client import Client
from bayplan.kubelet.dynamic_resources.drivers import WIPING_DELAY, DraDrivers
from bayplan.kubelet.dynamic_resources.errors import ClaimError
from bayplan.kubelet.dynamic_resources.health import DeviceHealth, HealthCache
from bayplan.kubelet.dynamic_resources.health_watch import HealthWatch
from bayplan.kubelet.dynamic_resources.manager import DraManager
from bayplan.kubelet.dynamic_resources.messages import MESSAGES
from bayplan.kubelet.dynamic_resources.metrics import DraMetrics
from bayplan.kubelet.plugin_watcher import PluginRefused
from bayplan.kubelet.resource_managers.errors import CheckpointError
from bayplan.support.clock import LoopClock
from bayplan.support.grpc.errors import RpcError
from bayplan.support.metrics.instruments import Registry
from bayplan.support.virtual_time import run

ONE, TWO = Path("/one.sock"), Path("/two.sock")


class FakeApi:
    """The claim `c` of the pods `a` and `b`, and what was deleted."""

    def __init__(self) -> None:
        self.uid = "claim"
        self.deleted: list[str] = []

    async def get(self, kind: type[Any], name: str, namespace: str) -> resource_v1.ResourceClaim:
        pods = [{"resource": "pods", "name": each, "uid": each} for each in "ab"]
        results = [{"request": "r", "driver": "gpu", "pool": "n", "device": "0"}]
        status = {"reservedFor": pods, "allocation": {"devices": {"results": results}}}
        tree = {"metadata": {"name": name, "namespace": namespace, "uid": self.uid}, "status": status}
        return from_tree(resource_v1.ResourceClaim, tree)

    async def raw(self, method: str, path: str, query: Mapping[str, str]) -> bytes:
        self.deleted.append(query["fieldSelector"])
        return b""


class FakeDriver:
    """Prepares every claim, unless it is told what to say. It implements `Connection`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, list[str]]] = []
        self.error = ""
        self.skips = False
        self.fails = False
        self.said: list[Any] = []

    def connect(self, socket: Path) -> FakeDriver:
        self.socket = socket
        return self

    async def call(self, method: str, request: Any, answer: type[Any], seconds: float) -> Any:
        service, _, name = method.removeprefix("/k8s.io.kubelet.pkg.apis.dra.").partition("/")
        self.calls.append((service, name, [one.uid for one in request.claims]))
        if self.fails:
            raise RpcError("UNAVAILABLE", "gone")
        if self.skips:
            return answer()
        if name == "NodeUnprepareResources":
            values = {"value": MESSAGES["UnpreparedClaim"](error=self.error)}
        else:
            device = MESSAGES["Device"](pool_name="n", device_name="0", request_names=["r"], cdi_device_ids=["v/c=0"])
            values = {"value": MESSAGES["PreparedClaim"](devices=[device], error=self.error)}
        return answer(claims=[{"key": one.uid, **values} for one in request.claims])

    async def stream(self, method: str, request: Any, answer: type[Any]) -> AsyncIterator[Any]:
        for message in self.said:
            yield message
        raise RpcError("UNIMPLEMENTED", "it says nothing of its devices")

    async def close(self) -> None:
        """Nothing is open."""


class Node:
    """A kubelet's part, with a driver."""

    def __init__(self, directory: Path) -> None:
        self.api, self.driver, self.clock = FakeApi(), FakeDriver(), LoopClock(1_767_323_045.0)
        self.file = directory / "dra_manager_state"
        self.present: set[str] = {"a", "b"}
        client = cast("Client", self.api)
        health = HealthWatch(HealthCache(directory / "dra_health_state", self.clock), self.clock)
        self.registry = Registry()
        metrics = DraMetrics(self.registry, self.clock)
        self.drivers = DraDrivers(client, "real-1", self.driver.connect, self.clock, health, metrics)
        self.manager = DraManager(client, self.drivers, self.file, self.clock, lambda: self.present, metrics)

    async def register(self, endpoint: Path = ONE, *versions: str) -> None:
        await self.drivers.register("gpu", endpoint, versions or ("v1.DRAPlugin", "v1beta1.DRAPlugin"))


def play(directory: Path, test: Callable[[Node], Awaitable[None]]) -> None:
    async def main() -> None:
        node = Node(directory)
        await test(node)
        await node.drivers.close()

    run(main())


def pod(name: str) -> core_v1.Pod:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "x"}]}}
    spec = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}], "containers": [container]}
    return from_tree(core_v1.Pod, {"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec})


def test_a_claim_is_prepared_once_and_taken_back_after_its_last_pod(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await node.register()
        for name in ("a", "b", "a"):
            await node.manager.prepare(pod(name))
        assert node.driver.calls == [("v1.DRAPlugin", "NodePrepareResources", ["claim"])]
        assert node.manager.cdi_devices(pod("a"), pod("a").spec.containers[0]) == ("v/c=0",)
        assert [
            (entry, request, one.name)
            for entry, request, one in node.manager.claims_of(pod("a"), pod("a").spec.containers[0])
        ] == [("x", "", "c")]
        assert node.manager.users("gpu", [DeviceHealth("n", "0")]) == {"a", "b"}
        assert node.manager.users("gpu", [DeviceHealth("n", "1")]) == set()
        await node.manager.unprepare("a")
        assert len(node.driver.calls) == 1
        await node.manager.unprepare("b")
        await node.manager.unprepare("b")
        assert node.driver.calls[1:] == [("v1.DRAPlugin", "NodeUnprepareResources", ["claim"])]
        with pytest.raises(ClaimError, match="c is not prepared"):
            node.manager.cdi_devices(pod("a"), pod("a").spec.containers[0])

    play(tmp_path, test)


def test_what_is_prepared_outlives_the_kubelet_in_kubelets_own_form(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await node.register()
        await node.manager.prepare(pod("a"))
        tree = json.loads(node.file.read_bytes())
        device = '{"PoolName":"n","DeviceName":"0","ShareID":null,"RequestNames":["r"],"CDIDeviceIDs":["v/c=0"]}'
        assert tree["Data"] == (
            '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":[{"ClaimUID":'
            f'"claim","ClaimName":"c","Namespace":"d","PodUIDs":{{"a":{{}}}},"DriverState":{{"gpu":{{"Devices":[{device}]}}}}}}]}}'
        )
        assert tree["Checksum"] == zlib.crc32(tree["Data"].encode())
        after = Node(tmp_path)
        after.manager.load()
        await after.manager.prepare(pod("a"))
        assert after.driver.calls == [], "its driver need not even be there"
        assert after.manager.cdi_devices(pod("a"), pod("a").spec.containers[0]) == ("v/c=0",)
        node.file.write_text(node.file.read_text().replace("claim", "other"))
        with pytest.raises(CheckpointError, match="corrupted"):
            Node(tmp_path).manager.load()

    play(tmp_path, test)


def test_what_pods_have_left_that_are_gone_is_taken_back(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await node.register()
        await node.manager.prepare(pod("a"))
        node.present.discard("a")
        tasks = asyncio.ensure_future(node.manager.run())
        await asyncio.sleep(61)
        assert [call[1] for call in node.driver.calls] == ["NodePrepareResources", "NodeUnprepareResources"]
        tasks.cancel()

    play(tmp_path, test)


def test_what_is_done_for_claims_is_counted_under_kubelets_names(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await node.register()
        node.driver.fails = True
        with pytest.raises(ClaimError):
            await node.manager.prepare(pod("a"))
        node.driver.fails = False
        await node.manager.prepare(pod("a"))
        text = node.registry.render().decode()
        prepare = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
        for code in ("Unavailable", "OK"):
            labels = f'driver_name="gpu",grpc_status_code="{code}",method_name="{prepare}"'
            assert f"dra_grpc_operations_duration_seconds_count{{{labels}}} 1\n" in text
        for is_error in ("true", "false"):
            labels = f'is_error="{is_error}",operation_name="PrepareResources"'
            assert f"dra_operations_duration_seconds_count{{{labels}}} 1\n" in text
        assert 'dra_resource_claims_in_use{driver_name="gpu"} 1\n' in text
        assert 'dra_resource_claims_in_use{driver_name="<any>"} 1\n' in text
        await node.manager.unprepare("a")
        text = node.registry.render().decode()
        assert 'dra_resource_claims_in_use{driver_name="<any>"} 0\n' in text
        assert 'driver_name="gpu"} ' not in text

    play(tmp_path, test)


def test_a_driver_that_is_not_there_leaves_nothing_to_be_taken_back(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        with pytest.raises(ClaimError, match="DRA driver gpu is not registered"):
            await node.manager.prepare(pod("a"))
        await node.manager.unprepare("a")
        assert not node.file.exists()

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        ({"error": "no power"}, "NodePrepareResources failed for ResourceClaim c: no power"),
        ({"skips": True}, "NodePrepareResources skipped 1 ResourceClaims"),
        ({"fails": True}, "NodePrepareResources: rpc error: code = Unavailable desc = gone"),
    ],
)
def test_what_a_driver_cannot_do_is_said_and_tried_again(tmp_path: Path, trouble: dict[str, Any], text: str) -> None:
    async def test(node: Node) -> None:
        await node.register()
        for name, value in trouble.items():
            setattr(node.driver, name, value)
        with pytest.raises(ClaimError, match=text):
            await node.manager.prepare(pod("a"))
        with pytest.raises(ClaimError, match="NodeUnprepareResources"):
            await node.manager.unprepare("a")  # the driver may have done it all the same
        for name in trouble:
            setattr(node.driver, name, type(trouble[name])())
        await node.manager.prepare(pod("a"))
        assert node.manager.cdi_devices(pod("a"), pod("a").spec.containers[0])

    play(tmp_path, test)


def test_a_claim_of_the_same_name_waits_for_the_end_of_the_old_one(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await node.register()
        await node.manager.prepare(pod("a"))
        node.api.uid = "newer"
        with pytest.raises(ClaimError, match="old ResourceClaim with same name c and different UID claim still exists"):
            await node.manager.prepare(pod("b"))

    play(tmp_path, test)


def test_the_slices_of_a_driver_that_stays_away_are_deleted(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        watching = asyncio.ensure_future(node.drivers.run())
        await asyncio.sleep(0.5)
        assert node.api.deleted == ["spec.nodeName=real-1"], "nobody knows yet which drivers come back"
        await node.register(ONE, "v1beta1.DRAPlugin")
        await node.register(TWO)
        await node.drivers.deregister("gpu", ONE)
        await node.manager.prepare(pod("a"))
        assert node.driver.calls[-1][0] == "v1.DRAPlugin"
        await node.drivers.deregister("gpu", TWO)
        await asyncio.sleep(WIPING_DELAY - 5)
        await node.register()
        await asyncio.sleep(WIPING_DELAY)
        assert len(node.api.deleted) == 1, "it came back in time"
        await node.drivers.deregister("gpu", ONE)
        await asyncio.sleep(WIPING_DELAY + 2)
        assert node.api.deleted[1:] == ["spec.nodeName=real-1,spec.driver=gpu"]
        watching.cancel()

    play(tmp_path, test)


def test_only_drivers_whose_interface_is_known_are_taken(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        assert "empty list of supported gRPC services" in node.drivers.refusal(ONE, "gpu", "/one.sock", ())
        assert "none of services supported by the plugin" in node.drivers.refusal(ONE, "gpu", "/one.sock", ("v9",))
        assert node.drivers.refusal(ONE, "gpu", "/one.sock", ("v9", "v1beta1.DRAPlugin")) == ""
        await node.register()
        with pytest.raises(PluginRefused, match="already registered"):
            await node.register()

    play(tmp_path, test)
