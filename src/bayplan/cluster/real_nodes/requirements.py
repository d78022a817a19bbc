"""What a machine must have to run real nodes, and what to install where it does not."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.settings import CRUN, HOST, NAMESPACE, RUNC, RealNodeSettings
from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.mounts import find_mounts
from bayplan.network.settings import CNI_PLUGINS
from bayplan.support.system.machine import has_ipv6
from bayplan.support.system.port_holders import holder_of


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and the packages that have it: of Debian and Ubuntu, of Fedora."""

    name: str
    debian: str
    fedora: str


_ALWAYS = (
    Program("containerd", "containerd", "containerd"),
    Program("ctr", "containerd", "containerd"),
    Program("mount", "mount", "util-linux"),
    Program("ip", "iproute2", "iproute"),
    Program("bridge", "iproute2", "iproute"),
    Program("nft", "nftables", "nftables"),
    Program("losetup", "mount", "util-linux-core"),
    Program("setpriv", "util-linux", "util-linux"),
    Program("mkfs.ext4", "e2fsprogs", "e2fsprogs"),
)
_FOR_NAMESPACES = (Program("nsenter", "util-linux", "util-linux"), Program("unshare", "util-linux", "util-linux"))
_PLUGINS = Program(
    "the CNI plugins ptp, host-local and loopback", "containernetworking-plugins", "containernetworking-plugins"
)
_SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where programs are that paths of users other than root often leave out."""
KUBELET_PORT = 10250
"""Where kubelets listen."""
_PACKAGES = {"grpc": "grpcio", "cri_api": "container-runtime-interface-api", "dns": "dnspython"}
"""Module -> its package on PyPI."""


def find_cni_plugins() -> Path | None:
    """The directory with the network plugins; None where they are not installed."""
    needed = ("ptp", "host-local", "loopback")
    return next((path for path in CNI_PLUGINS if all((path / name).exists() for name in needed)), None)


def missing(
    settings: RealNodeSettings,
    *,
    platform: str = sys.platform,
    user: int = 0,
    which: Callable[[str], str | None] = shutil.which,
    plugins: Callable[[], Path | None] = find_cni_plugins,
    module: Callable[[str], object] = importlib.util.find_spec,
    cgroups: Callable[[], object] = find_mounts,
    ipv6: Callable[[], bool] = has_ipv6,
) -> list[str]:
    """What keeps real nodes from running, one line each with the next step. The machine is asked through the arguments; user: the effective user id."""
    if platform != "linux":
        return ["real nodes need Linux"]
    found = []
    if user != 0:
        found.append("real nodes need root: run bayplan up with sudo")
    oci_runtime = settings.oci_runtime or (CRUN if which(RUNC) is None and which(CRUN) is not None else RUNC)
    for_mode = () if settings.mode == HOST else _FOR_NAMESPACES
    programs = (*_ALWAYS, Program(oci_runtime, oci_runtime, oci_runtime), *for_mode)
    lacking = [program for program in programs if which(program.name) is None]
    hidden = {name: directory for name in (each.name for each in lacking) if (directory := _hiding(name, which))}
    lacking = [program for program in lacking if program.name not in hidden]
    if hidden:
        directories = ":".join(dict.fromkeys(hidden.values()))
        found.append(f"PATH does not lead to {', '.join(hidden)}: add {directories} to it, as sudo does")
    if plugins() is None:
        lacking.append(_PLUGINS)
    if lacking:
        names = ", ".join(program.name for program in lacking)
        debian = " ".join(dict.fromkeys(program.debian for program in lacking))
        fedora = " ".join(dict.fromkeys(program.fedora for program in lacking))
        found.append(
            f"real nodes need {names}: apt-get install {debian} (Debian, Ubuntu) or dnf install {fedora} (Fedora)"
        )
    packages = [package for name, package in _PACKAGES.items() if module(name) is None]
    if packages:
        found.append(f"real nodes need the packages {', '.join(packages)}: pip install 'bayplan[kubelet,dns]'")
    try:
        cgroups()
    except CgroupError as error:
        found.append(f"real nodes need cgroups: {error}")
    if 6 in settings.versions and not ipv6():
        found.append("real nodes with IPv6 need a machine that has it: sysctl net.ipv6.conf.all.disable_ipv6=0")
    return found


def _hiding(name: str, which: Callable[[str], str | None]) -> str:
    """The directory that has a program though PATH does not lead there, as after `su` on Debian; empty if none has."""
    return next((directory for directory in _SYSTEM_DIRECTORIES if which(f"{directory}/{name}") is not None), "")


def check(settings: RealNodeSettings, user: int) -> None:
    """Raises RealNodeError that names all that is missing. user: the effective user id."""
    lines = missing(settings, user=user)
    if lines:
        raise RealNodeError("; ".join(lines))


def check_port(settings: RealNodeSettings, holder: Callable[[int], str] = holder_of) -> None:
    """Raises RealNodeError where the machine itself is to be the node and another kubelet, or anything else, has the port of kubelets. holder: who has a port."""
    found = holder(KUBELET_PORT) if settings.mode == HOST else ""
    if found:
        raise RealNodeError(
            f"port {KUBELET_PORT} of this machine, which its kubelet needs, is taken by {found}: end that, or give the node a network namespace of its own "
            f"(--real-node-mode {NAMESPACE})"
        )
