"""Which images simulated nodes have: those of the pods that have run there, as `status.images` shows them. A node's own status remembers the earlier ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bayplan.api.codec import encode
from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.nodes.images import image_of, reported_images

_MOST_KNOWN = 256


class NodeImages:
    """Knows which nodes have got images that their status does not show yet."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}
        """Node -> images of pods that were seen there; of very many only the last ones, as the status remembers the largest."""
        self._changed: set[str] = set()

    def see(self, pod: core_v1.Pod) -> None:
        """A pod is as the API shows it."""
        for status in pod.status.container_statuses:
            known = self._known.get(pod.spec.node_name)
            if status.image_id and (known is None or status.image not in known):
                self._add(pod.spec.node_name, status.image)

    def _add(self, name: str, image: str) -> None:
        known = self._known.setdefault(name, set())
        if len(known) >= _MOST_KNOWN and name not in self._changed:
            known.clear()
        known.add(image)
        self._changed.add(name)

    def forget(self, name: str) -> None:
        """A node is gone."""
        self._known.pop(name, None)
        self._changed.discard(name)

    def patch(self, node: core_v1.Node) -> dict[str, Any] | None:
        """The change of a node's status since it was last asked for; None if there is none."""
        name = node.metadata.name
        if name not in self._changed:
            return None
        self._changed.discard(name)
        images = reported_images((*_shown(node.status.images), *sorted(self._known[name])))
        if images == node.status.images:
            return None
        return {"status": {"images": [msgspec.json.decode(encode(one)) for one in images]}}

    def again(self, name: str) -> None:
        """The change of a node's status could not be written."""
        self._changed.add(name)


def _shown(images: Iterable[core_v1.ContainerImage]) -> list[str]:
    """Names of images by which they can be found again."""
    return [one.names[-1] for one in images if one.names and image_of(one.names[-1]).names == one.names]
