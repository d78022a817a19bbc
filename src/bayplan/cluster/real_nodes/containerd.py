"""A containerd of its own for a node: its configuration, the programs with which it starts containers, its images, and whether it answers.

Nothing is shared with a containerd that the machine may have: directories, socket and network configuration are the node's.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bayplan.cluster.errors import RealNodeError
from bayplan.cluster.real_nodes.settings import CRUN, OCI_RUNTIMES, REGISTRY_CONFIG, RUNC
from bayplan.kubelet.runtime.cri import CriRuntime
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.pause_image import PAUSE_IMAGE, pause_image
from bayplan.support.clock import Clock

_LONGEST_SOCKET = 100
"""Characters of a Unix socket's path: 107, of which containerd takes some for the name of a second socket."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CRUN_VERSION = (1, 8)
"""Older ones refuse the configurations that newer containerds write."""
_UNIFIED = Path("/sys/fs/cgroup/unified")
"""Where cgroup version 2 is mounted beside version 1."""
_WITHOUT_UNIFIED = 'mount --make-private "${0%/*}" && umount "$0" && exec "$@"'
"""Unmounts a shell's first argument for the command that the others are, and for nobody who shares mounts with it."""


@dataclass(frozen=True, slots=True)
class ContainerdSettings:
    """Where a containerd keeps its things and what it uses.

    `directory` is for what stays, `state` for what does not; `cni_plugins` has the network plugins, `cni_config` the node's networks;
    `snapshotter` is overlayfs or native. `registry_config` has a directory with a `hosts.toml` for each registry. `oci_runtimes` start containers: the first of
    them those of pods that name no RuntimeClass.
    """

    directory: Path
    state: Path
    cni_plugins: Path
    cni_config: Path
    snapshotter: str = "overlayfs"
    sandbox_image: str = PAUSE_IMAGE
    systemd_cgroups: bool = False
    registry_config: Path = REGISTRY_CONFIG
    oci_runtimes: tuple[str, ...] = (RUNC,)

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.state / "containerd.sock"

    @property
    def endpoint(self) -> str:
        """The socket as kubelets write it."""
        return f"unix://{self.socket}"

    @property
    def nri_socket(self) -> Path:
        """Where it serves the Node Resource Interface, from containerd 2.0 on."""
        return self.state / "nri.sock"

    @property
    def config_file(self) -> Path:
        """Its configuration."""
        return self.directory / "config.toml"


def containerd_config(settings: ContainerdSettings) -> str:
    """The configuration file, in a version that containerd 1.6 to 2.x read.

    `restrict_oom_score_adj` is what lets it run where it may not lower the score of processes, as in most containers; where it may, it changes nothing
    but the few pods that ask for a score below containerd's own.
    """
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    runtimes = f"{cri}.containerd.runtimes"
    tables: list[tuple[str, dict[str, object]]] = [
        ("", {"version": 2, "root": str(settings.directory / "root"), "state": str(settings.state / "state")}),
        ("grpc", {"address": str(settings.socket)}),
        (
            cri,
            {
                "sandbox_image": settings.sandbox_image,
                "restrict_oom_score_adj": True,
                "stream_server_address": "127.0.0.1",
                "stream_server_port": "0",
                # Below its own directory, so that whoever cleans up finds them.
                "netns_mounts_under_state_dir": True,
            },
        ),
        (f"{cri}.cni", {"bin_dir": str(settings.cni_plugins), "conf_dir": str(settings.cni_config)}),
        (
            f"{cri}.containerd",
            {"snapshotter": settings.snapshotter, "default_runtime_name": settings.oci_runtimes[0]},
        ),
        (f"{cri}.registry", {"config_path": str(settings.registry_config)}),
        ('plugins."io.containerd.internal.v1.opt"', {"path": str(settings.directory / "opt")}),
        # From 2.0 on it serves NRI, by default at one path of the machine: the next node's containerd would take it away, or end because it is taken.
        ('plugins."io.containerd.nri.v1.nri"', {"socket_path": str(settings.nri_socket)}),
    ]
    for name in settings.oci_runtimes:
        options = {"BinaryName": name, "SystemdCgroup": settings.systemd_cgroups, "Root": str(settings.state / name)}
        tables += [
            (f"{runtimes}.{name}", {"runtime_type": "io.containerd.runc.v2"}),
            (f"{runtimes}.{name}.options", options),
        ]
    return "\n".join(_table(name, values) for name, values in tables)


def _table(name: str, values: dict[str, object]) -> str:
    # JSON's strings, integers and booleans are TOML's.
    lines = [f"[{name}]"] if name else []
    return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""])


