"""The data directory of a cluster: where it is by default, and that nobody but its owner may use it."""

from __future__ import annotations

import fnmatch
import logging
import os
from pathlib import Path

from bayplan.cli.output import Failure

log = logging.getLogger(__name__)

_OWN_NAMES = ("store.db*", ".store.db*", "pki", "kubeconfig", "clusters", "*.log", "*.log.gz")
"""What Bayplan keeps in a data directory."""
REAL_NODES = "real-nodes"
"""The subdirectory of real nodes: images and volumes, whose modes are those of their containers."""
_CERTIFICATE_NAMES = ("*.crt", "*.key", "admin-token", "sa.pub")
"""What it keeps in a directory of certificates."""
_NAMED = 5


def default_data_directory() -> Path:
    """`$XDG_DATA_HOME/bayplan`, `~/.local/share/bayplan` without that variable."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "bayplan"


def make_directory(directory: Path) -> None:
    """Make a directory that only its owner may use, correct one that exists, and see that it can be written to.

    An older installation, or one that was unpacked from an archive, may be open to others; what is corrected is logged.
    Raises Failure.
    """
    from bayplan.support.system.private_files import create_private, make_contents_private, make_private_directory

    try:
        make_private_directory(directory)
        for name in ("pki", "store.db"):
            if (directory / name).is_symlink():
                raise Failure(
                    f"{directory / name} is a symbolic link, which is not followed out of the data directory;"
                    " replace it by what it points to"
                )
        changed = make_contents_private(directory, _is_own, lambda name: name == REAL_NODES)
        probe = directory / ".writable"
        probe.unlink(missing_ok=True)
        create_private(probe)
        probe.unlink()
    except OSError as error:
        raise Failure(
            f"the data directory {directory} cannot be used: {error.strerror or error}; choose another with --data-dir"
        ) from error
    if changed:
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        log.warning("others had access, which was taken from them: %s%s", ", ".join(changed[:_NAMED]), more)


def _is_own(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in (*_OWN_NAMES, *_CERTIFICATE_NAMES))
