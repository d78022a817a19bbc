"""A runtime behind the Container Runtime Interface: containerd, CRI-O and others, over gRPC on a Unix socket.

Every call has a time limit of its own, so a runtime that hangs holds up who asked and nobody else. gRPC connects again by itself
after the runtime was started anew; calls in between fail at once with `RuntimeUnavailableError`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from bayplan.kubelet.runtime.errors import (
    NotFoundError,
    RuntimeRequestError,
    RuntimeTimeoutError,
    RuntimeUnavailableError,
    UnsupportedError,
)
from bayplan.kubelet.runtime.labels import POD_UID
from bayplan.kubelet.runtime.types import (
    Container,
    ContainerConfig,
    ContainerEvent,
    ContainerStats,
    ContainerStatus,
    Credentials,
    ExecResult,
    FilesystemUsage,
    Image,
    LinuxResources,
    RuntimeStatus,
    RuntimeVersion,
    Sandbox,
    SandboxConfig,
    SandboxStatus,
)
from bayplan.support.grpc.errors import INVALID_TEXT

# Programs are started beside gRPC, and nothing forks to use it: its handlers for that would only say that they were skipped, at each start.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
try:
    import grpc
    from cri_api.v1 import api_pb2 as wire
    from cri_api.v1 import api_pb2_grpc as services
    from grpc import aio

    from bayplan.kubelet.runtime import cri_messages as messages
except ImportError as error:
    raise ImportError(
        f"the Container Runtime Interface needs packages that are not installed ({error}): pip install 'bayplan[kubelet]'"
    ) from error

T = TypeVar("T")

REQUEST_SECONDS = 120.0
"""Time limit of most calls: kubelet's --runtime-request-timeout."""
_LONGEST_MESSAGE = 16 << 20
"""Bytes that a message may have; kubelet's limit."""
_OPTIONS = (
    ("grpc.max_receive_message_length", _LONGEST_MESSAGE),
    ("grpc.max_send_message_length", _LONGEST_MESSAGE),
    # A runtime that was started again is to be found within seconds, not after minutes of back-off. One that is busy may take gRPC's 20 seconds to
    # answer a new connection, which is what `min_reconnect_backoff_ms` would limit.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 3000),
    ("grpc.enable_http_proxy", 0),
)
_ERRORS: Mapping[grpc.StatusCode, Callable[[str], RuntimeRequestError]] = {
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.DEADLINE_EXCEEDED: RuntimeTimeoutError,
    grpc.StatusCode.UNAVAILABLE: RuntimeUnavailableError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedError,
}


def _target(endpoint: str) -> str:
    """gRPC's name of an endpoint such as unix:///run/containerd/containerd.sock or a path."""
    if endpoint.startswith("/"):
        return f"unix:{endpoint}"
    if endpoint.startswith("unix:"):
        return f"unix:{endpoint.removeprefix('unix:').removeprefix('//')}"
    raise ValueError(f"{endpoint!r} is no endpoint of a container runtime: expected unix:///path/to/socket")


def error_of(error: aio.AioRpcError) -> RuntimeRequestError:
    """What a failed call means, in the runtime's own words."""
    code = error.code()
    text = error.details() or code.name
    make = _ERRORS.get(code)
    return make(text) if make else RuntimeRequestError(text, code.name)


