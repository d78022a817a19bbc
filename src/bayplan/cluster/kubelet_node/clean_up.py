"""What a node does now and then: remove images, cgroups and volumes that no pod uses, and give the QoS classes their shares."""

from __future__ import annotations

import logging

from bayplan.kubelet.cgroups.errors import CgroupError
from bayplan.kubelet.cgroups.pods import PodCgroups, QosCgroups
from bayplan.kubelet.images.garbage_collector import ImageGarbageCollectionError, ImageGarbageCollector
from bayplan.kubelet.images.records import PullRecords
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.user_namespaces import UserNamespaces
from bayplan.kubelet.volumes.manager import VolumeManager
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

IMAGE_COLLECTION_SECONDS = 300.0
ORPHAN_SECONDS = 60.0


class ImageCleanUp:
    """Removes images, and the records of pulls with them."""

    def __init__(self, runtime: Runtime, collector: ImageGarbageCollector, records: PullRecords, clock: Clock) -> None:
        self._runtime = runtime
        self._collector = collector
        self._records = records
        self._clock = clock

    async def recover(self) -> None:
        """Records of pulls that were interrupted by the end of an earlier kubelet. To be called before the first pull."""
        try:
            images = await self._runtime.images()
            self._records.recover((each.id, (*each.tags, *each.digests)) for each in images)
        except (RuntimeRequestError, OSError) as error:
            logger.warning("records of image pulls: %s", error)

    async def free(self) -> None:
        """Remove all images that nothing uses: the node is about to evict pods."""
        try:
            await self._collector.delete_unused()
        except ImageGarbageCollectionError as error:
            logger.warning("images: %s", error)

    async def run(self) -> None:
        """Collect every five minutes, until cancelled."""
        while True:
            try:
                started = self._clock.now()
                present = await self._collector.collect()
                self._records.prune(present, started)
            except (ImageGarbageCollectionError, RuntimeRequestError, OSError) as error:
                logger.warning("images: %s", error)
            await self._clock.sleep(IMAGE_COLLECTION_SECONDS)


class OrphanCleanUp:
    """Removes cgroups, volumes and user ids of pods that ended while no kubelet ran."""

    def __init__(
        self,
        kubelet: Kubelet,
        volumes: VolumeManager,
        users: UserNamespaces,
        qos: QosCgroups | None,
        cgroups: PodCgroups | None,
        clock: Clock,
    ) -> None:
        self._kubelet = kubelet
        self._volumes = volumes
        self._users = users
        self._qos = qos
        self._cgroups = cgroups
        self._clock = clock

    async def run(self) -> None:
        """Look every minute, as soon as all pods of the node are known, until cancelled."""
        while not self._kubelet.pods.ready:
            await self._clock.sleep(1.0)
        while True:
            kept = self._known()
            await self._update_cgroups(kept)
            await self._volumes.remove_orphans(kept)
            await self._users.release_all_but(kept)
            await self._clock.sleep(ORPHAN_SECONDS)

    def _known(self) -> set[str]:
        """The uids of pods that the API, a worker or the runtime has."""
        kubelet = self._kubelet
        return {
            *kubelet.workers.known(),
            *(pod.metadata.uid for pod in kubelet.pods.active()),
            *kubelet.lifecycle.pods(),
        }

    async def _update_cgroups(self, kept: set[str]) -> None:
        if self._qos is None or self._cgroups is None:
            return
        try:
            self._qos.update(self._kubelet.pods.active())
            await self._cgroups.remove_others(kept)
        except CgroupError as error:
            logger.warning("cgroups: %s", error)