def oci_runtimes(
    wanted: str,
    which: Callable[[str], str | None] = shutil.which,
    version: Callable[[], str] = lambda: subprocess.check_output([CRUN, "--version"], text=True),
) -> tuple[str, ...]:
    """The OCI runtimes that are installed. The first one is `wanted`, or crun if it is new enough, which starts a container in half of runc's time. version: what
    crun says of itself."""
    installed = [name for name in OCI_RUNTIMES if which(name) is not None]
    if not wanted and CRUN in installed:
        found = re.search(r"version (\d+)\.(\d+)", version())
        wanted = CRUN if found is not None and (int(found[1]), int(found[2])) >= _CRUN_VERSION else RUNC
    return tuple(sorted(installed, key=lambda name: name != wanted))


def hides_unified(settings: ContainerdSettings, unified: Path = _UNIFIED) -> bool:
    """Whether a containerd must not see cgroup version 2: beside version 1, crun makes nothing of it, but refuses to work where it has controllers."""
    try:
        return CRUN in settings.oci_runtimes and bool((unified / "cgroup.controllers").read_text().strip())
    except (FileNotFoundError, NotADirectoryError):
        return False


def containerd_command(settings: ContainerdSettings, unified: Path = _UNIFIED) -> tuple[str, ...]:
    """Its command line. Its mounts are the machine's, but for cgroup version 2 if that has to be hidden."""
    command = ("containerd", "--config", str(settings.config_file))
    if not hides_unified(settings, unified):
        return command
    alone = ("unshare", "--mount", "--propagation", "unchanged", "--")
    return (*alone, "sh", "-c", _WITHOUT_UNIFIED, str(unified), *command)


def write_config(settings: ContainerdSettings) -> None:
    """Make the directories and the configuration file. Raises RealNodeError where the socket's path would be too long."""
    if len(str(settings.socket)) > _LONGEST_SOCKET:
        raise RealNodeError(
            f"{settings.socket}: longer than a socket's path may be ({_LONGEST_SOCKET}); use a data directory with a shorter path"
        )
    for directory in (settings.directory, settings.state, settings.cni_config):
        directory.mkdir(parents=True, exist_ok=True)
    settings.config_file.write_text(containerd_config(settings))


def snapshotter_for(directory: Path) -> str:
    """`overlayfs` where files in this directory can be layers of one, else `native`, which copies them."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="overlay-") as name:
        lower, upper, work, merged = (Path(name, part) for part in ("lower", "upper", "work", "merged"))
        for part in (lower, upper, work, merged):
            part.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        mounted = subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)], capture_output=True, check=False
        )
        if mounted.returncode:
            return "native"
        subprocess.run(["umount", str(merged)], check=True)
    return "overlayfs"


async def wait_ready(runtime: CriRuntime, clock: Clock, seconds: float) -> None:
    """Return when the runtime answers. Raises RealNodeError with its last words when it does not in time."""
    end = clock.monotonic() + seconds
    while True:
        try:
            await runtime.version()
            return
        except RuntimeRequestError as error:
            if clock.monotonic() >= end:
                raise RealNodeError(
                    f"{runtime.endpoint}: containerd does not answer after {seconds:g} s: {error}"
                ) from error
        await clock.sleep(0.05)


async def import_image(settings: ContainerdSettings, archive: bytes) -> None:
    """Bring an image into containerd. Raises RealNodeError."""
    with tempfile.NamedTemporaryFile(dir=settings.directory, suffix=".tar") as file:
        file.write(archive)
        file.flush()
        command = ["ctr", "--address", str(settings.socket), "--namespace", "k8s.io", "images", "import"]
        process = await asyncio.create_subprocess_exec(
            *command,
            "--snapshotter",
            settings.snapshotter,
            file.name,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
    if process.returncode:
        raise RealNodeError(f"importing an image into containerd failed: {output.decode(errors='replace').strip()}")


async def ensure_sandbox_image(settings: ContainerdSettings, runtime: CriRuntime, clock: Clock, machine: str) -> None:
    """Bring the own pause image in, if that is the sandbox image and it is not there. machine: as `uname -m` says. Raises RealNodeError."""
    if settings.sandbox_image != PAUSE_IMAGE or await runtime.image_status(PAUSE_IMAGE) is not None:
        return
    await import_image(settings, pause_image(_ARCHITECTURES.get(machine, machine)))
    end = clock.monotonic() + 10
    while await runtime.image_status(PAUSE_IMAGE) is None:  # containerd's CRI part learns of it a little later
        if clock.monotonic() >= end:
            raise RealNodeError(f"containerd does not show {PAUSE_IMAGE} after it was imported")
        await clock.sleep(0.05)
