"""What is kept of a cluster that runs in the background: its directory, and a record of how it is started."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bayplan.cluster.errors import ClusterError
from bayplan.support.system.mounts import MOUNT_INFO, mounts_below, parse_mount_info
from bayplan.support.system.private_files import make_private_directory, write_private
from bayplan.support.system.process_ids import ProcessId, read_pid_file

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST: Final = 40
_RECORD: Final = "cluster.json"


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a cluster is started."""

    created: float
    """Unix time."""
    options: tuple[str, ...] = ()
    """Options of `bayplan up`."""
    first_options: tuple[str, ...] = ()
    """Those of the first start only: what the cluster begins with."""
    user_kubeconfig: str
    """The kubeconfig that has its context."""
    port: int = 0
    """The port that it has had since it was ready for the first time; 0 for whichever is free."""


class NamedCluster:
    """A cluster at its place below the directory of all of them."""

    def __init__(self, base: Path, name: str) -> None:
        """Raises ClusterError if this is no name of a cluster."""
        if len(name) > _LONGEST or not _NAME.fullmatch(name):
            raise ClusterError(
                f"{name!r} cannot be the name of a cluster: lower-case letters, digits and '-' within, {_LONGEST} at most"
            )
        self.name = name
        self.directory = base / name
        self.kubeconfig = self.directory / "kubeconfig"
        self.log = self.directory / "bayplan.log"
        self.pid_file = self.directory / "bayplan.pid"
        self.lock_file = self.directory / "bayplan.lock"

    @property
    def context(self) -> str:
        """Its name in kubeconfigs."""
        return f"bayplan-{self.name}"

    @property
    def exists(self) -> bool:
        """Whether there is such a cluster, running or not."""
        return (self.directory / _RECORD).is_file()

    @property
    def process(self) -> ProcessId | None:
        """The process that is the cluster; None if it is stopped."""
        return read_pid_file(self.pid_file)

    def read(self) -> ClusterRecord:
        """Raises ClusterError."""
        path = self.directory / _RECORD
        try:
            return msgspec.json.decode(path.read_bytes(), type=ClusterRecord)
        except FileNotFoundError as error:
            raise ClusterError(f"there is no cluster {self.name!r}") from error
        except (OSError, msgspec.DecodeError) as error:
            raise ClusterError(f"{path} cannot be read: {error}") from error

    def write(self, record: ClusterRecord) -> None:
        """Raises ClusterError."""
        try:
            make_private_directory(self.directory)
            write_private(self.directory / _RECORD, msgspec.json.encode(record))
        except OSError as error:
            raise ClusterError(
                f"{self.directory}: the cluster cannot be kept there: {error.strerror or error}"
            ) from error

    def remove(self) -> None:
        """Remove all that is kept of a cluster that is stopped. Raises ClusterError."""
        mounts = _mounts(self.directory)
        if mounts:
            raise ClusterError(
                f"{mounts[0]} is still mounted, as the cluster was killed; `bayplan start {self.name}` and"
                f" `bayplan stop {self.name}` clean that up"
            )
        try:
            shutil.rmtree(self.directory)
        except OSError as error:
            raise ClusterError(f"{error.filename}: cannot be removed: {error.strerror or error}") from error


def named_clusters(base: Path) -> Iterator[NamedCluster]:
    """All clusters, in the order of their names."""
    for path in sorted(base.iterdir()) if base.is_dir() else ():
        if _NAME.fullmatch(path.name):
            cluster = NamedCluster(base, path.name)
            if cluster.exists:
                yield cluster


def _mounts(directory: Path) -> Sequence[str]:
    if not MOUNT_INFO.exists():
        return ()
    found = mounts_below(parse_mount_info(MOUNT_INFO.read_text(errors="surrogateescape")), directory.resolve())
    return [each.path for each in found]
