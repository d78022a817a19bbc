"""`bayplan csi-controller` and `bayplan csi-local` as processes against a live cluster: claims become directories and images on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load
from bayplan.cluster.manifests.apply import apply_manifests
from bayplan.cluster.manifests.reading import gather_manifests

BAYPLAN = str(Path(sys.executable).parent / "bayplan")
_SECONDS = 60.0


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="csi-") as directory:
        yield Path(directory)


@contextmanager
def running(*command: str, until: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has printed a line with this beginning."""
    with subprocess.Popen(
        [BAYPLAN, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith(until):
                    break
            else:
                raise AssertionError("".join(lines))
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()


def claim(name: str, storage_class: str, **spec: Any) -> Any:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "16Mi"}},
        **spec,
    }
    return from_tree(core_v1.PersistentVolumeClaim, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def manifests(verb: str) -> str:
    done = subprocess.run([BAYPLAN, verb, "manifests"], capture_output=True, text=True, check=True)
    return done.stdout


async def eventually(condition: Any) -> Any:
    until = time.monotonic() + _SECONDS
    while not (found := await condition()):
        assert time.monotonic() < until
        await asyncio.sleep(0.1)
    return found


async def scenario(client: Client, data: Path) -> None:
    definitions, objects = (
        manifests("csi-controller"),
        manifests("csi-local").replace("WaitForFirstConsumer", "Immediate"),
    )
    *classes, snapshot_class = yaml.safe_load_all(objects)
    await apply_manifests(client, gather_manifests((definitions,)), None)
    await apply_manifests(client, gather_manifests(tuple(classes)), None)
    await client.create(claim("files", "local-directory"))
    await client.create(claim("disk", "local-image"))

    async def bound(name: str) -> core_v1.PersistentVolume | None:
        found = await client.get(core_v1.PersistentVolumeClaim, name, "default")
        if found.status.phase != "Bound":
            return None
        return await client.get(core_v1.PersistentVolume, found.spec.volume_name)

    files = await eventually(lambda: bound("files"))
    disk = await eventually(lambda: bound("disk"))
    assert (data / "volumes" / files.spec.csi.volume_handle / "data").is_dir()
    image = data / "volumes" / str(disk.spec.csi.volume_handle) / "image"
    assert image.stat().st_size == 16 << 20
    (term,) = files.spec.node_affinity.required.node_selector_terms
    assert [(one.key, one.values) for one in term.match_expressions] == [("topology.csi.bayplan.dev/node", ("n1",))]
    patch = {"spec": {"resources": {"requests": {"storage": "32Mi"}}}}
    await client.patch(core_v1.PersistentVolumeClaim, "disk", "default", patch)

    async def grown() -> bool:
        return image.stat().st_size == 32 << 20

    await eventually(grown)
    (data / "volumes" / files.spec.csi.volume_handle / "data" / "file").write_text("kept")
    group = "/apis/snapshot.storage.k8s.io/v1"
    snapshot = {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": "snap"},
        "spec": {"source": {"persistentVolumeClaimName": "files"}},
    }
    await client.raw("POST", f"{group}/volumesnapshotclasses", body=yaml_to_json(snapshot_class))
    await client.raw("POST", f"{group}/namespaces/default/volumesnapshots", body=yaml_to_json(snapshot))
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
    await client.create(claim("restored", "local-directory", dataSource=source))
    restored = await eventually(lambda: bound("restored"))
    assert (data / "volumes" / restored.spec.csi.volume_handle / "data" / "file").read_text() == "kept"
    await client.raw("DELETE", f"{group}/namespaces/default/volumesnapshots/snap")
    for name in ("files", "disk", "restored"):
        await client.delete(core_v1.PersistentVolumeClaim, name, "default")

    async def empty() -> bool:
        files = [*(data / "volumes").iterdir(), *(data / "snapshots").iterdir()]
        return not files and not (await client.list(core_v1.PersistentVolume)).items

    await eventually(empty)


def yaml_to_json(tree: Any) -> bytes:
    import json

    return json.dumps(tree).encode()


def test_claims_become_volumes_of_this_machine(root: Path) -> None:
    kubeconfig, socket, data = root / "kubeconfig", root / "csi.sock", root / "data"
    cluster = ("up", "--nodes=0", "--port=0", "--data-dir", str(root / "cluster"), "--kubeconfig", str(kubeconfig))
    local = ("csi-local", f"--endpoint={socket}", "--node-id=n1", f"--data-dir={data}", "--plugin-registry=none")
    controller = (
        "csi-controller", f"--kubeconfig={kubeconfig}", f"--csi-address=unix://{socket}", "--node-deployment",
        "--node-deployment-base-delay=10ms",
    )  # fmt: skip

    async def main() -> None:
        client = Client(HttpTransport(load(kubeconfig), user_agent="test"))
        try:
            await scenario(client, data)
        finally:
            await client.close()

    with (
        running(*cluster, until="ready"),
        running(*local, until="ready"),
        running(*controller, until="started: csi-controller for local.csi.bayplan.dev", NODE_NAME="n1"),
    ):
        asyncio.run(main())
