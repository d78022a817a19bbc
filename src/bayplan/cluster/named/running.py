"""Starting and stopping clusters in the background."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bayplan.client.errors import KubeconfigError
from bayplan.client.kubeconfig import load
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.named.records import ClusterRecord, NamedCluster
from bayplan.support.clock import Clock
from bayplan.support.system.private_files import open_private
from bayplan.support.system.process_ids import end, own_program, process_id, write_pid_file

_READY: Final = b"ready: "
"""What a line of `bayplan up` starts with that says that it is."""
_LOOK_SECONDS: Final = 0.02
_LAST_BYTES: Final = 2000
STOP_SECONDS: Final = 60.0
"""How long a cluster may take to stop: pods on real nodes have half a minute."""


async def create(cluster: NamedCluster, record: ClusterRecord, clock: Clock, seconds: float) -> str:
    """Make a cluster and start it; see `start`. Of one that has ended before it was ready, nothing is left. Raises ClusterError, also if it exists."""
    with _only_one(cluster):
        if cluster.exists:
            raise ClusterError(f"cluster {cluster.name!r} exists")
        try:
            return await _start(cluster, record, clock, seconds)
        except ClusterError:
            if cluster.process is None:
                cluster.remove()
            raise


async def start(cluster: NamedCluster, clock: Clock, seconds: float) -> str:
    """Start a cluster that is stopped, and wait until it is ready. Returns what it says then.

    Raises ClusterError, with what the cluster said at its end; one that only takes too long runs on.
    """
    with _only_one(cluster):
        if cluster.process is not None:
            raise ClusterError(f"cluster {cluster.name!r} runs already")
        return await _start(cluster, cluster.read(), clock, seconds)


async def _start(cluster: NamedCluster, record: ClusterRecord, clock: Clock, seconds: float) -> str:
    """Start a cluster. The record is kept, with the port that the cluster has then. Raises ClusterError."""
    is_first = not (cluster.directory / "store.db").exists()
    command = (
        *own_program("up"),
        f"--port={record.port}",
        f"--data-dir={cluster.directory}",
        f"--kubeconfig={cluster.kubeconfig}",
        *record.options,
        *(record.first_options if is_first else ()),
    )
    cluster.write(record)
    position = _launch(cluster, command)
    said = await _until_ready(cluster, position, clock, seconds)
    cluster.write(msgspec.structs.replace(record, port=_port(cluster)))
    return said


@contextmanager
def _only_one(cluster: NamedCluster) -> Iterator[None]:
    """Hold the cluster's lock, so that no other command starts or stops it. Raises ClusterError."""
    try:
        cluster.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = open_private(cluster.lock_file, os.O_RDWR)
    except OSError as error:
        raise ClusterError(f"{cluster.lock_file}: {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ClusterError(f"cluster {cluster.name!r} is being started or stopped") from error
        yield
    finally:
        os.close(file)


def _launch(cluster: NamedCluster, command: tuple[str, ...]) -> int:
    """Start the process. Returns where in the log it begins to write. Raises ClusterError."""
    try:
        file = open_private(cluster.log, os.O_WRONLY | os.O_APPEND)
    except OSError as error:
        raise ClusterError(f"{cluster.log}: {error.strerror or error}") from error
    try:
        position = os.fstat(file).st_size
        made = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, close_fds=True
        )
    except OSError as error:
        raise ClusterError(f"{command[0]}: {error.strerror or error}") from error
    finally:
        os.close(file)
    found = process_id(made.pid)
    if found is not None:
        write_pid_file(cluster.pid_file, found)
    return position


async def _until_ready(cluster: NamedCluster, position: int, clock: Clock, seconds: float) -> str:
    """The line that says that a cluster is ready. Raises ClusterError."""
    until = clock.monotonic() + seconds
    while True:
        runs = cluster.process is not None  # before the log is read, which then is whole
        said = _since(cluster.log, position)
        ready = next((line for line in said.split(b"\n")[:-1] if line.startswith(_READY)), b"")
        if ready:
            return ready.removeprefix(_READY).decode(errors="replace")
        if not runs:
            words = said[-_LAST_BYTES:].decode(errors="replace").strip()
            raise ClusterError(f"cluster {cluster.name!r} has ended: {words or 'it said nothing'}")
        if clock.monotonic() >= until:
            raise ClusterError(
                f"cluster {cluster.name!r} is not ready after {seconds:g} s; it goes on: see `bayplan logs {cluster.name}`"
            )
        await clock.sleep(_LOOK_SECONDS)


def _since(path: Path, position: int) -> bytes:
    with path.open("rb") as stream:
        stream.seek(position)
        return stream.read()


def _port(cluster: NamedCluster) -> int:
    """Where the cluster listens. Raises ClusterError."""
    try:
        return urlsplit(load(cluster.kubeconfig).server).port or 443
    except KubeconfigError as error:
        raise ClusterError(str(error)) from error


async def stop(cluster: NamedCluster, clock: Clock) -> bool:
    """Stop a cluster, and wait until it has. Returns False if it was stopped. Raises ClusterError."""
    with _only_one(cluster):
        return await _stop(cluster, clock)


async def delete(cluster: NamedCluster, clock: Clock) -> None:
    """Stop a cluster and remove all that is kept of it. Raises ClusterError."""
    with _only_one(cluster):
        await _stop(cluster, clock)
        cluster.remove()


async def _stop(cluster: NamedCluster, clock: Clock) -> bool:
    process = cluster.process
    if process is None:
        return False
    try:
        left = await end([process], clock, signal.SIGTERM, STOP_SECONDS)
    except PermissionError as error:
        raise ClusterError(f"process {process.pid} of cluster {cluster.name!r} is another user's") from error
    if left:
        raise ClusterError(
            f"cluster {cluster.name!r} (process {process.pid}) has not stopped in {STOP_SECONDS:g} s; see `bayplan logs {cluster.name}`"
        )
    cluster.pid_file.unlink(missing_ok=True)
    return True
