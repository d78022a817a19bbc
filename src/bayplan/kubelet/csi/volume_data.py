"""Where volumes of drivers are on the node, and what the kubelet keeps beside them to find them again after a restart (`vol_data.json`, in Kubernetes' form)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bayplan.kubelet.csi.requests import Source
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import VolumeHost, escaped

KIND: Final = "kubernetes.io/csi"
FILE: Final = "vol_data.json"
DRIVER, HANDLE, NAME, MODE, NODE, ATTACHMENT = (
    "driverName",
    "volumeHandle",
    "specVolID",
    "volumeLifecycleMode",
    "nodeName",
    "attachmentID",
)
MOUNT: Final = "mount"
"""Where a volume is mounted within its directory of a pod."""
_GLOBAL = "globalmount"


def plugin_directory(root: Path) -> Path:
    """What the kubelet keeps of volumes apart from those of single pods."""
    return root / "plugins" / KIND


def staging_path(root: Path, source: Source) -> Path:
    """Where a file system is staged."""
    return plugin_directory(root) / source.driver / hashlib.sha256(source.handle.encode()).hexdigest() / _GLOBAL


def devices_directory(root: Path) -> Path:
    """What the kubelet keeps of block volumes."""
    return plugin_directory(root) / "volumeDevices"


def device_staging_path(root: Path, name: str) -> Path:
    """Where a block volume is staged."""
    return devices_directory(root) / "staging" / name


def device_publish_path(root: Path, name: str, pod_uid: str) -> Path:
    """Where a driver puts a block volume's device for a pod."""
    return devices_directory(root) / "publish" / name / pod_uid


def device_data(root: Path, name: str) -> Path:
    """Where what is known of a block volume is kept."""
    return devices_directory(root) / name / "data"


def save(directory: Path, data: Mapping[str, str]) -> None:
    """Write what is known of a volume; a file that is there is replaced as a whole. Raises OSError."""
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    part = directory / f".{FILE}"
    part.write_text(json.dumps(data) + "\n")
    part.rename(directory / FILE)


def load(directory: Path) -> dict[str, str]:
    """What is known of a volume. Raises FileNotFoundError where nothing is, SetUpError where it cannot be read."""
    path = directory / FILE
    try:
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict) or not found.get(DRIVER) or not found.get(HANDLE):
            raise SetUpError(f"{KIND}: failed to parse volume data file [{path}]: driver and volume handle are missing")
    except ValueError as error:
        raise SetUpError(f"{KIND}: failed to parse volume data file [{path}]: {error}") from error
    return found


def remove(directory: Path) -> None:
    """Remove what `save` wrote, and the directory if it is empty then. Raises OSError."""
    (directory / FILE).unlink(missing_ok=True)
    (directory / f".{FILE}").unlink(missing_ok=True)
    try:
        directory.rmdir()
    except FileNotFoundError:
        return


def published(root: Path) -> Iterator[dict[str, str]]:
    """What is known of the volumes that pods have, or may have: of each pod of its own."""
    for file in (root / "pods").glob(f"*/volumes/{escaped(KIND)}/*/{FILE}"):
        yield from _readable(file.parent)
    for name in _names(devices_directory(root) / "publish"):
        if _names(devices_directory(root) / "publish" / name):
            yield from _readable(device_data(root, name))


def staged(root: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """(staging path, what is known) of the file systems that are staged, or may be."""
    for file in plugin_directory(root).glob(f"*/*/{FILE}"):
        if file.parent.parent != devices_directory(root):
            for data in _readable(file.parent):
                yield file.parent / _GLOBAL, data


def staged_devices(root: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(name, what is known) of the block volumes that are staged, or may be."""
    for name in _names(devices_directory(root)):
        if name not in ("staging", "publish"):
            for data in _readable(device_data(root, name)):
                yield name, data


def is_published(host: VolumeHost, driver: str, handle: str) -> bool:
    """Whether a pod has a volume, or may have it."""
    return any(each[DRIVER] == driver and each[HANDLE] == handle for each in published(host.root))


def _readable(directory: Path) -> Iterator[dict[str, str]]:
    try:
        yield load(directory)
    except (FileNotFoundError, SetUpError):
        return  # who works on that volume says so


def _names(directory: Path) -> list[str]:
    try:
        return sorted(each.name for each in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