class CriRuntime:
    """A `Runtime` at `endpoint` (unix:///path or a path), images at `image_endpoint` where that is another one.

    request_timeout: seconds that a call may take. Making a sandbox may take twice as long, stopping a container its grace period more, a command its own limit more;
    pulls have no limit, as the runtime ends those that make no progress. Nothing is connected before the first call.
    """

    def __init__(self, endpoint: str, *, image_endpoint: str = "", request_timeout: float = REQUEST_SECONDS) -> None:
        self.endpoint = endpoint
        self._seconds = request_timeout
        self._targets = (_target(endpoint), _target(image_endpoint or endpoint))
        self._channels: dict[str, aio.Channel] = {}
        self._stubs: dict[Callable[[aio.Channel], Any], Any] = {}
        self._reads_events = False

    def _stub(self, service: Callable[[aio.Channel], Any], target: str) -> Any:
        # Made on first use, since a channel belongs to the event loop that runs then.
        stub = self._stubs.get(service)
        if stub is None:
            if target not in self._channels:
                self._channels[target] = aio.insecure_channel(target, options=_OPTIONS)
            stub = self._stubs[service] = service(self._channels[target])
        return stub

    @property
    def _runtime(self) -> Any:
        return self._stub(services.RuntimeServiceStub, self._targets[0])

    @property
    def _images(self) -> Any:
        return self._stub(services.ImageServiceStub, self._targets[1])

    async def _call(
        self, method: Callable[..., Awaitable[T]], request: object, *, more: float = 0, limited: bool = True
    ) -> T:
        """Make a call. more: seconds on top of the usual limit."""
        try:
            return await method(request, timeout=self._seconds + more if limited else None)
        except aio.AioRpcError as error:
            raise error_of(error) from error

    async def version(self) -> RuntimeVersion:
        """See Runtime."""
        answer = await self._call(self._runtime.Version, wire.VersionRequest(version="v1"))
        return RuntimeVersion(answer.runtime_name, answer.runtime_version, answer.runtime_api_version)

    async def status(self) -> RuntimeStatus:
        """See Runtime."""
        return messages.from_status(await self._call(self._runtime.Status, wire.StatusRequest()))

    async def run_sandbox(self, config: SandboxConfig, runtime_handler: str = "") -> str:
        """See Runtime."""
        request = wire.RunPodSandboxRequest(config=messages.to_sandbox_config(config), runtime_handler=runtime_handler)
        answer = await self._call(self._runtime.RunPodSandbox, request, more=self._seconds)
        return _said(answer.pod_sandbox_id, "sandbox id")

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """See Runtime."""
        with contextlib.suppress(NotFoundError):
            await self._call(self._runtime.StopPodSandbox, wire.StopPodSandboxRequest(pod_sandbox_id=sandbox_id))

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """See Runtime."""
        with contextlib.suppress(NotFoundError):
            await self._call(self._runtime.RemovePodSandbox, wire.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))

    async def sandboxes(self, *, pod_uid: str = "") -> Sequence[Sandbox]:
        """See Runtime."""
        request = wire.ListPodSandboxRequest(filter=wire.PodSandboxFilter(label_selector=_of_pod(pod_uid)))
        answer = await self._call(self._runtime.ListPodSandbox, request)
        return [messages.from_sandbox(each) for each in answer.items]

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        """See Runtime."""
        request = wire.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id)
        return messages.from_sandbox_status((await self._call(self._runtime.PodSandboxStatus, request)).status)

    async def sandbox_network_namespace(self, sandbox_id: str) -> str:
        """The file of the network namespace that containerd has made for a sandbox; empty for the machine's own network. Raises RuntimeRequestError, NotFoundError.

        It is in the verbose status, which each runtime writes as it likes: this reads containerd's.
        """
        request = wire.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=True)
        answer = await self._call(self._runtime.PodSandboxStatus, request)
        try:
            namespaces = json.loads(answer.info["info"])["runtimeSpec"]["linux"]["namespaces"]
            return next((str(each.get("path", "")) for each in namespaces if each["type"] == "network"), "")
        except (KeyError, TypeError, ValueError) as error:
            raise RuntimeRequestError(
                f"verbose status of sandbox {sandbox_id} is not containerd's: {error!r}"
            ) from error

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """See Runtime."""
        try:
            request = wire.CreateContainerRequest(
                pod_sandbox_id=sandbox_id,
                config=messages.to_container_config(config),
                sandbox_config=messages.to_sandbox_config(sandbox),
            )
        except UnicodeEncodeError as error:  # a variable from a Secret that is no text
            raise RuntimeRequestError(INVALID_TEXT, "INTERNAL") from error
        return _said((await self._call(self._runtime.CreateContainer, request)).container_id, "container id")

    async def start_container(self, container_id: str) -> None:
        """See Runtime."""
        await self._call(self._runtime.StartContainer, wire.StartContainerRequest(container_id=container_id))

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """See Runtime."""
        request = wire.StopContainerRequest(container_id=container_id, timeout=grace_seconds)
        with contextlib.suppress(NotFoundError):
            await self._call(self._runtime.StopContainer, request, more=grace_seconds)

    async def remove_container(self, container_id: str) -> None:
        """See Runtime."""
        with contextlib.suppress(NotFoundError):
            await self._call(self._runtime.RemoveContainer, wire.RemoveContainerRequest(container_id=container_id))

    async def containers(self, *, pod_uid: str = "") -> Sequence[Container]:
        """See Runtime."""
        request = wire.ListContainersRequest(filter=wire.ContainerFilter(label_selector=_of_pod(pod_uid)))
        answer = await self._call(self._runtime.ListContainers, request)
        return [messages.from_container(each) for each in answer.containers]

    async def container_status(self, container_id: str) -> ContainerStatus:
        """See Runtime."""
        request = wire.ContainerStatusRequest(container_id=container_id)
        return messages.from_container_status((await self._call(self._runtime.ContainerStatus, request)).status)

    async def update_container(
        self, container_id: str, resources: LinuxResources, annotations: Mapping[str, str]
    ) -> None:
        """See Runtime."""
        request = wire.UpdateContainerResourcesRequest(
            container_id=container_id, linux=messages.to_resources(resources), annotations=annotations
        )
        await self._call(self._runtime.UpdateContainerResources, request)

    async def reopen_log(self, container_id: str) -> None:
        """See Runtime."""
        request = wire.ReopenContainerLogRequest(container_id=container_id)
        await self._call(self._runtime.ReopenContainerLog, request)

    async def exec_sync(self, container_id: str, command: Sequence[str], seconds: float) -> ExecResult:
        """See Runtime. The interface counts whole seconds: a limit below one is rounded up, as 0 would mean none."""
        limit = int(-(-seconds // 1))
        request = wire.ExecSyncRequest(container_id=container_id, cmd=command, timeout=limit)
        answer = await self._call(self._runtime.ExecSync, request, more=limit, limited=limit > 0)
        return ExecResult(answer.stdout, answer.stderr, answer.exit_code)

    async def exec_url(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str:
        """See Runtime."""
        request = wire.ExecRequest(
            container_id=container_id, cmd=command, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty
        )
        return _said((await self._call(self._runtime.Exec, request)).url, "URL")

    async def attach_url(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        """See Runtime."""
        request = wire.AttachRequest(container_id=container_id, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)
        return _said((await self._call(self._runtime.Attach, request)).url, "URL")

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """See Runtime."""
        request = wire.PortForwardRequest(pod_sandbox_id=sandbox_id, port=ports)
        return _said((await self._call(self._runtime.PortForward, request)).url, "URL")

    async def checkpoint_container(self, container_id: str, location: str, seconds: float) -> None:
        """See Runtime."""
        request = wire.CheckpointContainerRequest(container_id=container_id, location=location, timeout=int(seconds))
        await self._call(self._runtime.CheckpointContainer, request, more=seconds)

    async def images(self) -> Sequence[Image]:
        """See Runtime."""
        return [
            messages.from_image(each)
            for each in (await self._call(self._images.ListImages, wire.ListImagesRequest())).images
        ]

    async def image_status(self, image: str, *, runtime_handler: str = "") -> Image | None:
        """See Runtime."""
        request = wire.ImageStatusRequest(image=wire.ImageSpec(image=image, runtime_handler=runtime_handler))
        answer = await self._call(self._images.ImageStatus, request)
        return messages.from_image(answer.image) if answer.HasField("image") else None

    async def pull_image(
        self,
        image: str,
        credentials: Credentials | None,
        sandbox: SandboxConfig | None = None,
        *,
        runtime_handler: str = "",
    ) -> str:
        """See Runtime."""
        request = wire.PullImageRequest(
            image=wire.ImageSpec(image=image, runtime_handler=runtime_handler),
            auth=messages.to_auth(credentials),
            sandbox_config=messages.to_sandbox_config(sandbox) if sandbox else None,
        )
        answer = await self._call(self._images.PullImage, request, limited=False)
        return _said(answer.image_ref, "reference of the image")

    async def remove_image(self, image: str) -> None:
        """See Runtime."""
        with contextlib.suppress(NotFoundError):
            await self._call(self._images.RemoveImage, wire.RemoveImageRequest(image=wire.ImageSpec(image=image)))

    async def image_filesystems(self) -> tuple[Sequence[FilesystemUsage], Sequence[FilesystemUsage]]:
        """See Runtime. Runtimes before CRI 1.29 do not tell of containers' file systems."""
        answer = await self._call(self._images.ImageFsInfo, wire.ImageFsInfoRequest())
        return (
            [messages.from_filesystem(each) for each in answer.image_filesystems],
            [messages.from_filesystem(each) for each in answer.container_filesystems],
        )

    async def container_stats(self, *, pod_uid: str = "") -> Sequence[ContainerStats]:
        """See Runtime."""
        request = wire.ListContainerStatsRequest(filter=wire.ContainerStatsFilter(label_selector=_of_pod(pod_uid)))
        answer = await self._call(self._runtime.ListContainerStats, request)
        return [messages.from_stats(each) for each in answer.stats]

    async def set_pod_cidr(self, pod_cidr: str) -> None:
        """See Runtime."""
        config = wire.RuntimeConfig(network_config=wire.NetworkConfig(pod_cidr=pod_cidr))
        await self._call(self._runtime.UpdateRuntimeConfig, wire.UpdateRuntimeConfigRequest(runtime_config=config))

    async def cgroup_driver(self) -> str:
        """See Runtime."""
        answer = await self._call(self._runtime.RuntimeConfig, wire.RuntimeConfigRequest())
        if not answer.HasField("linux"):
            raise UnsupportedError("the runtime does not tell its cgroup driver")
        return "systemd" if answer.linux.cgroup_driver == wire.CgroupDriver.SYSTEMD else "cgroupfs"

    async def events(self) -> AsyncIterator[ContainerEvent]:
        """See Runtime. A runtime gives each event to one reader: a second iteration at the same time raises RuntimeError."""
        if self._reads_events:
            raise RuntimeError(f"events of {self.endpoint} are read already, and each is given to one reader only")
        self._reads_events = True
        stream = self._runtime.GetContainerEvents(wire.GetEventsRequest())
        try:
            async for each in stream:
                yield messages.from_event(each)
        except aio.AioRpcError as error:
            raise error_of(error) from error
        finally:
            self._reads_events = False
            stream.cancel()

    async def close(self) -> None:
        """See Runtime."""
        channels, self._channels = self._channels, {}
        self._stubs.clear()
        for channel in channels.values():
            await channel.close()


def _of_pod(pod_uid: str) -> Mapping[str, str]:
    return {POD_UID: pod_uid} if pod_uid else {}


def _said(value: str, what: str) -> str:
    """What a runtime must not leave out of an answer."""
    if not value:
        raise RuntimeRequestError(f"the runtime's answer has no {what}", "INTERNAL")
    return value
