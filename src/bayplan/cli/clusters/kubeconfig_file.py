"""Where the administrator's kubeconfig is written, and which files are never overwritten with it."""

from __future__ import annotations

import stat
from pathlib import Path

from bayplan.cli.output import Failure


def check_kubeconfig(path: Path, credentials: Path | None, *, follows_links: bool) -> None:
    """See that a kubeconfig may be written to a path: there is none yet, or one that Bayplan wrote. Changes nothing.

    credentials: the directory that may have the cluster's authority, by which files of older versions are known.
    follows_links: whether the path may be a symbolic link; one inside the data directory may not. Raises Failure.
    """
    from bayplan.client.own_kubeconfig import is_own

    try:
        if path.is_symlink() and not follows_links:
            raise Failure(
                f"{path} is a symbolic link, which is not followed out of the data directory;"
                f" remove it, or name the file itself with --kubeconfig {path.resolve()}"
            )
        if not path.exists() or _is_device(path):
            return
        certificate = credentials / "ca.crt" if credentials is not None else None
        authority = certificate.read_bytes() if certificate is not None and certificate.exists() else None
        text = path.read_text(errors="replace")
    except OSError as error:
        raise _unusable(path, error) from error
    if not is_own(text, authority):
        raise Failure(
            f"{path} has entries that Bayplan did not write, so it is not overwritten;"
            " choose another file with --kubeconfig, or move this one away"
        )


def write_kubeconfig(path: Path, text: str, credentials: Path | None, *, follows_links: bool) -> None:
    """Write a kubeconfig that only its owner can read, in one step. Raises Failure."""
    from bayplan.support.system.private_files import make_private_directory, write_private

    check_kubeconfig(path, credentials, follows_links=follows_links)
    try:
        if _is_device(path):
            path.write_text(text)
            return
        file = path.resolve()
        make_private_directory(file.parent)
        write_private(file, text.encode())
    except OSError as error:
        raise _unusable(path, error) from error


def _is_device(path: Path) -> bool:
    """Whether the path is a terminal, a pipe or the like, which cannot be replaced. Raises OSError."""
    if not path.exists():
        return False
    mode = path.stat().st_mode
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _unusable(path: Path, error: OSError) -> Failure:
    return Failure(f"the kubeconfig cannot be written to {path}: {error.strerror or error}")
