"""What this machine has for clusters, and what it lacks."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from bayplan.cluster.real_nodes.requirements import missing
from bayplan.cluster.real_nodes.settings import RealNodeSettings

_MIB: Final = 1 << 20
_LEAST_MEMORY, _LEAST_ROOM, _LEAST_FILES = 256 * _MIB, 256 * _MIB, 1024
_PORT: Final = 6443
_EXTRAS: Final = {
    "kubelet": (("grpc", "cri_api"), "real nodes"),
    "csi": (("grpc", "google.protobuf"), "storage drivers"),
    "etcd": (("hpack", "google.protobuf"), "a store in etcd"),
    "dns": (("dns",), "the cluster's DNS on real nodes"),
}
"""Extra -> modules that it brings, and what for."""


class Verdict(Enum):
    """What a check found."""

    OK = "ok"
    LIMITED = "limited"
    """It works, with a restriction or without something optional."""
    MISSING = "missing"
    """No cluster runs here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    verdict: Verdict
    text: str
    """What is there; what to do where it is not."""


def check_machine(directory: Path) -> Iterator[Finding]:
    """Look at everything. directory: where clusters are kept by default."""
    yield from _python()
    yield _processors()
    yield _memory()
    yield _open_files()
    yield _data(directory)
    yield _port()
    yield _kubectl()
    yield from _extras()
    yield _real_nodes()


def _finding(subject: str, text: str, problem: str = "", verdict: Verdict = Verdict.LIMITED) -> Finding:
    return Finding(subject, verdict if problem else Verdict.OK, f"{text}: {problem}" if problem else text)


def _python() -> Iterator[Finding]:
    yield Finding("python", Verdict.OK, f"Python {sys.version.split()[0]}, {sys.executable}")
    old = "" if sqlite3.sqlite_version_info >= (3, 35) else "3.35 or later is needed"
    yield _finding("sqlite", f"SQLite {sqlite3.sqlite_version}", old, Verdict.MISSING)


def _processors() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    few = (
        ""
        if count > 1 and sys.platform == "linux"
        else "API server and components share a process (Linux with two gives each its own)"
    )
    return _finding("cpus", f"{count} CPU{'s' * (count != 1)}", few)


def _memory() -> Finding:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    little = "" if size >= _LEAST_MEMORY else "a small cluster takes some 120 MiB"
    return _finding("memory", f"{size // _MIB} MiB of memory", little)


def _open_files() -> Finding:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = "no limit" if limit == resource.RLIM_INFINITY else f"{limit}"
    few = (
        ""
        if limit == resource.RLIM_INFINITY or limit >= _LEAST_FILES
        else "every watch takes one; raise it with ulimit -n"
    )
    return _finding("open files", f"open files: {shown}", few)


def _data(directory: Path) -> Finding:
    place = next(each for each in (directory, *directory.parents) if each.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        problem = f"{place} cannot be written to; name another directory with --data-dir or $XDG_DATA_HOME"
        return _finding("data", f"{directory}", problem, Verdict.MISSING)
    room = shutil.disk_usage(place).free
    little = "" if room >= _LEAST_ROOM else "there is little room"
    return _finding("data", f"{directory}, {room // _MIB} MiB free", little)


def _port() -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _PORT))
        except OSError:
            return _finding("port", f"port {_PORT}", "taken; use --port, or bayplan create, which chooses one")
    return _finding("port", f"port {_PORT} is free")


def _kubectl() -> Finding:
    path = shutil.which("kubectl")
    if path is None:
        return _finding("kubectl", "kubectl", "not installed: https://kubernetes.io/docs/tasks/tools/")
    try:
        done = subprocess.run(
            [path, "version", "--client"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return _finding("kubectl", path, f"does not work: {error}")
    version = next((line.partition(":")[2].strip() for line in done.stdout.splitlines() if "Client" in line), "")
    return _finding("kubectl", f"kubectl {version}, {path}")


def _extras() -> Iterator[Finding]:
    for name, (modules, purpose) in _EXTRAS.items():
        lacking = [each for each in modules if not _is_there(each)]
        yield _finding(
            f"extra {name}", f"extra {name}, for {purpose}", f"pip install 'bayplan[{name}]'" if lacking else ""
        )


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def _real_nodes() -> Finding:
    settings = RealNodeSettings(1, Path("/var/lib/bayplan"))
    return _finding("real nodes", "real nodes (--real-nodes)", "; ".join(missing(settings, user=os.geteuid())))
