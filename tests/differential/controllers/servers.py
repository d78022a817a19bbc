"""An API server of Bayplan for each side, and a controller manager over each."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import aiohttp

from tests.differential.api.servers import running
from tests.differential.controllers.playing import Side
from tests.differential.running import kubeconfig
from tests.store.etcd.server import ENDS_WITH_PARENT

_API_SERVER: Final = [str(Path(sys.executable).parent / "bayplan"), "apiserver", "--store", "memory:"]
_NODES: Final = 5
_CONTROLLERS: Final = (
    "*",
    "-node-lifecycle-controller",
    "-node-ipam-controller",
    "-persistentvolume-attach-detach-controller",
)
"""Without those that want kubelets to report."""


@contextlib.asynccontextmanager
async def side(name: str, program: Sequence[str], directory: Path) -> AsyncIterator[Side]:
    """An API server with nodes and a controller manager, of which the first words are given. Logs are written to the directory."""
    await asyncio.to_thread(directory.mkdir, parents=True)
    words = [*_API_SERVER, f"--kubeconfig={directory / 'admin'}"]
    async with running(words, directory / "apiserver") as player:
        connector = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(connector=connector) as session:
            one = Side(name, player.server, session)
            for number in range(_NODES):
                await one.create("", _node(number))
            (directory / "kubeconfig").write_text(kubeconfig(player.server))
            with (directory / "log").open("wb") as log:
                process = await asyncio.create_subprocess_exec(
                    *ENDS_WITH_PARENT, *program, *_flags(directory), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=directory
                )  # fmt: skip
            try:
                one.problem = lambda: "" if process.returncode is None else _end_of(directory / "log")
                await one.settle()
                yield one
                await one.settle()
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] or "it said nothing"


def _flags(directory: Path) -> list[str]:
    return [
        f"--kubeconfig={directory / 'kubeconfig'}",
        f"--authentication-kubeconfig={directory / 'kubeconfig'}",
        f"--authorization-kubeconfig={directory / 'kubeconfig'}",
        f"--service-account-private-key-file={directory / 'apiserver' / 'key'}",
        f"--controllers={','.join(_CONTROLLERS)}",
        f"--root-ca-file={next((directory / 'apiserver' / 'certificates').glob('*.crt'))}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=2000",
        "--kube-api-burst=2000",
        "--concurrent-gc-syncs=5",
    ]


def _node(number: int) -> dict[str, object]:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    conditions = [{"type": "Ready", "status": "True"}]
    labels = {"kubernetes.io/hostname": f"node-{number}", "disk": "ssd" if number < 2 else "hdd"}
    return {
        "kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions},
    }  # fmt: skip
