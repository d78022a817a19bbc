"""A containerd for tests, in a network namespace of its own, with an image that has busybox; nothing of it is left afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bayplan.cluster.real_nodes.containerd import (
    ContainerdSettings,
    containerd_command,
    ensure_sandbox_image,
    import_image,
    snapshotter_for,
    wait_ready,
    write_config,
)
from bayplan.cluster.real_nodes.requirements import find_cni_plugins
from bayplan.cluster.real_nodes.settings import OCI_RUNTIMES, RUNC
from bayplan.kubelet.runtime.cri import CriRuntime
from bayplan.support.clock import SystemClock
from tests.kubelet.waiting import eventually

BUSYBOX = "registry.test/busybox:1"
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "bayplan-test",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": False,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.211.0.0/24"}]], "dataDir": ""},
        },
        {"type": "loopback"},
    ],
}

needs_containerd = pytest.mark.skipif(
    os.geteuid() != 0
    or find_cni_plugins() is None
    or any(shutil.which(name) is None for name in ("containerd", "runc", "ctr", "busybox", "unshare", "ip")),
    reason="needs root, containerd, runc, containernetworking-plugins, busybox-static, iproute2",
)
under_each_oci_runtime = pytest.mark.parametrize(
    "oci_runtime",
    [
        pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"needs {name}"))
        for name in OCI_RUNTIMES
    ],
)


def busybox_image(name: str = BUSYBOX) -> bytes:
    """An image whose /bin/sh and so on are the machine's static busybox."""
    busybox = Path(str(shutil.which("busybox"))).read_bytes()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("bin/busybox")
        entry.size, entry.mode = len(busybox), 0o755
        tar.addfile(entry, io.BytesIO(busybox))
        for applet in ("sh", "sleep", "cat", "echo", "false", "true", "id", "kill", "ls"):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
            tar.addfile(link)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Cmd": ["sh"], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file, data in (("config.json", config), ("layer.tar", layer.getvalue()), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return archive.getvalue()


@contextlib.asynccontextmanager
async def running_containerd(oci_runtime: str = RUNC) -> AsyncIterator[tuple[CriRuntime, ContainerdSettings]]:
    """A containerd with the pause image and busybox."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="cri-") as name:
        directory = Path(name)
        plugins = find_cni_plugins()
        assert plugins is not None
        settings = ContainerdSettings(
            directory / "lib",
            directory / "run",
            plugins,
            directory / "net.d",
            snapshotter_for(directory),
            oci_runtimes=(oci_runtime,),
        )
        write_config(settings)
        network = json.dumps(_NETWORK).replace('"dataDir": ""', f'"dataDir": "{directory}/ipam"')
        (settings.cni_config / "10-test.conflist").write_text(network)
        command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"', *containerd_command(settings)]
        with (directory / "containerd.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        runtime = CriRuntime(settings.endpoint, request_timeout=30)
        try:
            await wait_ready(runtime, clock, 30)
            await ensure_sandbox_image(settings, runtime, clock, platform.machine())
            await import_image(settings, busybox_image())
            await eventually(lambda: _has_busybox(runtime), "busybox")
            yield runtime, settings
            for sandbox in await runtime.sandboxes():
                await runtime.stop_sandbox(sandbox.id)
                await runtime.remove_sandbox(sandbox.id)
        finally:
            await runtime.close()
            process.send_signal(signal.SIGTERM)
            await process.wait()
            _unmount(directory)


async def _has_busybox(runtime: CriRuntime) -> bool:
    return await runtime.image_status(BUSYBOX) is not None


def _unmount(directory: Path) -> None:
    """Unmount what containerd left below a directory, the innermost first."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted((each for each in mounts if each.startswith(f"{directory}/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=True)
