"""YAML documents as JSON trees, at a cost that is bounded whatever a client sends.

PyYAML's composer recurses in C and its constructor expands aliases without limit, so the tree is built here from the events of libyaml's parser, which
needs no stack. Depth, number of nodes and expansion of aliases are limited; the limits of aliases are go-yaml's.

    a: &x {k: 1}        frames: [root map], then [root map, map &x]; at the end of the inner map it is put under "a" and remembered as anchor x
    b: *x               the map is put under "b" as it is; its three nodes count as expanded ones
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from bayplan.api.codec import encode
from bayplan.api.json.nesting import EXCEEDED, MAX_DEPTH
from bayplan.api.json.writing import escaped
from bayplan.apiserver.yaml.escapes import UNKNOWN_ESCAPE, Escapes
from bayplan.apiserver.yaml.go_syntax import go_syntax
from bayplan.apiserver.yaml.scalars import PREFIX, STRING, YamlProblem, json_number, key_text, resolve

MAX_NODES: Final = 500_000
"""Values and keys of a document, at most, not counting what aliases stand for. Documents of 3 MB that people write have half of it."""
MAX_EXPANDED_BYTES: Final = 3 * 1024 * 1024
"""Bytes of JSON that aliases may stand for, at most."""
_MAX_TAG_DIRECTIVES: Final = 100
"""libyaml compares each with all before."""
_TAG_DIRECTIVE: Final = re.compile(rb"(?:^|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9])%TAG")
_EXCESSIVE: Final = "yaml: document contains excessive aliasing"
_MERGE: Final = "yaml: map merge requires map or sequence of maps as the value"
_RATIO_FROM, _RATIO_TO = 400_000, 4_000_000
_MERGE_TAG: Final = PREFIX + "merge"
_NO_KEY: Final = object()
_DECODING, _CONVERTING, _WRITING = range(3)
"""Steps after a document has been parsed, each of which ends with the first problem: to values of YAML, to what JSON can hold, to JSON."""


@dataclass(slots=True)
class Document:
    """What a document says."""

    tree: Any
    repeated: list[str]
    """Keys that a mapping has twice, worded as go-yaml does."""


@dataclass(slots=True)
class _Anchored:
    """A value that aliases may stand for."""

    value: Any
    nodes: int
    size: int
    """Bytes of JSON, about."""
    height: int
    """Levels of objects and lists in it."""


@dataclass(slots=True)
class _Frame:
    """An object or list that is being read."""

    container: Any
    anchor: str | None
    nodes: int
    """Those counted before it."""
    size: int
    height: int = 1
    key: Any = _NO_KEY
    """Of the member that is being read."""
    merges: bool = False
    """Whether what is read next is merged into this object."""
    seen: set[Any] = field(default_factory=set)
    """Keys as they are typed in YAML."""

    @property
    def takes_key(self) -> bool:
        """Whether what is read next is a key."""
        return self.key is _NO_KEY and type(self.container) is dict


def read_document(data: bytes) -> Document:
    """The first document of a YAML stream, an empty one if there is none. Raises yaml.YAMLError."""
    data = _as_utf8(data)
    if sum(1 for _ in _TAG_DIRECTIVE.finditer(data)) > _MAX_TAG_DIRECTIVES:
        raise YamlProblem(f"yaml: exceeded max tag directives of {_MAX_TAG_DIRECTIVES}")
    escapes = Escapes(data)
    try:
        return _read(data, escapes)
    except yaml.scanner.ScannerError as error:
        if error.problem != UNKNOWN_ESCAPE or (mended := escapes.with_quotes()) is None:
            raise
        return _read(mended, escapes)


def _read(data: bytes, escapes: Escapes) -> Document:
    """Raises yaml.YAMLError."""
    parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(data)
    try:
        return _Reading(parser, escapes).document()
    finally:
        parser.dispose()


def _as_utf8(data: bytes) -> bytes:
    """A stream in UTF-8, whatever its byte order mark says it is in. Raises YamlProblem."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16").encode()
        except UnicodeDecodeError:
            raise YamlProblem("yaml: incomplete UTF-16 character") from None
    return data


