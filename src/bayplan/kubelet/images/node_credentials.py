"""The node's own Docker configuration, which pulls for all of its pods may use."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from bayplan.kubelet.images.keyring import DockerConfigError, Keyring, parse_docker_config

logger = logging.getLogger(__name__)


def config_paths(root_directory: Path, home: Path, working_directory: Path) -> list[Path]:
    """Where kubelet looks, in its order: config.json everywhere, then the older .dockercfg everywhere."""
    newer = [root_directory, working_directory, home / ".docker", Path("/.docker")]
    older = [root_directory, working_directory, home, Path("/")]
    return [*(directory / "config.json" for directory in newer), *(directory / ".dockercfg" for directory in older)]


class NodeCredentials:
    """The first file that is a Docker configuration, read again when it has changed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._read: tuple[Path, int, int] | None = None
        self._keyring = Keyring()

    def keyring(self) -> Keyring:
        """What the file says now; empty where there is none."""
        for path in self._paths:
            try:
                status = path.stat()
                key = (path, status.st_mtime_ns, status.st_size)
                if key == self._read:
                    return self._keyring
                config = parse_docker_config(path.read_bytes(), has_auths=path.name == "config.json")
            except FileNotFoundError:
                continue
            except (OSError, DockerConfigError) as error:
                logger.warning("%s is passed over: %s", path, error)
                continue
            self._keyring = Keyring()
            self._keyring.add(config)
            self._read = key
            return self._keyring
        self._read = None
        return Keyring()
