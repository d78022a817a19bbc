"""Gathering a cluster's objects from several texts, and keeping account of what is not taken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bayplan.api.codec import DecodeError
from bayplan.api.kinds import Kind
from bayplan.cluster.manifests.unserved import UnservedKinds, is_custom, meant
from bayplan.simulation.questions.quota_limits import admit
from bayplan.simulation.snapshots.older_versions import is_older_version
from bayplan.simulation.snapshots.snapshot import (
    KINDS,
    ClusterSnapshot,
    LeftOut,
    SnapshotError,
    defaulted,
    from_tree,
    unique,
)

_KIND_LINE: Final = re.compile(r'(?:^|[\s{,])"?kind"?:\s*"?(\w+)', re.MULTILINE)
_LOG_LINE: Final = re.compile(r"^==== (?:START|END) logs .*====$", re.MULTILINE)
_LOGS: Final = re.compile(r"^==== START logs for .*?^==== END logs for [^\n]*$", re.MULTILINE | re.DOTALL)
_UNKNOWN_VERSION: Final = "this version of the API is not known"
_UNKNOWN_KIND: Final = "this kind is not known"


@dataclass(slots=True)
class Gathered:
    """Objects of several files."""

    wanted: frozenset[str]
    source: str
    tolerant: bool = False
    """Whether these are files of a dump: what cannot be read is left out instead of ending everything."""
    objects: list[tuple[Kind, Any]] = field(default_factory=list)
    unserved: UnservedKinds = field(default_factory=UnservedKinds)
    _unknown: Counter[tuple[str, str]] = field(default_factory=Counter)
    """("Kind version", why) of what was passed over -> objects."""
    _broken: list[tuple[str, SnapshotError]] = field(default_factory=list)
    """Files that cannot be read, in an archive that may yet turn out to be a dump."""
    _misspelt: list[SnapshotError] = field(default_factory=list)

    def take_file(self, data: bytes, where: str) -> None:
        """Take what a file holds; in a dump, files without a kind that is wanted are passed over unread.

        Raises SnapshotError in `copy`, not here: the next file may show that all this is a dump.
        """
        try:
            text = text_of(data, where)
            if self.tolerant and not self._may_hold(text):
                return
            self.take_text(text, where)
        except SnapshotError as error:
            self._broken.append((where, error))

    def cannot_read(self, where: str, error: SnapshotError) -> None:
        """A file is there that cannot even be opened."""
        self._broken.append((where, error))

    def check(self) -> None:
        """Raises SnapshotError if there was a file that cannot be read, though this is no dump."""
        if not self.tolerant:
            for _, error in self._broken:
                raise error
            for error in self._misspelt:
                raise error

    def _may_hold(self, text: str) -> bool:
        """A look at the lines `kind: ...`, because reading YAML in full is slow."""
        return any(name in self.wanted or name.endswith("List") for name in _KIND_LINE.findall(text[:1_000_000]))

    def take_text(self, text: str, where: str) -> None:
        """Take all objects of a text. Raises SnapshotError."""
        for number, document in enumerate(_documents(text, where), 1):
            if document is not None:
                self._take(document, f"{where}: document {number}")

    def _take(self, tree: Any, where: str, item_kind: tuple[str, str] = ("", "")) -> None:
        """Take an object, or the items of a list, which need not say what they are."""
        if not isinstance(tree, dict):
            raise SnapshotError(f"{where}: expected an object with apiVersion and kind")
        api_version, kind = tree.get("apiVersion") or item_kind[0], tree.get("kind") or item_kind[1]
        if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
            raise SnapshotError(f"{where}: apiVersion or kind is missing")
        items = tree.get("items")
        if kind.endswith("List") and (items is None or isinstance(items, list)):
            each = (api_version, kind.removesuffix("List"))
            for number, item in enumerate(items or ()):
                self._take(item, f"{where}: items[{number}]", each if each[1] else item_kind)
            return
        if kind not in self.wanted:
            if KINDS.of_kind(api_version, kind) is None:
                self._pass_over(api_version, kind, where)
            return
        try:
            found, obj = from_tree({**tree, "apiVersion": api_version, "kind": kind})
        except DecodeError as error:
            name = (tree.get("metadata") or {}).get("name", "?") if isinstance(tree.get("metadata"), dict) else "?"
            raise SnapshotError(f"{where}: {kind} {name}: {error}") from error
        if found is not None:
            self.objects.append((found, obj))
        else:
            self._pass_over(api_version, kind, where)

    def _pass_over(self, api_version: str, kind: str, where: str) -> None:
        """Account for an object that is of no kind known here."""
        if is_custom(api_version, kind):
            self.unserved.add(api_version, kind)
        elif is_older_version(api_version, kind):
            if kind in self.wanted:
                self._unknown[f"{kind} {api_version}", _UNKNOWN_VERSION] += 1
        elif (right := meant(api_version, kind)) is not None:
            shown = f"there is no {kind} in {api_version}; did you mean {right.kind} in {right.api_version}?"
            self._misspelt.append(SnapshotError(f"{where}: {shown}"))
        elif not self.tolerant:
            self._unknown[f"{kind} {api_version}", _UNKNOWN_KIND] += 1

    def copy(self) -> ClusterSnapshot:
        """What was gathered, with defaults filled in, also those of limit ranges for pods of manifests. Raises SnapshotError."""
        self.check()
        try:
            objects = defaulted(unique(self.objects))
        except DecodeError as error:
            raise SnapshotError(f"{self.source}: {error}") from error
        left_out = [LeftOut(where, str(error).removeprefix(f"{where}: ")) for where, error in self._broken]
        for (what, why), count in self._unknown.items():
            left_out.append(LeftOut(f"{what} ({count:,} objects)" if count > 1 else what, why))
        unserved = UnservedKinds() if self.tolerant else self.unserved
        copy = ClusterSnapshot(objects, source=self.source, left_out=left_out, unserved=unserved)
        admit(copy)
        return copy

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell of."""
        return not (self.objects or self._broken or self._misspelt or self._unknown)


def text_of(data: bytes, where: str) -> str:
    """Raises SnapshotError if this is no text."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{where}: neither a cluster copy nor YAML or JSON: {error}") from error


def _documents(text: str, where: str) -> Iterator[Any]:
    """The documents of a YAML or JSON text; JSON objects may follow one another, with logs between them."""
    if not text.lstrip().startswith("{"):
        from bayplan.cluster.manifests.reading import ManifestError, documents  # YAML is slow to import

        try:
            yield from documents(text, where)
        except ManifestError as error:
            raise SnapshotError(str(error)) from error
        return
    try:
        yield msgspec.json.decode(text)
        return
    except msgspec.DecodeError:
        yield from _concatenated(text, where)


def _concatenated(text: str, where: str) -> Iterator[Any]:
    """JSON objects one after the other, as `kubectl cluster-info dump` prints them. Raises SnapshotError."""
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
            raise SnapshotError(f"{where}: line {line}: not valid JSON: {error.msg}") from error
        yield document
