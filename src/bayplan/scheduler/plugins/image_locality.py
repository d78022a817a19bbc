"""ImageLocality: prefers nodes that already have the pod's images.

An image counts with its size, scaled down the fewer nodes have it, so that one warm node does not attract every pod. As `ImageLocalityPriority`
of old `Policy` files it looks at containers alone, as Kubernetes did until 1.22.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

import numpy as np

from bayplan.api.types.core_v1 import Container
from bayplan.scheduler.framework.arguments import ImageLocalityArgs
from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE, Scope, ScorePlugin
from bayplan.scheduler.framework.state import CycleState, Handle, PodShape
from bayplan.scheduler.snapshot.labels import Ints, Rows

MEBIBYTE: Final = 1024 * 1024
MIN_THRESHOLD: Final = 23 * MEBIBYTE
MAX_THRESHOLD_PER_CONTAINER: Final = 1000 * MEBIBYTE


def normalized_image_name(name: str) -> str:
    """The name with a tag: `:latest` if it has none."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name


class ImageLocality(ScorePlugin):
    """0 below 23 MiB of local images, 100 above 1000 MiB per container."""

    name = "ImageLocality"
    score_scope = Scope.NODE

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._of_containers_alone = isinstance(args, ImageLocalityArgs) and args.of_containers_alone

    def _containers(self, pod: PodShape) -> Sequence[Container]:
        return pod.spec.containers if self._of_containers_alone else (*pod.spec.init_containers, *pod.spec.containers)

    def _images(self, pod: PodShape) -> Iterator[str]:
        for container in self._containers(pod):
            yield normalized_image_name(container.image)
        if not self._of_containers_alone:
            for volume in pod.spec.volumes:
                if volume.image is not None:
                    yield normalized_image_name(volume.image.reference)

    def reads(self, pod: PodShape) -> Hashable | None:
        if not self.snapshot.has_images:
            return ()
        snapshot = self.snapshot
        found = tuple((name, version) for name in self._images(pod) if (version := snapshot.image_version(name)))
        return (found, len(self._containers(pod))) if found else ()

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        snapshot = self.snapshot
        total = snapshot.node_count
        worth = [
            (name, int(float(snapshot.image_size(name)) * (float(snapshot.image_spread(name)) / float(total))))
            for name in self._images(pod)
            if snapshot.image_spread(name)
        ]
        containers = len(self._containers(pod))

        def score(images: frozenset[str] | None) -> int:
            return _score(sum(value for name, value in worth if images and name in images), containers)

        return snapshot.images.gather(score, rows)

    def score_empty(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        return np.zeros(self.snapshot.select(rows), dtype=np.int64)


def _score(local: int, containers: int) -> int:
    ceiling = MAX_THRESHOLD_PER_CONTAINER * containers
    clamped = min(max(local, MIN_THRESHOLD), ceiling)
    return MAX_NODE_SCORE * (clamped - MIN_THRESHOLD) // (ceiling - MIN_THRESHOLD)
