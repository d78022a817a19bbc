"""Putting manifests into a cluster: create what is missing, merge into what is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from bayplan.api.codec import encode
from bayplan.api.errors import ApiError
from bayplan.client import Client
from bayplan.cluster.errors import ClusterError

_SUFFIXES = (".yaml", ".yml", ".json")
_FIRST = ("Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass", "ServiceAccount")


class ManifestError(ClusterError):
    """A manifest cannot be read or is refused; the message names file and object."""


def read_manifests(paths: Iterable[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """All objects of files and directories, with the file that each came from; lists taken apart. Raises ManifestError."""
    return [(file, obj) for path in paths for file in _files(path) for obj in _objects(file)]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not found:
            raise ManifestError(f"{path}: no {', '.join(_SUFFIXES)} files in this directory")
        return found
    return [path]


def _objects(file: Path) -> Iterator[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = list(yaml.load_all(file.read_text(), Loader=loader))
    except OSError as error:
        raise ManifestError(f"{file}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ManifestError(f"{file}: not valid YAML: {error}") from error
    for number, document in enumerate(documents, 1):
        if document is None:
            continue
        if (
            not isinstance(document, dict)
            or not isinstance(document.get("kind"), str)
            or not isinstance(document.get("apiVersion"), str)
        ):
            raise ManifestError(f"{file}: document {number}: expected an object with apiVersion and kind")
        if document["kind"].endswith("List") and isinstance(document.get("items"), list):
            yield from document["items"]
        else:
            yield document


async def apply_manifests(client: Client, objects: Iterable[tuple[Path, dict[str, Any]]]) -> int:
    """Create or update all objects, those that others need first. Returns their number. Raises ManifestError."""
    ordered = sorted(
        objects, key=lambda pair: _FIRST.index(pair[1]["kind"]) if pair[1]["kind"] in _FIRST else len(_FIRST)
    )
    for file, obj in ordered:
        await _apply_one(client, file, obj)
    return len(ordered)


async def _apply_one(client: Client, file: Path, obj: dict[str, Any]) -> None:
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or "?"
    shown = f"{file}: {obj['kind']} {name}"
    kind = client.kinds.of_kind(obj["apiVersion"], obj["kind"])
    if kind is None:
        raise ManifestError(f"{shown}: this server has no {obj['kind']} in {obj['apiVersion']}")
    namespace = (metadata.get("namespace") or "default") if kind.namespaced else ""
    try:
        await client.raw("POST", kind.path(namespace), {}, encode(obj))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise ManifestError(f"{shown}: {error.message}") from error
        try:
            await client.raw(
                "PATCH", kind.path(namespace, metadata["name"]), {}, encode(obj), "application/merge-patch+json"
            )
        except ApiError as again:
            raise ManifestError(f"{shown}: {again.message}") from again
