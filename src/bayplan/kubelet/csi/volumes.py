"""kubernetes.io/csi: volumes of storage drivers, inline or of persistent volumes (csi_mounter.go, csi_attacher.go, csi_block.go).

A volume is staged once on the node, if the driver does that, and published for each pod. What was asked of a driver is on disk before it is asked, so that it is
undone after whatever comes between: unpublished when the pod goes, unstaged when no pod has the volume any more. About each volume one thing is done at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final

from bayplan.api.types import storage_v1
from bayplan.api.volume_attachments import attachment_name, needs_attach, unique_name
from bayplan.csi import messages as csi
from bayplan.csi.errors import CsiError
from bayplan.kubelet.csi import volume_data
from bayplan.kubelet.csi.attach_limit import AttachLimits
from bayplan.kubelet.csi.drivers import Driver, Drivers
from bayplan.kubelet.csi.expansion import Expansion
from bayplan.kubelet.csi.objects import CsiObjects
from bayplan.kubelet.csi.operations import Operations
from bayplan.kubelet.csi.places import Places, forget_device, forget_mount, link_device, places_of
from bayplan.kubelet.csi.requests import (
    EPHEMERAL,
    PERSISTENT,
    Source,
    applies_group,
    capability,
    check_mode,
    driver_of,
    pod_attributes,
    source_of,
    tokens_attribute,
)
from bayplan.kubelet.csi.usage import usage_of
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import (
    DEVICES,
    Mounted,
    SetUp,
    TearDown,
    VolumeHost,
    VolumeKind,
    VolumeSpec,
    VolumeUsage,
)
from bayplan.kubelet.volumes.ownership import set_ownership
from bayplan.support.system.mounts import mount_at

logger = logging.getLogger(__name__)

_N = csi.NodeCapability
UNSTAGE_SECONDS: Final = 10.0
"""How long the end of a pod waits until its volume has left the node as well."""
_MOUNT_DEVICE, _MAP_DEVICE = "MountVolume.MountDevice", "MapVolume.MapPodDevice"


class CsiVolumes(VolumeKind):
    """See the module."""

    name = volume_data.KIND
    supports_mount_options = True

    def __init__(self, drivers: Drivers, objects: CsiObjects, limits: AttachLimits) -> None:
        self._drivers = drivers
        self._objects = objects
        self._limits = limits
        self._operations = Operations()
        self._expansion = Expansion(objects)
        self._staged: set[str] = set()
        """Keys of volumes that this kubelet has seen staged: others are staged once more, which drivers do not mind."""
        self._published: set[Path] = set()
        """Targets that this kubelet has seen published."""

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return bool(driver_of(spec))

    def needs_remount(self, spec: VolumeSpec) -> bool:
        """See VolumeKind. Persistent volumes are looked at because they may grow."""
        return spec.persistent_volume is not None or self._is_republished(self._objects.driver(driver_of(spec)))

    def is_attachable(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return spec.persistent_volume is not None and needs_attach(self._objects.driver(driver_of(spec)))

    async def has_reached_limit(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return await self._limits.has_reached(spec)

    def unique_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        """See VolumeKind."""
        if spec.persistent_volume is not None and spec.persistent_volume.spec.csi is not None:
            source = spec.persistent_volume.spec.csi
            return unique_name(source.driver, source.volume_handle)
        return f"{self.name}/{pod_uid}-{spec.name}"

    @staticmethod
    def _is_republished(driver: storage_v1.CSIDriver | None) -> bool:
        return driver is not None and bool(driver.spec.requires_republish)

    # Up

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        source = source_of(context.spec, context.pod)
        return await self._operations.run(source.key, lambda: self._set_up(context, source))

    async def _set_up(self, context: SetUp, source: Source) -> Mounted:
        described = await self._objects.synced_driver(source.driver)
        places = places_of(context, source)
        is_known = places.target in self._published
        if not is_known or self._is_republished(described):
            await self._publish_anew(context, source, described, places, is_known=is_known)
            self._published.add(places.target)
        if source.mode == PERSISTENT:
            driver = self._driver(source.driver, "Expander.NodeExpand failed", "MountVolume.NodeExpandVolume")
            await self._expansion.expand(context, driver, source, places.target, places.staging)
        return Mounted(
            str(places.target),
            read_only=source.read_only,
            relabel=not source.read_only and not context.spec.is_block,
            is_device=context.spec.is_block,
        )

    async def _publish_anew(
        self,
        context: SetUp,
        source: Source,
        described: storage_v1.CSIDriver | None,
        places: Places,
        *,
        is_known: bool,
    ) -> None:
        is_block = context.spec.is_block
        publish: dict[str, str] = {}
        first = "" if source.mode == EPHEMERAL else _MAP_DEVICE if is_block else _MOUNT_DEVICE
        if source.mode == PERSISTENT and needs_attach(described):
            publish = await self._objects.publish_context(source.driver, source.handle)
        step = "attacher.MountDevice" if first == _MOUNT_DEVICE else "mounter.SetUpAt"
        driver = self._driver(source.driver, f"{step} failed to create newCsiDriverClient", first)
        try:
            if await _stages(source, driver):
                await self._stage(context, source, driver, places, publish)
        except CsiError as error:
            raise SetUpError(str(error), doing=first) from error
        check_mode(source, described)
        await self._publish(context, source, described, driver, places, publish, is_known=is_known)

    def _driver(self, name: str, failed: str, doing: str) -> Driver:
        try:
            return self._drivers.get(name)
        except SetUpError as error:
            raise SetUpError(f"{self.name}: {failed}: {error}", doing=doing) from error

    async def _capability(self, context: SetUp, source: Source, driver: Driver) -> csi.VolumeCapability:
        group = context.fs_group if await driver.offers(_N.VOLUME_MOUNT_GROUP) else None
        multi = await driver.offers(_N.SINGLE_NODE_MULTI_WRITER)
        return capability(source, is_block=context.spec.is_block, single_node_multi_writer=multi, group=group)

    async def _stage(
        self, context: SetUp, source: Source, driver: Driver, places: Places, publish: dict[str, str]
    ) -> None:
        """Bring a volume to the node, unless it is there. Raises CsiError, SetUpError, OSError."""
        if source.key in self._staged:
            return
        host = context.host
        secrets = await self._objects.credentials(source.stage_secret, "NodeStageSecretRef")
        wanted = await self._capability(context, source, driver)
        known = {volume_data.HANDLE: source.handle, volume_data.DRIVER: source.driver}
        was_known = (places.staging_data / volume_data.FILE).exists()

        def prepare() -> None:
            places.staging.mkdir(mode=0o750, parents=True, exist_ok=True)
            volume_data.save(places.staging_data, {volume_data.NAME: context.spec.name, **known})

        await host.blocking(prepare)
        request = csi.NodeStageVolumeRequest(
            source.handle, publish, str(places.staging), wanted, secrets, source.attributes
        )
        try:
            await driver.client.node_stage_volume(request)
        except CsiError as error:
            if error.is_final and not was_known:
                await forget_mount(host, places.staging, places.staging_data)
            raise
        self._staged.add(source.key)

    async def _publish(
        self,
        context: SetUp,
        source: Source,
        described: storage_v1.CSIDriver | None,
        driver: Driver,
        places: Places,
        publish: dict[str, str],
        *,
        is_known: bool,
    ) -> None:
        """Bring a volume to a pod. Raises SetUpError, OSError."""
        host, spec = context.host, context.spec
        secrets = await self._objects.credentials(source.publish_secret, "NodePublishSecretRef")
        attributes = await self._attributes(context, source, described, secrets)
        data = {
            volume_data.NAME: spec.name,
            volume_data.HANDLE: source.handle,
            volume_data.DRIVER: source.driver,
            volume_data.NODE: host.node_name,
            volume_data.MODE: source.mode,
            volume_data.ATTACHMENT: attachment_name(source.driver, source.handle, host.node_name),
        }
        was_known = is_known or (places.target_data / volume_data.FILE).exists()

        def prepare() -> None:
            places.target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            volume_data.save(places.target_data, data)
            if spec.is_block:
                link_device(host.device_link(context.pod.metadata.uid, self.name, spec.name), places.target)

        await host.blocking(prepare)
        try:
            request = csi.NodePublishVolumeRequest(
                source.handle,
                publish,
                str(places.staging) if await _stages(source, driver) else "",
                str(places.target),
                await self._capability(context, source, driver),
                source.read_only,
                secrets,
                attributes,
            )
            await driver.client.node_publish_volume(request)
            delegated = await driver.offers(_N.VOLUME_MOUNT_GROUP)
        except CsiError as error:
            if error.is_final and not was_known and not spec.is_block:
                await forget_mount(host, places.target, places.target_data)
            raise SetUpError(str(error), doing=_MAP_DEVICE if spec.is_block else "") from error
        if not spec.is_block and not delegated and applies_group(source, context.fs_group, described):
            group, policy = context.fs_group, context.fs_group_change_policy
            await host.blocking(lambda: set_ownership(places.target, group, read_only=False, policy=policy))

    async def _attributes(
        self, context: SetUp, source: Source, described: storage_v1.CSIDriver | None, secrets: dict[str, str]
    ) -> dict[str, str]:
        """The volume's attributes, and what the driver asks for besides; tokens go to `secrets` for drivers that want them there."""
        found = dict(source.attributes)
        if described is None:
            return found
        wanted = described.spec
        if wanted.pod_info_on_mount:
            found.update(pod_attributes(context.pod, source))
        if wanted.token_requests and not context.spec.is_block:
            tokens = {
                each.audience: await context.host.objects.token(context.pod, each.audience, each.expiration_seconds)
                for each in wanted.token_requests
            }
            (secrets if wanted.service_account_token_in_secrets else found).update(tokens_attribute(tokens))
        return found

    # Down

    async def tear_down(self, context: TearDown) -> None:
        """See VolumeKind."""
        is_block = context.directory.parent.parent.name == DEVICES
        place = volume_data.device_data(context.host.root, context.name) if is_block else context.directory
        try:
            data = await context.host.blocking(lambda: volume_data.load(place))
        except FileNotFoundError:
            await self._tear_down_unknown(context, is_block=is_block)
            return
        driver, handle = data[volume_data.DRIVER], data[volume_data.HANDLE]
        key = f"{driver}^{handle}"
        await self._operations.run(key, lambda: self._unpublish(context, driver, handle, is_block=is_block))
        await self._try_to_unstage(context.host, driver, handle, UNSTAGE_SECONDS)

    async def _tear_down_unknown(self, context: TearDown, *, is_block: bool) -> None:
        """A volume of which nothing is known any more was unpublished, or never asked for: what is left of it is empty. Raises SetUpError, OSError."""
        target = context.directory / volume_data.MOUNT
        if not is_block and mount_at(context.host.mounter.list(target), target) is not None:
            path = context.directory / volume_data.FILE
            raise SetUpError(f"{self.name}: unmounter failed to load volume data file [{path}]: no such file")

        def remove() -> None:
            if is_block:
                context.directory.unlink(missing_ok=True)
                return
            for each in (target, context.directory):
                if each.exists():
                    each.rmdir()

        await context.host.blocking(remove)

    async def _unpublish(self, context: TearDown, driver: str, handle: str, *, is_block: bool) -> None:
        """Take a volume from a pod. Raises SetUpError, OSError."""
        host = context.host
        target = context.directory / volume_data.MOUNT
        if is_block:
            target = volume_data.device_publish_path(host.root, context.name, context.pod_uid)
        client = self._driver(driver, "Unmounter.TearDownAt failed to get CSI client", "").client
        try:
            await client.node_unpublish_volume(csi.NodeUnpublishVolumeRequest(handle, str(target)))
        except CsiError as error:
            raise SetUpError(f"{self.name}: Unmounter.TearDownAt failed: {error}") from error
        self._published.discard(target)
        self._expansion.forget(f"{driver}^{handle}")
        if not is_block:
            await forget_mount(host, target, context.directory)
            return

        def remove() -> None:
            if target.exists():
                raise SetUpError(f"{self.name}: the driver has left the device at {target}")
            context.directory.unlink(missing_ok=True)
            if target.parent.exists() and not any(target.parent.iterdir()):
                target.parent.rmdir()

        await host.blocking(remove)

    async def _try_to_unstage(self, host: VolumeHost, driver: str, handle: str, seconds: float | None) -> None:
        """Take a volume from the node, if no pod has it; what fails is tried again by `clean_up`. seconds: how long to wait for it."""
        try:
            async with asyncio.timeout(seconds):
                await self._operations.run(f"{driver}^{handle}", lambda: self._unstage_unused(host, driver, handle))
        except (SetUpError, CsiError, OSError, TimeoutError) as error:
            reason = error if str(error) else "the driver takes its time"
            logger.warning("volume %s of driver %s stays on the node for now: %s", handle, driver, reason)

    async def _unstage_unused(self, host: VolumeHost, driver: str, handle: str) -> None:
        """Take a volume from the node, if no pod has it. Raises SetUpError, CsiError, OSError."""
        if await host.blocking(lambda: volume_data.is_published(host, driver, handle)):
            return
        for staging, data in await host.blocking(lambda: list(volume_data.staged(host.root))):
            if (data[volume_data.DRIVER], data[volume_data.HANDLE]) == (driver, handle):
                await self._unstage(driver, handle, staging)
                await forget_mount(host, staging, staging.parent)
        for name, data in await host.blocking(lambda: list(volume_data.staged_devices(host.root))):
            if (data[volume_data.DRIVER], data[volume_data.HANDLE]) == (driver, handle):
                staging = volume_data.device_staging_path(host.root, name)
                await self._unstage(driver, handle, staging)
                await host.blocking(lambda staging=staging, name=name: forget_device(host.root, staging, name))  # type: ignore[misc]

    async def _unstage(self, driver: str, handle: str, staging: Path) -> None:
        self._staged.discard(f"{driver}^{handle}")
        self._expansion.forget_size(f"{driver}^{handle}")
        found = self._driver(driver, "attacher.UnmountDevice failed to create newCsiDriverClient", "")
        if await found.offers(_N.STAGE_UNSTAGE_VOLUME):
            await found.client.node_unstage_volume(csi.NodeUnstageVolumeRequest(handle, str(staging)))

    async def clean_up(self, host: VolumeHost) -> None:
        """See VolumeKind."""

        def staged() -> set[tuple[str, str]]:
            found = [data for _, data in volume_data.staged(host.root)]
            found += [data for _, data in volume_data.staged_devices(host.root)]
            return {(data[volume_data.DRIVER], data[volume_data.HANDLE]) for data in found}

        for driver, handle in sorted(await host.blocking(staged)):
            await self._try_to_unstage(host, driver, handle, None)

    async def left_in_use(self, host: VolumeHost) -> Collection[str]:
        """See VolumeKind."""

        def on_disk() -> list[dict[str, str]]:
            found = [data for data in volume_data.published(host.root) if data.get(volume_data.MODE) != EPHEMERAL]
            found += [data for _, data in volume_data.staged(host.root)]
            return found + [data for _, data in volume_data.staged_devices(host.root)]

        found = await host.blocking(on_disk)
        return {
            unique_name(data[volume_data.DRIVER], data[volume_data.HANDLE])
            for data in found
            if needs_attach(self._objects.driver(data[volume_data.DRIVER]))
        }

    async def close(self) -> None:
        """See VolumeKind."""
        await self._operations.close()
        await self._drivers.close()

    # Figures

    async def usage(self, context: SetUp) -> VolumeUsage | None:
        """See VolumeKind."""
        source = source_of(context.spec, context.pod)
        driver = self._drivers.find(source.driver)
        places = places_of(context, source)
        try:
            if driver is None or not await driver.offers(_N.GET_VOLUME_STATS):
                return None
            request = csi.NodeGetVolumeStatsRequest(
                source.handle, str(places.target), str(places.staging) if await _stages(source, driver) else ""
            )
            return usage_of(await driver.client.node_get_volume_stats(request))
        except CsiError as error:
            logger.warning("usage of volume %s: %s", context.spec.name, error)
            return None


async def _stages(source: Source, driver: Driver) -> bool:
    """Whether a volume is staged before it is published. Raises CsiError."""
    return source.mode == PERSISTENT and await driver.offers(_N.STAGE_UNSTAGE_VOLUME)
