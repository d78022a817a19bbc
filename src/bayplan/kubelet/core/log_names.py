"""Names of logs on the node's disk.

/var/log/pods/NAMESPACE_NAME_UID/CONTAINER/RESTARTS.log                      what a container writes now
/var/log/pods/NAMESPACE_NAME_UID/CONTAINER/RESTARTS.log.20260102-030405[.gz] what it wrote before
/var/log/containers/NAME_NAMESPACE_CONTAINER-ID.log                          a link to the first, by which collectors of logs find it
"""

from __future__ import annotations

from collections.abc import Iterable

SUFFIX = ".log"
COMPRESSED, TEMPORARY = ".gz", ".tmp"
_LONGEST_NAME = 255
_SHORTEST_ID = 6


def link_name(pod_name: str, namespace: str, container: str, container_id: str) -> str:
    """The name of the link to a container's log, cut to what file systems take."""
    return f"{pod_name}_{namespace}_{container}-{container_id}"[: _LONGEST_NAME - len(SUFFIX)] + SUFFIX


def container_of_link(name: str) -> str:
    """The id of the container that a link was made for; empty if its name does not tell."""
    container_id = name.removesuffix(SUFFIX).rpartition("-")[2]
    return container_id if name.endswith(SUFFIX) and len(container_id) >= _SHORTEST_ID else ""


def pod_of_directory(name: str) -> str:
    """The uid of the pod whose logs a directory holds; empty if its name does not tell."""
    before, separator, uid = name.rpartition("_")
    return uid if separator and "_" in before else ""


def run_of_log(name: str) -> int | None:
    """Which run of its container wrote a log, also one that was rotated; None for a file that is no log."""
    number, separator, _ = name.partition(SUFFIX)
    return int(number) if separator and number.isdecimal() else None


def split_rotated(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """(rotated logs that are of use, oldest first; what an attempt to compress one left behind)."""
    found = set(names)
    useless = {
        each
        for each in found
        if each.endswith(TEMPORARY) or (not each.endswith(COMPRESSED) and each + COMPRESSED in found)
    }
    return sorted(found - useless), sorted(useless)
