"""The kubeconfig that a user has, with contexts of many clusters: contexts of Bayplan's clusters are put into it, and taken out of it. All else stays as it is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from bayplan.client.errors import KubeconfigError
from bayplan.support.system.private_files import create_private, make_private_directory, replacing

OWNER: Final = "bayplan.dev/cluster"
"""Name of the extension that says to which cluster's directory an entry belongs."""
_SECTIONS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


def user_kubeconfig(environment: Mapping[str, str]) -> Path:
    """The file that is changed: of those in $KUBECONFIG the first that exists, else the last one; ~/.kube/config without that variable."""
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    if not named:
        return Path.home() / ".kube" / "config"
    return next((each for each in named if each.exists()), named[-1])


def put_context(path: Path, name: str, owner: Path, kubeconfig: Path, *, switch: bool) -> None:
    """Put the only context of another kubeconfig into one, under a name. owner: the directory of its cluster. switch: whether to make it the current one.

    Raises KubeconfigError, also if an entry of that name belongs to another cluster.
    """
    source = _read(kubeconfig)
    with _changing(path) as config:
        for section, member in _SECTIONS.items():
            rows = _rows(path, config, section)
            at = _index(rows, name)
            if at is not None and _owner(rows[at], member) != str(owner):
                raise KubeconfigError(
                    f"{path}: {section}: the entry {name!r} is not this cluster's, and stays as it is"
                )
            entry = dict(_rows(kubeconfig, source, section)[0][member])
            if section == "contexts":
                entry |= {"cluster": name, "user": name}
            entry["extensions"] = [{"name": OWNER, "extension": {"directory": str(owner)}}]
            row = {"name": name, member: entry}
            if at is None:
                rows.append(row)
            else:
                rows[at] = row
        if switch:
            config["current-context"] = name


def remove_context(path: Path, name: str, owner: Path) -> bool:
    """Take a cluster's context out of a kubeconfig. Returns whether it was there. Raises KubeconfigError."""
    if not path.exists() or not any(
        _owns(each, name, member, owner)
        for section, member in _SECTIONS.items()
        for each in _rows(path, _read(path), section)
    ):
        return False
    with _changing(path) as config:
        for section, member in _SECTIONS.items():
            config[section] = [each for each in _rows(path, config, section) if not _owns(each, name, member, owner)]
        if config.get("current-context") == name and _index(config["contexts"], name) is None:
            config["current-context"] = ""
    return True


def _owns(row: Any, name: str, member: str, owner: Path) -> bool:
    return isinstance(row, dict) and row.get("name") == name and _owner(row, member) == str(owner)


def _index(rows: list[Any], name: str) -> int | None:
    return next((at for at, row in enumerate(rows) if isinstance(row, dict) and row.get("name") == name), None)


def _owner(row: dict[str, Any], member: str) -> str:
    """The directory of the Bayplan cluster to which an entry belongs; "" if it belongs to none."""
    entry = row.get(member)
    extensions = entry.get("extensions") if isinstance(entry, dict) else None
    for each in extensions if isinstance(extensions, list) else ():
        if isinstance(each, dict) and each.get("name") == OWNER and isinstance(each.get("extension"), dict):
            return str(each["extension"].get("directory", ""))
    return ""


def _rows(path: Path, config: dict[str, Any], section: str) -> list[Any]:
    rows = config.setdefault(section, [])
    if rows is None:
        rows = config[section] = []
    if not isinstance(rows, list):
        raise KubeconfigError(f"{path}: {section}: expected a list")
    return rows


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: {error}") from error
    try:
        config = yaml.safe_load(text) if text.strip() else {"apiVersion": "v1", "kind": "Config"}
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(config, dict):
        raise KubeconfigError(f"{path}: not a kubeconfig: expected a mapping")
    return config


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[dict[str, Any]]:
    """The content of a kubeconfig, written back in one step. As kubectl does, with a file beside it that keeps others from changing it meanwhile."""
    lock = path.with_name(path.name + ".lock")
    try:
        make_private_directory(path.parent)
        if not create_private(lock):
            raise KubeconfigError(f"{path}: {lock} exists: something else changes the file, or was killed while it did")
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror or error}") from error
    try:
        config = _read(path)
        yield config
        file = path.resolve()
        with replacing(file) as unfinished:
            if file.exists():
                unfinished.chmod(file.stat().st_mode & 0o777)
            unfinished.write_text(yaml.safe_dump(config, sort_keys=False))
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror or error}") from error
    finally:
        lock.unlink(missing_ok=True)
