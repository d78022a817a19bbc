"""Reports the disks of a node in its StorageNode: image files of a directory ($DISKS_DIRECTORY), or block devices of the machine that nothing is on.

A disk that already has the label of this storage is reported as well: it was made ready by an agent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.client.errors import TransportError
from bayplan.support.blocking import in_thread

from .objects import GROUP, NODES, Api, path, pod_client

logger = logging.getLogger(__name__)

LABEL: Final = "replicated-disk"
"""The label of the file systems that agents make."""
_SECONDS: Final = 10.0
_NOTHING_FOUND: Final = 2
"""The exit code of blkid for a disk without anything."""
_NO_DISKS: Final = ("loop", "ram", "zram", "sr", "fd", "nbd", "dm-", "md")


def candidates(directory: Path | None, sys_block: Path = Path("/sys/block")) -> list[Path]:
    """What may be disks: files of the directory, or whole block devices without partitions that no other device is built on."""
    if directory is not None:
        return sorted(one for one in directory.glob("*.img") if one.is_file())
    found = []
    for device in sorted(sys_block.iterdir()):
        is_whole = not any(device.glob(f"{device.name}*/partition")) and not any((device / "holders").glob("*"))
        if not device.name.startswith(_NO_DISKS) and is_whole and (device / "size").read_text().strip() != "0":
            found.append(Path("/dev") / device.name)
    return found


def size_of(disk: Path) -> int:
    """Bytes of a file or block device."""
    with disk.open("rb") as file:
        return file.seek(0, os.SEEK_END)


def is_usable(disk: Path) -> bool:
    """Whether nothing is on a disk, or a file system of ours. Raises OSError without blkid."""
    command = ["blkid", "--probe", "--output", "value", "--match-tag", "LABEL", str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout.strip() == LABEL
    whole = subprocess.run(["blkid", "--probe", str(disk)], capture_output=True, check=False)
    return whole.returncode == _NOTHING_FOUND


def report(directory: Path | None) -> list[dict[str, Any]]:
    """The usable disks."""
    return [{"path": str(one), "size": size_of(one)} for one in candidates(directory) if is_usable(one)]


async def publish(api: Api, node_name: str, disks: list[dict[str, Any]]) -> None:
    """Write them to the StorageNode, which goes when the Node goes."""
    try:
        await api.merge(path(NODES, node_name, "status"), {"status": {"disks": disks}})
    except ApiError as error:
        if error.code != 404:
            raise
        node = await api.get(f"/api/v1/nodes/{node_name}")
        owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node["metadata"]["uid"]}
        metadata = {"name": node_name, "ownerReferences": [owner]}
        await api.create(path(NODES), {"apiVersion": f"{GROUP}/v1", "kind": "StorageNode", "metadata": metadata})
        await api.merge(path(NODES, node_name, "status"), {"status": {"disks": disks}})


async def main() -> None:
    """Report what has changed, every ten seconds."""
    api, node_name = Api(pod_client()), os.environ["NODE_NAME"]
    directory = Path(os.environ["DISKS_DIRECTORY"]) if os.environ.get("DISKS_DIRECTORY") else None
    while True:
        try:
            disks = await in_thread(lambda: report(directory))
            await publish(api, node_name, disks)
            logger.info("%d disks", len(disks))
        except (ApiError, TransportError, OSError) as error:
            logger.warning("disks were not reported: %s", error)
        await asyncio.sleep(_SECONDS)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    asyncio.run(main())
