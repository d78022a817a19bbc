"""A cluster from whatever people have of it: a copy, what `kubectl get -o yaml|json` prints, directories of manifests,
must-gathers, `kubectl cluster-info dump` in both its forms, or any of these on standard input.

A file or directory that somebody wrote must be readable in full, or it is an error. A dump is taken as far as it goes:
what cannot be read is named in `left_out`.
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.api.codec import DecodeError
from bayplan.api.kinds import Kind
from bayplan.cluster.manifests import ManifestError, documents
from bayplan.simulation.allowance import admit
from bayplan.simulation.copies import (
    COPIED,
    ClusterCopy,
    CopyError,
    LeftOut,
    defaulted,
    from_bytes,
    from_tree,
    is_copy,
    unique,
)

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_DUMP_MARKS: Final = ("cluster-scoped-resources", "namespaces", "nodes.json", "nodes.yaml")
"""Entries that the directory of a must-gather or of a `cluster-info dump` has."""
_KIND_LINE: Final = re.compile(r'(?:^|[\s{,])"?kind"?:\s*"?(\w+)', re.MULTILINE)
_LOG_LINE: Final = re.compile(r"^==== (?:START|END) logs .*====$", re.MULTILINE)
_LOGS: Final = re.compile(r"^==== START logs for .*?^==== END logs for [^\n]*$", re.MULTILINE | re.DOTALL)


def read(path: str | Path, include: Iterable[str] = ()) -> ClusterCopy:
    """The cluster that a path holds; `-` is standard input. `include`: further kinds. Raises CopyError."""
    wanted = frozenset((*COPIED, *include))
    if str(path) == "-":
        return _of_bytes(sys.stdin.buffer.read(), "standard input", wanted)
    found = Path(path)
    if found.is_dir():
        return _of_directory(found, wanted)
    try:
        data = found.read_bytes()
    except OSError as error:
        raise CopyError(f"{found}: {error.strerror or error}") from error
    return _of_bytes(data, str(found), wanted)


def _of_bytes(data: bytes, where: str, wanted: frozenset[str]) -> ClusterCopy:
    data = _unpacked(data, where)
    if is_copy(data):
        return from_bytes(data, where)
    gathered = _Gathered(wanted, where)
    gathered.take_text(_text(data, where), where)
    if not gathered.objects and not gathered.left_out:
        raise CopyError(f"{where}: holds no object of a kind that bears on placement")
    return gathered.copy()


def _unpacked(data: bytes, where: str) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise CopyError(f"{where}: the file is damaged or cut off: {error}; take the copy again") from error


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CopyError(f"{where}: neither a cluster copy nor YAML or JSON: {error}") from error


def _of_directory(root: Path, wanted: frozenset[str]) -> ClusterCopy:
    files = sorted(file for file in root.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    if not files:
        raise CopyError(f"{root}: no {', '.join(_SUFFIXES)} files in this directory or below it")
    gathered = _Gathered(wanted, str(root), tolerant=_is_dump(root))
    for file in files:
        gathered.take_file(file)
    if not gathered.objects:
        raise CopyError(f"{root}: none of {len(files)} files holds an object of a kind that bears on placement")
    return gathered.copy()


def _is_dump(root: Path) -> bool:
    """Whether a directory is a must-gather (whose content may be one level down) or a `cluster-info dump`."""
    return any((place / mark).exists() for place in (root, *_directories(root)) for mark in _DUMP_MARKS)


def _directories(root: Path) -> list[Path]:
    return sorted(one for one in root.iterdir() if one.is_dir())


@dataclass(slots=True)
class _Gathered:
    """Objects of several files."""

    wanted: frozenset[str]
    source: str
    tolerant: bool = False
    """Whether what cannot be read is left out instead of ending everything."""
    objects: list[tuple[Kind, Any]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def take_file(self, file: Path) -> None:
        """Take what a file holds; in a dump, files without a kind that is wanted are passed over unread. Raises CopyError."""
        try:
            text = _text(_unpacked(file.read_bytes(), str(file)), str(file))
            if self.tolerant and not self._may_hold(text):
                return
            self.take_text(text, str(file))
        except (OSError, CopyError) as error:
            if not self.tolerant:
                raise error if isinstance(error, CopyError) else CopyError(f"{file}: {error}") from error
            self.left_out.append(LeftOut(str(file), str(error).removeprefix(f"{file}: ")))

    def _may_hold(self, text: str) -> bool:
        """A look at the lines `kind: ...`, because reading YAML in full is slow."""
        return any(name in self.wanted or name.endswith("List") for name in _KIND_LINE.findall(text[:1_000_000]))

    def take_text(self, text: str, where: str) -> None:
        """Take all objects of a text. Raises CopyError."""
        for number, document in enumerate(_documents(text, where), 1):
            if document is not None:
                self._take(document, f"{where}: document {number}")

    def _take(self, tree: Any, where: str, item_kind: tuple[str, str] = ("", "")) -> None:
        """Take an object, or the items of a list, which need not say what they are."""
        if not isinstance(tree, dict):
            raise CopyError(f"{where}: expected an object with apiVersion and kind")
        api_version, kind = tree.get("apiVersion") or item_kind[0], tree.get("kind") or item_kind[1]
        if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
            raise CopyError(f"{where}: apiVersion or kind is missing")
        items = tree.get("items")
        if kind.endswith("List") and (items is None or isinstance(items, list)):
            each = (api_version, kind.removesuffix("List"))
            for number, item in enumerate(items or ()):
                self._take(item, f"{where}: items[{number}]", each if each[1] else item_kind)
            return
        if kind not in self.wanted:
            return
        try:
            found, obj = from_tree({**tree, "apiVersion": api_version, "kind": kind})
        except DecodeError as error:
            name = (tree.get("metadata") or {}).get("name", "?") if isinstance(tree.get("metadata"), dict) else "?"
            raise CopyError(f"{where}: {kind} {name}: {error}") from error
        if found is not None:
            self.objects.append((found, obj))
        else:
            self.left_out.append(LeftOut(f"{kind} {api_version}", "this version of the API is not known"))

    def copy(self) -> ClusterCopy:
        """What was gathered, with defaults filled in, also those of limit ranges for pods of manifests. Raises CopyError."""
        try:
            objects = defaulted(unique(self.objects))
        except DecodeError as error:
            raise CopyError(f"{self.source}: {error}") from error
        copy = ClusterCopy(objects, source=self.source, left_out=self.left_out)
        admit(copy)
        return copy


def _documents(text: str, where: str) -> Iterator[Any]:
    """The documents of a YAML or JSON text; JSON objects may follow one another, with logs between them."""
    if not text.lstrip().startswith("{"):
        try:
            yield from documents(text, where)
        except ManifestError as error:
            raise CopyError(str(error)) from error
        return
    try:
        yield msgspec.json.decode(text)
        return
    except msgspec.DecodeError:
        yield from _concatenated(text, where)


def _concatenated(text: str, where: str) -> Iterator[Any]:
    """JSON objects one after the other, as `kubectl cluster-info dump` prints them. Raises CopyError."""
    import json

    if _LOG_LINE.search(text):
        text = _LOGS.sub("", text)
    decoder, position = json.JSONDecoder(), 0
    while True:
        start = len(text) - len(text[position:].lstrip()) if position < len(text) else len(text)
        if start >= len(text):
            return
        try:
            document, position = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            line = text.count("\n", 0, error.pos) + 1
            raise CopyError(f"{where}: line {line}: not valid JSON: {error.msg}") from error
        yield document
