"""image: the files of a container image. The runtime mounts it (`Mount.image`); the image is pulled like that of a container."""

from __future__ import annotations

from bayplan.kubelet.volumes.interface import Mounted, SetUp, TearDown, VolumeKind, VolumeSpec, VolumeUsage


class Image(VolumeKind):
    """See the module."""

    name = "kubernetes.io/image"
    supports_mount_options = False

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return spec.volume is not None and spec.volume.image is not None

    def unique_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        """See VolumeKind."""
        return f"{self.name}/{pod_uid}-{spec.name}"

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        source = context.spec.volume.image if context.spec.volume is not None else None
        assert source is not None
        return Mounted(image=source.reference, read_only=True, relabel=True)

    async def tear_down(self, context: TearDown) -> None:
        """See VolumeKind: nothing was made."""

    async def usage(self, context: SetUp) -> VolumeUsage | None:
        """See VolumeKind."""
        return None
