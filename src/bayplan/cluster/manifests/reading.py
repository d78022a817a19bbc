"""Reading manifests: files and directories of YAML or JSON, as kubectl reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from bayplan.cluster.errors import ClusterError

_SUFFIXES = (".yaml", ".yml", ".json")


class ManifestError(ClusterError):
    """A manifest cannot be read or is refused; the message names file and object."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Kubernetes reads it: what looks like a date is text."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in resolvers if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_manifests(paths: Iterable[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """All objects of files and directories, with the file that each came from; lists taken apart. Raises ManifestError."""
    return [(file, obj) for path in paths for file in _files(path) for obj in _objects(file)]


def gather_manifests(sources: Iterable[str | Path | Mapping[str, Any]]) -> list[tuple[Path, dict[str, Any]]]:
    """All objects of files and directories, of texts in YAML or JSON (strings of several lines) and of objects as dictionaries.

    Raises ManifestError.
    """
    found: list[tuple[Path, dict[str, Any]]] = []
    for source in sources:
        if isinstance(source, Mapping):
            found.extend((Path("(object)"), obj) for obj in _taken_apart(dict(source), "(object)"))
        elif isinstance(source, str) and "\n" in source:
            found.extend((Path("(text)"), obj) for obj in objects_in(source, "(text)"))
        else:
            found.extend(read_manifests([Path(source)]))
    return found


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not found:
            raise ManifestError(f"{path}: no {', '.join(_SUFFIXES)} files in this directory")
        return found
    return [path]


def _objects(file: Path) -> Iterator[dict[str, Any]]:
    try:
        text = file.read_text()
    except OSError as error:
        raise ManifestError(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{file}: not valid YAML: {error}") from error
    yield from objects_in(text, str(file))


def objects_in(text: str, where: str) -> Iterator[dict[str, Any]]:
    """All objects of a text in YAML or JSON; lists taken apart. Raises ManifestError, whose message begins with `where`."""
    for number, document in enumerate(documents(text, where), 1):
        if document is not None:
            yield from _taken_apart(document, f"{where}: document {number}")


def documents(text: str, where: str) -> list[Any]:
    """The documents of a YAML text as plain data; None for empty ones. Raises ManifestError."""
    try:
        return [_with_text_keys(document) for document in yaml.load_all(text, Loader=_Loader)]
    except yaml.YAMLError as error:
        raise ManifestError(f"{where}: not valid YAML: {error}") from error


def _taken_apart(document: Any, where: str) -> Iterator[dict[str, Any]]:
    """The objects of a document: itself, or the items of a list."""
    if not isinstance(document, dict):
        raise ManifestError(f"{where}: expected an object with apiVersion and kind")
    for name in ("apiVersion", "kind"):
        if not isinstance(document.get(name), str) or not document[name]:
            raise ManifestError(f"{where}: {name} is missing")
    items = document.get("items")
    if document["kind"].endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            yield from _taken_apart(item, f"{where}: items[{number}]")
        return
    if not isinstance(document.get("metadata", {}), dict):
        raise ManifestError(f"{where}: {document['kind']}: metadata has to be an object")
    yield document


def _with_text_keys(value: Any) -> Any:
    """A YAML tree as JSON has it: keys are text."""
    if isinstance(value, dict):
        return {_key(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)
