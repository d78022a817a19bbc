"""Images for real nodes, without a registry."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bayplan.cluster.real_nodes.containerd import ContainerdSettings, import_image
from bayplan.cluster.real_nodes.settings import NodePlace
from tests.kubelet.runtime.real_containerd import busybox_image


def give_image(place: NodePlace) -> None:
    """Have busybox on a node."""
    containerd = ContainerdSettings(place.directory / "containerd", place.state, Path("/"), Path("/"), "native")
    config_text = (containerd.config_file).read_text()
    snapshotter = "overlayfs" if 'snapshotter = "overlayfs"' in config_text else "native"
    containerd = ContainerdSettings(containerd.directory, containerd.state, Path("/"), Path("/"), snapshotter)
    asyncio.run(import_image(containerd, busybox_image()))
