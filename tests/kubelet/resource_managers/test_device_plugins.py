"""Device plugins over unix sockets: they register, tell devices, allocate, fall ill, and come again; and monitors ask what pods have."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.admission import Rejection
from bayplan.kubelet.core.containers.allocation import ContainerAllocation
from bayplan.kubelet.core.pod_state import PodState
from bayplan.kubelet.plugin_watcher import PluginWatcher
from bayplan.kubelet.resource_managers import pod_resources
from bayplan.kubelet.resource_managers.container_manager import ContainerManager, Managers, NodeView
from bayplan.kubelet.resource_managers.devices.claimed_devices import ClaimedDevice, ClaimedDevices
from bayplan.kubelet.resource_managers.devices.device_checkpoint import DEVICE_STATE
from bayplan.kubelet.resource_managers.devices.plugin_server import KIND, PluginServer
from bayplan.kubelet.resource_managers.make_managers import DEVICE_PLUGINS, Setting, make_managers
from bayplan.kubelet.resource_managers.manager_metrics import ManagerMetrics
from bayplan.kubelet.resource_managers.pod_resources import PodResourcesServer
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import Device
from bayplan.support.clock import SystemClock
from bayplan.support.grpc.calls import Connection
from bayplan.support.grpc.errors import RpcError
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from tests.kubelet.resource_managers.cases import pod
from tests.kubelet.resource_managers.device_plugin import GPU, DevicePlugin
from tests.kubelet.resource_managers.played_resources import RESERVED, guaranteed, machine, memory_configuration
from tests.kubelet.waiting import eventually


class Kubelet:
    """The part of a kubelet that has to do with devices. `now` is its clock for grace periods."""

    def __init__(self, root: Path, *, call_seconds: float = 10) -> None:
        self.root = root
        self.now = 0.0
        self.pods: list[core_v1.Pod] = []
        self.sick: set[str] = set()
        self.is_ready = True
        self.ran: set[str] = set()
        setting = Setting(
            memory_configuration(),
            machine(),
            RESERVED,
            root,
            lambda: self.now,
            lambda uid, name: not self.is_ready and name in self.ran,
        )
        self.managers: Managers = make_managers(setting)
        self.devices = self.managers.devices
        self.registry = Registry()
        self.server = PluginServer(
            root / DEVICE_PLUGINS,
            self.devices,
            self.sick.update,
            call_seconds=call_seconds,
            metrics=ManagerMetrics(self.registry),
        )
        self.watcher = PluginWatcher(root / "plugins_registry", {KIND: self.server}, SystemClock())
        clock = SystemClock()
        view = NodeView(lambda: self.pods, lambda uid: PodState(uid), lambda: self.is_ready)
        runtime = SimulatedRuntime(clock, SeededRandomness(1))
        self.manager = ContainerManager(self.managers, view, self.server.ask, runtime, clock)
        self.monitored = PodResourcesServer(root / "pr.sock", self.managers, lambda: self.pods, clock)

    async def __aenter__(self) -> Kubelet:
        self.manager.start()
        await self.server.start()
        await self.monitored.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.manager.close()
        await self.monitored.stop()
        await self.server.stop()

    async def admit(self, wanted: core_v1.Pod) -> Rejection | None:
        """What becomes of a pod."""
        decided: asyncio.Future[Rejection | None] = asyncio.get_running_loop().create_future()

        def done(rejection: Rejection | None) -> None:
            if rejection is None:
                self.pods.append(wanted)
            decided.set_result(rejection)

        self.manager.admit(wanted, done)
        return await decided

    async def ask(self, method: str, request: Any, answer: type[Any]) -> Any:
        """What the pod resources API says."""
        connection = Connection(self.root / "pr.sock")
        try:
            return await connection.call(method, request, answer, 10)
        finally:
            await connection.close()

    @property
    def socket(self) -> Path:
        """Where plugins register."""
        return self.root / DEVICE_PLUGINS / "kubelet.sock"


def capacity(kubelet: Kubelet) -> tuple[int | None, int | None]:
    """(all devices, healthy ones)."""
    found = kubelet.devices.capacity()
    return found.capacity.get(GPU), found.allocatable.get(GPU)


def with_plugin(
    root: Path, test: Callable[[Kubelet, DevicePlugin], Awaitable[None]], *, call_seconds: float = 10, **fields: Any
) -> None:
    """Run a test with a kubelet and a plugin with the devices a and b that has registered."""

    async def main() -> None:
        async with Kubelet(root, call_seconds=call_seconds) as kubelet:
            plugin = DevicePlugin(
                root / DEVICE_PLUGINS / "gpu.sock", devices={"a": "Healthy", "b": "Healthy"}, **fields
            )
            async with plugin.running():
                assert await plugin.register(kubelet.socket) == ""
                await eventually(lambda: capacity(kubelet) == (2, 2), "devices")
                await test(kubelet, plugin)

    asyncio.run(main())


def test_a_container_gets_what_its_plugin_says(tmp_path: Path) -> None:
    async def case(kubelet: Kubelet, plugin: DevicePlugin) -> None:
        wanted = pod(guaranteed("app", gpus="1"))
        assert await kubelet.admit(wanted) is None
        found = await kubelet.manager.container(wanted, wanted.spec.containers[0])
        assert isinstance(found, ContainerAllocation)
        assert (found.environment, found.annotations) == ({"VENDOR": "a"}, {"vendor": "yes"})
        assert [(each.container_path, each.host_path, each.read_only) for each in found.mounts] == [
            ("/lib/vendor", "/opt/vendor", True)
        ]
        assert found.devices == (Device("/dev/a", "/dev/va", "rw"),)
        assert found.cdi_devices == ("example.com/gpu=a",)
        assert plugin.calls == [("Allocate", ("a",)), ("PreStartContainer", ("a",))]

    with_plugin(tmp_path, case, pre_start=True)


def test_a_plugin_may_prefer_devices(tmp_path: Path) -> None:
    async def case(kubelet: Kubelet, plugin: DevicePlugin) -> None:
        assert await kubelet.admit(pod(guaranteed("app", gpus="1"))) is None
        assert plugin.calls == [("GetPreferredAllocation", (("a", "b"), 1)), ("Allocate", ("b",))]

    with_plugin(tmp_path, case, prefers=("b",))


def test_init_containers_give_their_devices_on(tmp_path: Path) -> None:
    async def case(kubelet: Kubelet, plugin: DevicePlugin) -> None:
        wanted = pod(guaranteed("app", gpus="2"), init=(guaranteed("init", gpus="1"),))
        assert await kubelet.admit(wanted) is None
        assert kubelet.devices.in_use(GPU) == {"a", "b"}
        assert [devices for _, devices in plugin.calls] == [("a",), ("a", "b")]

    with_plugin(tmp_path, case)


def test_sick_devices_are_not_given_away_and_their_pods_are_named(tmp_path: Path) -> None:
    async def case(kubelet: Kubelet, plugin: DevicePlugin) -> None:
        wanted = pod(guaranteed("app", gpus="1"))
        assert await kubelet.admit(wanted) is None
        plugin.set(a="Unhealthy")
        await eventually(lambda: capacity(kubelet) == (2, 1), "a sick device")
        assert kubelet.sick == {"pod"}
        assert kubelet.manager.statuses(wanted)["app"][0].resources[0].health == "Unhealthy"
        assert await kubelet.admit(pod(guaranteed("next", gpus="1"), uid="next")) is None
        refused = await kubelet.admit(pod(guaranteed("last", gpus="1"), uid="last"))
        assert refused is not None
        assert "requested number of devices unavailable" in refused.message
        plugin.set(a="Healthy")
        await eventually(lambda: capacity(kubelet) == (2, 2), "health")

    with_plugin(tmp_path, case)


def test_devices_of_a_plugin_that_goes_are_shown_for_five_minutes(tmp_path: Path) -> None:
    async def main() -> None:
        async with Kubelet(tmp_path) as kubelet:
            plugin = DevicePlugin(tmp_path / DEVICE_PLUGINS / "gpu.sock", devices={"a": "Healthy"})
            async with plugin.running():
                await plugin.register(kubelet.socket)
                await eventually(lambda: capacity(kubelet) == (1, 1), "devices")
            await eventually(lambda: capacity(kubelet) == (1, 0), "the end of the plugin")
            refused = await kubelet.admit(pod(guaranteed("app", gpus="1")))
            assert refused is not None
            assert "no healthy devices present; cannot allocate unhealthy devices example.com/gpu" in refused.message
            kubelet.now = 300.5
            assert kubelet.devices.capacity().removed == (GPU,)
            assert kubelet.devices.capacity().removed == ()
            async with plugin.running():
                await plugin.register(kubelet.socket)
                await eventually(lambda: capacity(kubelet) == (1, 1), "the plugin again")

    asyncio.run(main())


def test_a_plugin_that_registers_again_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    async def case(kubelet: Kubelet, plugin: DevicePlugin) -> None:
        other = DevicePlugin(tmp_path / DEVICE_PLUGINS / "new.sock", devices={"c": "Healthy"})
        async with other.running():
            assert await other.register(kubelet.socket) == ""
            registrations = kubelet.registry.counter("kubelet_device_plugin_registration_total", "", ("resource_name",))
            assert registrations.labels(GPU).value == 2
            await eventually(lambda: capacity(kubelet) == (1, 1), "the new plugin")
            plugin.set(d="Healthy")
            assert await kubelet.admit(pod(guaranteed("app", gpus="1"))) is None
            assert (plugin.calls, other.calls) == ([], [("Allocate", ("c",))])

    with_plugin(tmp_path, case)


def test_a_plugin_that_hangs_has_its_pods_rejected_in_time_and_others_go_on(tmp_path: Path) -> None:
    async def case(kubelet: Kubelet, plugin: DevicePlugin) -> None:
        stuck = asyncio.ensure_future(kubelet.admit(pod(guaranteed("app", gpus="1"), uid="stuck")))
        await asyncio.sleep(0)
        assert await kubelet.admit(pod(guaranteed("other"), uid="other")) is None
        assert not stuck.done()
        refused = await stuck
        assert refused is not None
        assert refused.reason == "UnexpectedAdmissionError"
        assert "code = DeadlineExceeded" in refused.message
        assert kubelet.devices.in_use(GPU) == frozenset()

    with_plugin(tmp_path, case, call_seconds=0.5, hangs=True)


def test_a_plugin_that_goes_while_it_is_asked_has_its_pod_rejected(tmp_path: Path) -> None:
    async def case(kubelet: Kubelet, plugin: DevicePlugin) -> None:
        asked = asyncio.ensure_future(kubelet.admit(pod(guaranteed("app", gpus="1"))))
        await eventually(lambda: bool(plugin.calls), "the question")
        await kubelet.server.leave(GPU)
        refused = await asked
        assert refused is not None
        assert refused.reason == "UnexpectedAdmissionError"

    with_plugin(tmp_path, case, hangs=True)


@pytest.mark.parametrize(
    ("version", "resource", "message"),
    [
        (
            "v1alpha",
            GPU,
            'requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]',
        ),
        ("v1beta1", "gpu", 'the ResourceName "gpu" is invalid'),
        ("v1beta1", "requests.example.com/gpu", "is invalid"),
    ],
)
def test_plugins_that_make_no_sense_are_refused(tmp_path: Path, version: str, resource: str, message: str) -> None:
    async def main() -> None:
        async with Kubelet(tmp_path) as kubelet:
            plugin = DevicePlugin(tmp_path / DEVICE_PLUGINS / "gpu.sock", resource)
            assert message in await plugin.register(kubelet.socket, version)
            assert kubelet.devices.capacity().capacity == {}

    asyncio.run(main())


def test_a_new_kubelet_removes_old_sockets_and_keeps_devices_of_running_pods(tmp_path: Path) -> None:
    async def main() -> None:
        wanted = pod(guaranteed("app", gpus="1"))
        directory = tmp_path / DEVICE_PLUGINS
        async with Kubelet(tmp_path) as kubelet:
            plugin = DevicePlugin(directory / "gpu.sock", devices={"a": "Healthy"}, numa={"a": 1})
            async with plugin.running():
                await plugin.register(kubelet.socket)
                await eventually(lambda: capacity(kubelet) == (1, 1), "devices")
                assert await kubelet.admit(wanted) is None
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(directory / "old.sock"))
        again = Kubelet(tmp_path)
        again.is_ready, again.ran = False, {"app"}
        async with again:
            assert sorted(each.name for each in directory.iterdir()) == ["kubelet.sock", DEVICE_STATE]
            assert capacity(again) == (0, 0)
            assert await again.admit(wanted) is None
            again.is_ready = True
            assert again.devices.in_use(GPU) == {"a"}
            found = await again.manager.container(wanted, wanted.spec.containers[0])
            assert found.environment == {"VENDOR": "a"}
            async with plugin.running():
                await plugin.register(again.socket)
                await eventually(lambda: capacity(again) == (1, 1), "devices")
                refused = await again.admit(pod(guaranteed("next", gpus="1"), uid="next"))
                assert refused is not None
                again.pods.clear()
                assert await again.admit(pod(guaranteed("next", gpus="1"), uid="next")) is None

    asyncio.run(main())


@pytest.mark.parametrize("content", ["{", '{"Data":{},"Checksum":1}', '{"Data":[],"Checksum":1}', "[]"])
def test_a_broken_checkpoint_is_left_out(tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / DEVICE_PLUGINS).mkdir()
    (tmp_path / DEVICE_PLUGINS / DEVICE_STATE).write_text(content)
    kubelet = Kubelet(tmp_path)
    kubelet.manager.start()
    assert kubelet.devices.pods.pods == {}
    assert "Continue after failing to read checkpoint file" in caplog.text


def test_plugins_are_found_by_their_sockets(tmp_path: Path) -> None:
    async def main() -> None:
        registry = tmp_path / "plugins_registry"
        registry.mkdir()
        async with Kubelet(tmp_path) as kubelet:
            plugin = DevicePlugin(registry / "gpu.sock", devices={"a": "Healthy"})
            other = DevicePlugin(registry / "csi.sock", "csi.example.com", kind="CSIPlugin")
            old = DevicePlugin(registry / "old.sock", "example.com/old", versions=("v1alpha",))
            async with plugin.running(), other.running(), old.running():
                await kubelet.watcher.look()
                await eventually(lambda: capacity(kubelet) == (1, 1), "devices")
                assert plugin.statuses == [(True, "")]
                text = f"no handler registered for plugin type: CSIPlugin at socket {other.socket}"
                assert other.statuses == [(False, f"RegisterPlugin error -- {text}")]
                [(taken, error)] = old.statuses
                assert not taken
                assert "manager version, v1beta1, is not among plugin supported versions [v1alpha]" in error
                assert await kubelet.admit(pod(guaranteed("app", gpus="1"))) is None
                await kubelet.watcher.look()
                assert len(plugin.statuses) == len(other.statuses) == 1
            await kubelet.watcher.look()
            await eventually(lambda: capacity(kubelet) == (1, 0), "the end of the plugin")

    asyncio.run(main())


def test_monitors_are_told_what_pods_have(tmp_path: Path) -> None:
    async def case(kubelet: Kubelet, plugin: DevicePlugin) -> None:
        wanted = pod(guaranteed("app", "2", "1Gi", gpus="1"), init=(guaranteed("init"),))
        assert await kubelet.admit(wanted) is None
        claimed = ClaimedDevices("made", "default", (ClaimedDevice("gpu", "p", "0", ("v/c=0",), "share"),))
        kubelet.monitored.claimed = lambda _, container: [claimed] if container.name == "app" else []
        v1 = pod_resources.V1
        begin = "/v1.PodResourcesLister/"
        listed = await kubelet.ask(f"{begin}List", v1["ListPodResourcesRequest"](), v1["ListPodResourcesResponse"])
        [found] = listed.pod_resources
        [app] = found.containers
        assert (found.name, found.namespace, app.name) == ("pod", "default", "app")
        cpus = kubelet.managers.cpus.state.get("pod", "app")
        assert cpus is not None
        assert list(app.cpu_ids) == sorted(cpus)
        [device] = app.devices
        assert (device.resource_name, list(device.device_ids)) == (GPU, ["a"])
        assert [node.ID for node in device.topology.nodes] == [1]
        [memory] = app.memory
        assert (memory.memory_type, memory.size) == ("memory", 1 << 30)
        [claim] = app.dynamic_resources
        [device] = claim.claim_resources
        assert (claim.claim_name, claim.claim_namespace) == ("made", "default")
        assert (device.driver_name, device.pool_name, device.device_name) == ("gpu", "p", "0")
        assert ([each.name for each in device.cdi_devices], device.share_id) == (["v/c=0"], "share")
        get = v1["GetPodResourcesRequest"](pod_name="pod", pod_namespace="default")
        got = await kubelet.ask(f"{begin}Get", get, v1["GetPodResourcesResponse"])
        assert got.pod_resources == found
        get = v1["GetPodResourcesRequest"](pod_name="none", pod_namespace="default")
        with pytest.raises(RpcError, match="pod none in namespace default not found"):
            await kubelet.ask(f"{begin}Get", get, v1["GetPodResourcesResponse"])
        request, answer = v1["AllocatableResourcesRequest"](), v1["AllocatableResourcesResponse"]
        allocatable = await kubelet.ask(f"{begin}GetAllocatableResources", request, answer)
        assert list(allocatable.cpu_ids) == [1, 2, 3, 4, 5, 6, 7]
        assert sorted(each.device_ids[0] for each in allocatable.devices) == ["a", "b"]
        assert [each.size >> 30 for each in allocatable.memory] == [3, 4]
        alpha = pod_resources.V1ALPHA1
        request, answer = alpha["ListPodResourcesRequest"](), alpha["ListPodResourcesResponse"]
        old = await kubelet.ask("/v1alpha1.PodResourcesLister/List", request, answer)
        assert old.pod_resources[0].containers[0].devices[0].device_ids == ["a"]

    with_plugin(tmp_path, case, numa={"a": 1, "b": 1})


def test_monitors_that_ask_too_often_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with Kubelet(tmp_path) as kubelet:
            v1 = pod_resources.V1
            request, answer = v1["ListPodResourcesRequest"](), v1["ListPodResourcesResponse"]
            connection = Connection(tmp_path / "pr.sock")
            calls = [connection.call("/v1.PodResourcesLister/List", request, answer, 10) for _ in range(60)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            await connection.close()
            refused = [each for each in results if isinstance(each, RpcError)]
            assert refused
            assert len(refused) < 60 - 9
            assert all("code = ResourceExhausted desc = rejected by rate limit" in str(each) for each in refused)
            assert kubelet.pods == []

    asyncio.run(main())