class _Reading:
    """One reading of one document."""

    def __init__(self, parser: Any, escapes: Escapes) -> None:
        self._parser, self._escapes = parser, escapes
        self._problems: dict[int, YamlProblem] = {}
        """What is wrong first with values of a document that can be parsed, by the step in which Go finds it."""
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}
        """None for what is still being read."""
        self._nodes = self._expanded = self._size = self._expanded_size = 0
        self._repeated: list[str] = []
        self._root: Any = None

    def document(self) -> Document:
        """Raises yaml.YAMLError."""
        read, frames = self._parser.get_event, self._frames
        while True:
            event = read()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._count(event)
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._count(event)
                self._open(event, {} if kind is yaml.MappingStartEvent else [])
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close(event)
            elif kind is yaml.AliasEvent:
                self._count(event)
                self._alias(event)
            elif kind is yaml.DocumentEndEvent or kind is yaml.StreamEndEvent:
                assert not frames
                if self._problems:
                    raise self._problems[min(self._problems)]
                return Document(self._root, self._repeated)

    def _count(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes - self._expanded > MAX_NODES:
            raise yaml.scanner.ScannerError(None, None, f"exceeded max node count of {MAX_NODES}", event.start_mark)

    def _scalar(self, event: Any) -> None:
        text, tag = event.value, event.tag
        if self._escapes.are_odd:
            text = self._escapes.text_of(event)
        frame = self._frames[-1] if self._frames else None
        if text == "<<" and (event.implicit[0] or tag == _MERGE_TAG) and frame is not None and frame.takes_key:
            frame.merges, frame.key = True, None
            return
        is_text = tag == STRING or (tag is None and not event.implicit[0])
        value = text if is_text else self._resolved(event, text)
        if value.__class__ is float and not (frame is not None and frame.takes_key):
            value = self._json_number(value)
        self._size += len(text) + 3
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, len(text) + 3, 0)
        self._put(value, event)

    def _resolved(self, event: Any, text: str) -> Any:
        try:
            return resolve(text, event.tag, is_plain=event.implicit[0])
        except YamlProblem as problem:
            self._problems.setdefault(_DECODING, problem)
            return None

    def _json_number(self, number: float) -> Any:
        try:
            return json_number(number)
        except YamlProblem as problem:
            self._problems.setdefault(_WRITING, problem)
            return None

    def _open(self, event: Any, container: Any) -> None:
        if len(self._frames) >= MAX_DEPTH:
            raise yaml.scanner.ScannerError(None, None, f"{EXCEEDED} of {MAX_DEPTH}", event.start_mark)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._size += 2
        self._frames.append(_Frame(container, event.anchor, self._nodes - 1, self._size - 2))

    def _close(self, event: Any) -> None:
        frame = self._frames.pop()
        if frame.anchor is not None:
            self._anchors[frame.anchor] = _Anchored(
                frame.container, self._nodes - frame.nodes, self._size - frame.size, frame.height
            )
        if self._frames:
            above = self._frames[-1]
            above.height = max(above.height, frame.height + 1)
        self._put(frame.container, event)

    def _alias(self, event: Any) -> None:
        """Put what an alias stands for, and count it as if it were written there."""
        name = event.anchor
        if name not in self._anchors:
            raise YamlProblem(f"yaml: unknown anchor '{name}' referenced")
        found = self._anchors[name]
        if found is None:
            raise YamlProblem(f"yaml: anchor '{name}' value contains itself")
        if len(self._frames) + found.height > MAX_DEPTH:
            raise yaml.scanner.ScannerError(None, None, f"{EXCEEDED} of {MAX_DEPTH}", event.start_mark)
        self._nodes += found.nodes
        self._expanded += found.nodes
        self._size += found.size
        self._expanded_size += found.size
        too_many = self._expanded > 100 and self._nodes > 1000 and self._expanded / self._nodes > _ratio(self._nodes)
        if too_many or self._expanded_size > MAX_EXPANDED_BYTES:
            raise YamlProblem(_EXCESSIVE)
        if self._frames:
            above = self._frames[-1]
            above.height = max(above.height, found.height + 1)
        self._put(found.value, event)

    def _put(self, value: Any, event: Any) -> None:
        """A value that has been read goes where it stands."""
        if not self._frames:
            self._root = value
            return
        frame = self._frames[-1]
        container = frame.container
        if type(container) is list:
            container.append(value)
        elif frame.merges:
            self._merge(frame, value)
            frame.merges, frame.key = False, _NO_KEY
        elif frame.key is _NO_KEY:
            if isinstance(value, (dict, list)):
                if _DECODING not in self._problems:
                    self._problems[_DECODING] = YamlProblem(f"yaml: invalid map key: {go_syntax(value)}")
                value = ""
            frame.key = value
        else:
            self._set(frame, value, event)
            frame.key = _NO_KEY

    def _set(self, frame: _Frame, value: Any, event: Any) -> None:
        key = frame.key
        if key is None:
            if _CONVERTING not in self._problems:
                shown = f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {go_syntax(value)}"
                self._problems[_CONVERTING] = YamlProblem(shown)
            return
        identity = key if key.__class__ is str else (key.__class__, key)
        if identity in frame.seen:
            shown = escaped(encode(key)).decode() if isinstance(key, str) else key_text(key)
            self._repeated.append(f"  line {event.start_mark.line + 1}: key {shown} already set in map")
        else:
            frame.seen.add(identity)
        frame.container[key if key.__class__ is str else key_text(key)] = value

    def _merge(self, frame: _Frame, value: Any) -> None:
        """What `<<` says: the members of an object, or of several, of which the first wins."""
        for one in reversed(value) if isinstance(value, list) else (value,):
            if isinstance(one, dict):
                frame.container.update(one)
            else:
                self._problems.setdefault(_DECODING, YamlProblem(_MERGE))


def _ratio(nodes: int) -> float:
    """Which part of all nodes may come from aliases."""
    if nodes <= _RATIO_FROM:
        return 0.99
    if nodes >= _RATIO_TO:
        return 0.10
    return 0.99 - 0.89 * (nodes - _RATIO_FROM) / (_RATIO_TO - _RATIO_FROM)
