"""What clusters in the background do: whether they run and answer, their nodes, their memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bayplan.api.errors import ApiError
from bayplan.api.nodes import is_ready_node
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.errors import KubeconfigError, TransportError
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.cluster.named.records import NamedCluster
from bayplan.support.system.process_ids import ProcessId

RUNNING: Final = "Running"
STOPPED: Final = "Stopped"
SILENT: Final = "NotAnswering"
_ANSWER_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A cluster at a moment. None where nothing is known."""

    name: str
    status: str
    created: float
    """Unix time."""
    server: str = ""
    nodes: int | None = None
    ready: int | None = None
    memory: int | None = None
    """Bytes of all its processes, what they share counted once (Linux)."""


async def state_of(cluster: NamedCluster) -> ClusterState:
    """The state of a cluster. Raises ClusterError if its record cannot be read."""
    created, process = cluster.read().created, cluster.process
    if process is None:
        return ClusterState(name=cluster.name, status=STOPPED, created=created)
    memory = memory_of(process)
    try:
        credentials = load(cluster.kubeconfig)
    except KubeconfigError:  # it has only just been started
        return ClusterState(name=cluster.name, status=SILENT, created=created, memory=memory)
    client = Client(HttpTransport(credentials, user_agent="bayplan"))
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            nodes = (await client.list(core_v1.Node)).items
    except (ApiError, TransportError, TimeoutError):
        return ClusterState(name=cluster.name, status=SILENT, created=created, server=credentials.server, memory=memory)
    finally:
        await client.close()
    return ClusterState(
        name=cluster.name,
        status=RUNNING,
        created=created,
        server=credentials.server,
        nodes=len(nodes),
        ready=sum(is_ready_node(each) for each in nodes),
        memory=memory,
    )


def memory_of(leader: ProcessId) -> int | None:
    """Bytes of memory of a process and of all that it has started (its session); None where that cannot be known."""
    total, is_known = 0, False
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            session = int(status.read_text().rpartition(")")[2].split()[3])
            if session != leader.pid:
                continue
            rollup = (status.parent / "smaps_rollup").read_text()
        except (OSError, ValueError):  # it has ended, or is another user's
            continue
        shares = (line.split() for line in rollup.splitlines())
        total += sum(int(words[1]) * 1024 for words in shares if words[0] == "Pss:")
        is_known = True
    return total if is_known else None
