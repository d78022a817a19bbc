"""A `Mounter` that only remembers what was mounted, for tests that need no real mounts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayplan.support.system.mounts import MountError, MountPoint, mount_at


class RememberedMounts:
    """Mounts that nobody else sees. Texts put into `failures` (by target) are raised instead of mounting or unmounting."""

    def __init__(self) -> None:
        self.mounted: list[MountPoint] = []
        self.failures: dict[str, str] = {}
        self.shared: list[str] = []
        self.grown: list[tuple[str, str]] = []
        """(device, path) of file systems that were made larger."""

    def list(self, top: Path | None = None) -> Sequence[MountPoint]:
        """See Mounter."""
        return tuple(each for each in self.mounted if top is None or each.is_below(top))

    def is_mounted(self, target: Path) -> bool:
        """See Mounter."""
        return mount_at(self.mounted, target) is not None

    async def mount(self, source: str, target: Path, kind: str, options: Sequence[str] = ()) -> None:
        """See Mounter."""
        self._check(target)
        self.mounted.append(MountPoint(str(target), source, kind, options=tuple(options)))

    async def format_and_mount(self, device: str, target: Path, kind: str, options: Sequence[str] = ()) -> None:
        """See Mounter."""
        await self.mount(device, target, kind, options)

    async def grow(self, device: str, target: Path) -> None:
        """See Mounter."""
        self._check(target)
        self.grown.append((device, str(target)))

    async def bind(self, source: str, target: Path, *, read_only: bool = False) -> None:
        """See Mounter."""
        self._check(target)
        self.mounted.append(MountPoint(str(target), source, "bind", options=("ro" if read_only else "rw",)))

    async def unmount(self, target: Path) -> None:
        """See Mounter."""
        self._check(target)
        for index in range(len(self.mounted) - 1, -1, -1):
            if self.mounted[index].path == str(target):
                del self.mounted[index]
                return
        raise MountError(f"unmount {target} failed: not mounted")

    async def make_shared(self, target: Path) -> None:
        """See Mounter."""
        self._check(target)
        self.shared.append(str(target))

    def _check(self, target: Path) -> None:
        text = self.failures.get(str(target))
        if text is not None:
            raise MountError(text)
