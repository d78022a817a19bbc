"""The pod resources API (podresources v1 and v1alpha1): monitors ask it which CPUs, memory and devices pods have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.kubelet.resource_managers.container_manager import Managers
from bayplan.kubelet.resource_managers.devices.claimed_devices import ClaimedDevice, ClaimedDevices
from bayplan.kubelet.resource_managers.memory_state import Block
from bayplan.support.clock import Clock
from bayplan.support.grpc.calls import SocketServer
from bayplan.support.grpc.errors import RefusedError
from bayplan.support.grpc.message_tables import message_classes

SOCKET: Final = "kubelet.sock"
_QPS, _BURST = 100.0, 10
"""How many requests a second are answered, and how many at once after a pause."""

_SHARED: Final = {"NUMANode": "ID: int64", "TopologyInfo": "nodes: [NUMANode]", "CDIDevice": "name: string"}
V1: Final = message_classes(
    "v1",
    {
        **_SHARED,
        "ClaimResource": (
            "cdi_devices: [CDIDevice], driver_name: string, pool_name: string, device_name: string, share_id: string"
        ),
        "DynamicResource": "-, claim_name: string, claim_namespace: string, claim_resources: [ClaimResource]",
        "ContainerDevices": "resource_name: string, device_ids: [string], topology: TopologyInfo",
        "ContainerMemory": "memory_type: string, size: uint64, topology: TopologyInfo",
        "ContainerResources": (
            "name: string, devices: [ContainerDevices], cpu_ids: [int64], memory: [ContainerMemory], "
            "dynamic_resources: [DynamicResource]"
        ),
        "PodResources": "name: string, namespace: string, containers: [ContainerResources]",
        "ListPodResourcesRequest": "",
        "ListPodResourcesResponse": "pod_resources: [PodResources]",
        "AllocatableResourcesRequest": "",
        "AllocatableResourcesResponse": "devices: [ContainerDevices], cpu_ids: [int64], memory: [ContainerMemory]",
        "GetPodResourcesRequest": "pod_name: string, pod_namespace: string",
        "GetPodResourcesResponse": "pod_resources: PodResources",
    },
)
V1ALPHA1: Final = message_classes(
    "v1alpha1",
    {
        "ContainerDevices": "resource_name: string, device_ids: [string]",
        "ContainerResources": "name: string, devices: [ContainerDevices]",
        "PodResources": "name: string, namespace: string, containers: [ContainerResources]",
        "ListPodResourcesRequest": "",
        "ListPodResourcesResponse": "pod_resources: [PodResources]",
    },
)


class PodResourcesServer:
    """Answers from what the managers hold. pods: the active pods of the node."""

    def __init__(self, socket: Path, managers: Managers, pods: Callable[[], list[core_v1.Pod]], clock: Clock) -> None:
        self._managers = managers
        self._pods = pods
        self._clock = clock
        self.claimed: Callable[[core_v1.Pod, core_v1.Container], Iterable[ClaimedDevices]] = lambda pod, container: ()
        """What a container has of claims."""
        self._tokens, self._counted_at = float(_BURST), clock.monotonic()
        begin, alpha = "/v1.PodResourcesLister/", "/v1alpha1.PodResourcesLister/"
        methods = {
            f"{begin}List": (V1["ListPodResourcesRequest"], self._list),
            f"{begin}Get": (V1["GetPodResourcesRequest"], self._get),
            f"{begin}GetAllocatableResources": (V1["AllocatableResourcesRequest"], self._allocatable),
            f"{alpha}List": (V1ALPHA1["ListPodResourcesRequest"], self._list_alpha),
        }
        self.socket = socket
        self._server = SocketServer(socket, methods)

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await self._server.start()

    async def stop(self) -> None:
        """Listen no longer."""
        await self._server.stop()

    def _admit(self) -> None:
        """Raises RefusedError for more requests than the API answers."""
        now = self._clock.monotonic()
        self._tokens = min(float(_BURST), self._tokens + (now - self._counted_at) * _QPS)
        self._counted_at = now
        if self._tokens < 1:
            raise RefusedError("rejected by rate limit", "RESOURCE_EXHAUSTED")
        self._tokens -= 1

    async def _list(self, request: Any) -> Any:
        self._admit()
        return V1["ListPodResourcesResponse"](pod_resources=[self._pod(each) for each in self._pods()])

    async def _get(self, request: Any) -> Any:
        self._admit()
        name, namespace = request.pod_name, request.pod_namespace
        for pod in self._pods():
            if (pod.metadata.name, pod.metadata.namespace) == (name, namespace):
                return V1["GetPodResourcesResponse"](pod_resources=self._pod(pod))
        raise RefusedError(f"pod {name} in namespace {namespace} not found")

    async def _allocatable(self, request: Any) -> Any:
        self._admit()
        managers = self._managers
        devices = (
            (resource, each.id, each.numa_nodes)
            for resource, found in managers.devices.healthy().items()
            for each in found
        )
        return V1["AllocatableResourcesResponse"](
            devices=list(_devices(devices)),
            cpu_ids=sorted(managers.cpus.allocatable()),
            memory=_memory(managers.memory.allocatable()),
        )

    async def _list_alpha(self, request: Any) -> Any:
        self._admit()
        pods = [
            V1ALPHA1["PodResources"](
                name=pod.metadata.name,
                namespace=pod.metadata.namespace,
                containers=[self._container_alpha(pod, each) for each in pod.spec.containers],
            )
            for pod in self._pods()
        ]
        return V1ALPHA1["ListPodResourcesResponse"](pod_resources=pods)

    def _pod(self, pod: core_v1.Pod) -> Any:
        """Containers that run with the pod: not those that only initialize it."""
        sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
        containers = [self._container(pod, each) for each in (*sidecars, *pod.spec.containers)]
        return V1["PodResources"](name=pod.metadata.name, namespace=pod.metadata.namespace, containers=containers)

    def _container(self, pod: core_v1.Pod, container: core_v1.Container) -> Any:
        uid, name, managers = pod.metadata.uid, container.name, self._managers
        return V1["ContainerResources"](
            name=name,
            devices=list(_devices(self._given(uid, name))),
            cpu_ids=sorted(managers.cpus.state.get(uid, name) or ()),
            memory=_memory(managers.memory.state.get(uid, name) or ()),
            dynamic_resources=map(_dynamic, self.claimed(pod, container)),
        )

    def _container_alpha(self, pod: core_v1.Pod, container: core_v1.Container) -> Any:
        devices = [
            V1ALPHA1["ContainerDevices"](resource_name=resource, device_ids=[device])
            for resource, device, nodes in self._given(pod.metadata.uid, container.name)
            for _ in nodes or (None,)
        ]
        return V1ALPHA1["ContainerResources"](name=container.name, devices=devices)

    def _given(self, uid: str, container: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        for resource, devices in sorted(self._managers.devices.pods.of(uid, container).items()):
            for device in sorted(devices.ids()):
                yield resource, device, devices.numa_nodes(device)


def _devices(found: Iterable[tuple[str, str, tuple[int, ...]]]) -> Iterator[Any]:
    """A message for each NUMA node of each device, or one without for a device that is at none."""
    for resource, device, nodes in found:
        if not nodes:
            yield V1["ContainerDevices"](resource_name=resource, device_ids=[device])
        for node in nodes:
            yield V1["ContainerDevices"](resource_name=resource, device_ids=[device], topology=_topology([node]))


def _dynamic(claim: ClaimedDevices) -> Any:
    devices = map(_claim_resource, claim.devices)
    return V1["DynamicResource"](claim_name=claim.claim, claim_namespace=claim.namespace, claim_resources=devices)


def _claim_resource(device: ClaimedDevice) -> Any:
    return V1["ClaimResource"](
        cdi_devices=[V1["CDIDevice"](name=each) for each in device.cdi_ids],
        driver_name=device.driver,
        pool_name=device.pool,
        device_name=device.name,
        share_id=device.share_id,
    )


def _memory(blocks: Iterable[Block]) -> list[Any]:
    return [
        V1["ContainerMemory"](memory_type=each.type, size=each.size, topology=_topology(each.numa_affinity))
        for each in blocks
    ]


def _topology(nodes: Iterable[int]) -> Any:
    return V1["TopologyInfo"](nodes=[V1["NUMANode"](ID=each) for each in nodes])
