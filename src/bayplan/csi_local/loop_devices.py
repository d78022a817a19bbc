"""Loop devices: image files as block devices (losetup(8))."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bayplan.support.system.programs import run

SYS_BLOCK: Final = Path("/sys/block")
_DELETED: Final = " (deleted)"


class LoopDevices:
    """The loop devices of the machine, as the kernel tells them: nothing is remembered here, so that a driver that starts anew finds all of them."""

    def __init__(self, sys_block: Path = SYS_BLOCK) -> None:
        self._sys_block = sys_block

    def of(self, image: Path) -> list[Path]:
        """The devices of an image file. Raises OSError."""
        wanted = image.resolve()
        return [device for device, file in self._files() if file == wanted]

    def below(self, directory: Path) -> list[Path]:
        """The devices of all files below a directory."""
        top = directory.resolve()
        return [device for device, file in self._files() if top in file.parents]

    def _files(self) -> Iterator[tuple[Path, Path]]:
        """(device, the file behind it)."""
        for each in sorted(self._sys_block.glob("loop*/loop/backing_file")):
            try:
                backing = each.read_text().rstrip("\n")
            except OSError:
                continue  # detached meanwhile
            yield Path("/dev") / each.parts[-3], Path(backing.removesuffix(_DELETED))

    async def attach(self, image: Path) -> Path:
        """The device of an image; one that it has already, else a new one. Raises ProgramError."""
        known = self.of(image)
        if known:
            return known[0]
        return Path((await run("losetup", "--find", "--show", str(image))).strip())

    async def refresh(self, device: Path) -> None:
        """Let a device have the size that its image has now. Raises ProgramError."""
        await run("losetup", "--set-capacity", str(device))

    async def detach(self, image: Path) -> None:
        """Take all devices from an image. Raises ProgramError."""
        for device in self.of(image):
            await run("losetup", "--detach", str(device))
