"""Where a cgroup is below a hierarchy, for either driver. Pure.

A name is a tuple of parts, such as ("kubepods", "burstable", "pod4f0c-..."). With the driver cgroupfs a part is a directory; with systemd it is a slice, whose
name repeats those above it: kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4f0c_....slice.
"""

from __future__ import annotations

from typing import Final

Name = tuple[str, ...]
ROOT: Final[Name] = ()
PODS: Final = "kubepods"
BURSTABLE, BEST_EFFORT = "burstable", "besteffort"
POD_PREFIX: Final = "pod"
_SLICE = ".slice"
CGROUPFS, SYSTEMD = "cgroupfs", "systemd"


def parse_root(text: str, driver: str) -> Name:
    """A `--cgroup-root`: / for none, a path, or with systemd the name of a slice."""
    path = text.strip("/")
    if not path:
        return ROOT
    if driver == SYSTEMD:
        last = path.rpartition("/")[2].removesuffix(_SLICE)
        return tuple(part.replace("_", "-") for part in last.split("-"))
    return tuple(path.split("/"))


def path_of(name: Name, driver: str) -> str:
    """The path below a hierarchy, beginning with a slash."""
    if driver == CGROUPFS or not name:
        return "/" + "/".join(name)
    parts = [part.replace("-", "_") for part in name]
    return "".join(f"/{'-'.join(parts[: count + 1])}{_SLICE}" for count in range(len(parts)))


def parent_for_runtime(name: Name, driver: str) -> str:
    """What a runtime is given as the parent of a pod's sandbox: the path, or with systemd the slice alone."""
    path = path_of(name, driver)
    return path if driver == CGROUPFS else path.rpartition("/")[2]


def child_name(parent: Name, directory: str, driver: str) -> Name | None:
    """The name of a directory found below a cgroup; None for what is none of this driver's, such as a container's scope."""
    if driver == CGROUPFS:
        return (*parent, directory)
    if not directory.endswith(_SLICE):
        return None
    last = directory.removesuffix(_SLICE).rpartition("-")[2].replace("_", "-")
    return (*parent, last)


def pods_root(root: Name) -> Name:
    """The cgroup of all pods, which is that of the Guaranteed ones."""
    return (*root, PODS)


def class_name(root: Name, qos: str) -> Name:
    """The cgroup of a class of service: Guaranteed, Burstable or BestEffort."""
    below: dict[str, Name] = {"Guaranteed": (), "Burstable": (BURSTABLE,), "BestEffort": (BEST_EFFORT,)}
    return (*pods_root(root), *below[qos])


def pod_name(root: Name, qos: str, uid: str) -> Name:
    """A pod's cgroup."""
    return (*class_name(root, qos), f"{POD_PREFIX}{uid}")
