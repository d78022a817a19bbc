"""The kubelet's own server with what it needs of the node: pods, logs, pages, who may ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from bayplan.api.pods.container_logs import LogOptions
from bayplan.api.types import core_v1
from bayplan.cluster.kubelet_node.adapters import ServedPods
from bayplan.cluster.kubelet_node.options import NodeOptions
from bayplan.kubelet.core.containers.config import pod_log_directory
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.logs.files import LogReader
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import ContainerState
from bayplan.kubelet.server.access import Access
from bayplan.kubelet.server.server import KubeletServer, Page, ServerParts
from bayplan.support.blocking import in_thread


def make_server(kubelet: Kubelet, runtime: Runtime, options: NodeOptions, pages: dict[str, Page]) -> KubeletServer:
    """The server of a node; it listens when it is started. pages: path -> what answers there."""
    configuration, clock = kubelet.configuration, kubelet.clock
    reader, logs = LogReader(in_thread, clock), Path(configuration.pod_logs_dir)

    async def read_log(pod: core_v1.Pod, name: str, container_id: str, log: LogOptions) -> AsyncIterator[bytes]:
        status = await runtime.container_status(container_id)
        path = Path(status.log_path) if status.log_path else logs / pod_log_directory("", pod) / name
        async for piece in reader.read(path, log, lambda: _runs(kubelet, pod, name, container_id)):
            yield piece

    parts = ServerParts(
        runtime=runtime,
        pods=ServedPods(kubelet),
        read_log=read_log,
        healthy=lambda: "sync Loop took longer than expected" if kubelet.lifecycle.unhealthy_for() else "",
        checkpoints=options.root / "checkpoints",
        pages=pages,
    )
    access = Access(kubelet.client, configuration, options.name, clock)
    return KubeletServer(parts, access, configuration, clock)


def _runs(kubelet: Kubelet, pod: core_v1.Pod, name: str, container_id: str) -> bool:
    """Whether the container is the latest of its name, and runs."""
    latest = kubelet.states.get(pod.metadata.uid).latest(name)
    return latest is not None and (latest.container.id, latest.container.state) == (
        container_id,
        ContainerState.RUNNING,
    )
