"""The texts of a new object's body, told apart from all that stands between them, so that bodies which differ only in some of them are known to be alike.

    {"metadata":{"name":"a","labels":{"index":"7"}},"spec":{...,"image":"i"}}

    skeleton  {"metadata":{"name":_,"labels":{"index":_}},"spec":{...,"image":_}}
    texts     a, 7, i            open: the name, values of labels and annotations, and what `_PLACES` says of the kind; fixed: all others

What is open decides nothing but itself, as far as the kind's own defaults go, and no admission plugin looks at it (`watched_texts`). A text with escaped
characters belongs to the skeleton: without them a text ends at the next quote, and any other text without quotes in its place is again a text of the same
place. What stands between two texts of which the first ends with a colon looks like a text and is none: such bodies have no open texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from bayplan.api.types import core_v1
from bayplan.api.validation.pods.pod_warnings import pod_name_warnings
from bayplan.api.validation.values import formats

Path = tuple[str | int, ...]
"""Names of fields and keys, as in JSON, and indices into lists."""

_TEXT: Final = re.compile(rb'(: ?")([^"\\]*)"')
_READ_DOMAINS: Final = ("kubernetes.io", "k8s.io", "bayplan.dev")
"""Annotations under these may mean something to the server, and so may labels of objects that are no pods."""
_COPIES_LABELS: Final = b'LabelKeys"'
"""The end of the fields by which values of labels come into selectors."""
STAND_IN: Final = rb"~~bayplan-[a-z]+-[0-9]+~~|19[0-9-]+T[0-9:.]+Z"
"""A regular expression for all that stands for texts and times."""
_ANY: Final = "*"
"""In the path of a place: any key, or any item of a list."""


class Rule(NamedTuple):
    """Which texts a place may hold without anything to be said against them."""

    is_valid: Callable[[bytes], object]
    stand_in: str = "~~bayplan-text-%d~~"
    """A text that no client sends, with the number of the text in it."""


class OpenText(NamedTuple):
    """A text that is open."""

    path: Path
    text: int
    """Its index in all texts of the body."""
    rule: Rule


class BodyTexts(NamedTuple):
    """A body in parts."""

    skeleton: tuple[bytes, bytes]
    """What stands between the texts, and how they are set apart from it."""
    texts: list[bytes]

    def with_texts(self, others: Mapping[int, bytes]) -> bytes:
        """The body with other texts at some places."""
        between, apart = self.skeleton[0].split(b"\0"), self.skeleton[1].split(b":")[1:]
        parts = [between[0]]
        for at, (before, after) in enumerate(zip(apart, between[1:], strict=True)):
            parts += (b":", before, others.get(at, self.texts[at]), b'"', after)
        return b"".join(parts)


def texts_of(body: bytes) -> BodyTexts:
    """The parts of a body."""
    parts = _TEXT.split(body)
    return BodyTexts((b"\0".join(parts[::3]), b"".join(parts[1::3])), parts[2::3])


class OpenTexts:
    """Which texts of a skeleton are open."""

    __slots__ = ("_count", "_rules", "fixed", "has_name", "open")

    def __init__(self, count: int, open_texts: Sequence[OpenText]) -> None:
        """count: of all texts."""
        self._count = count
        self.open = tuple(open_texts)
        self._rules = tuple([(one.text, one.rule.is_valid) for one in self.open])
        self.has_name = any(one.path == _NAME for one in self.open)
        taken = {one.text for one in self.open}
        self.fixed = tuple([at for at in range(count) if at not in taken])

    def without(self, read: Collection[int]) -> OpenTexts:
        """The same without texts that decide something."""
        return OpenTexts(self._count, [one for one in self.open if one.text not in read])

    def are_valid(self, texts: Sequence[bytes]) -> bool:
        """Whether nothing is to be said against the open texts."""
        return all(is_valid(texts[at]) for at, is_valid in self._rules)


def stand_ins(open_texts: OpenTexts) -> dict[int, bytes]:
    """What stands for each open text, in their order."""
    return {one.text: (one.rule.stand_in % one.text).encode() for one in open_texts.open}


def open_texts_of(parts: BodyTexts, cls: type[Any]) -> OpenTexts | None:
    """Which texts are open in bodies of this skeleton, for objects of a type; None if it is no object."""
    marks = {f"~~text-{at}~~": at for at in range(len(parts.texts))}
    try:
        tree = msgspec.json.decode(parts.with_texts({at: mark.encode() for mark, at in marks.items()}))
    except msgspec.DecodeError:
        return None
    copies_labels = _COPIES_LABELS in parts.skeleton[0]
    found: dict[int, OpenText] = {}
    for place, rule in _PLACES.get(cls, _OF_EVERY_KIND).items():
        for path, text in _texts_at(tree, place, ()):
            at = marks.get(text, -1)
            if at >= 0 and not (_may_be_read(path, cls) or (copies_labels and path[:2] == _LABELS)):
                found[at] = OpenText(path, at, rule)
    return OpenTexts(len(marks), list(found.values()))


def _texts_at(tree: Any, place: Path, path: Path) -> Iterator[tuple[Path, str]]:
    """The texts at a place of a tree."""
    if not place:
        if isinstance(tree, str):
            yield path, tree
        return
    key, rest = place[0], place[1:]
    if isinstance(tree, dict):
        for name in tree if key == _ANY else (key,):
            if name in tree:
                yield from _texts_at(tree[name], rest, (*path, name))
    elif isinstance(tree, list) and key == _ANY:
        for index, item in enumerate(tree):
            yield from _texts_at(item, rest, (*path, index))


def _may_be_read(path: Path, cls: type[Any]) -> bool:
    """Whether a label or an annotation may mean something to the server."""
    if path[:2] not in ((_ANNOTATIONS,) if cls is core_v1.Pod else (_ANNOTATIONS, _LABELS)):
        return False
    return str(path[2]).partition("/")[0].endswith(_READ_DOMAINS)


def is_valid_name(name: str) -> bool:
    """Whether a name is one that pods may have, and gives no warning."""
    return not formats.dns_subdomain(name) and not pod_name_warnings(name)


def _time(form: str) -> Callable[[bytes], bool]:
    """Texts that are times in exactly this form, which is that in which the server gives them."""
    matches = re.compile(form.encode()).fullmatch

    def is_valid(text: bytes) -> bool:
        if not matches(text):
            return False
        try:
            datetime.fromisoformat(text[:19].decode())
        except ValueError:
            return False
        return True

    return is_valid


_NAME: Final = ("metadata", "name")
_LABELS: Final = ("metadata", "labels")
_ANNOTATIONS: Final = ("metadata", "annotations")
_LABEL: Final = Rule(re.compile(rb"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?").fullmatch)
_PRINTABLE: Final = Rule(re.compile(rb"[ -~]*").fullmatch)
_FILLED: Final = Rule(re.compile(rb"[ -~]+").fullmatch)
"""For fields: they are left out when they are empty."""
_POD_NAME: Final = Rule(lambda text: is_valid_name(text.decode(errors="replace")))
_GROUP: Final = Rule(lambda text: text and not formats.dns_subdomain(text.decode(errors="replace")))
_VARIABLE: Final = Rule(re.compile(rb"[ -#%-~]+").fullmatch)
"""No dollar, since a reference to another variable may give a warning; not empty, since that is not kept."""
_CLAIM: Final = Rule(re.compile(rb"[a-z0-9][a-z0-9.-]*").fullmatch)
_SECOND: Final = Rule(_time(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "1902-03-04T05:06:%02dZ")
_MICROSECOND: Final = Rule(_time(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"), "1902-03-04T05:06:07.%06dZ")

_OF_EVERY_KIND: Final[Mapping[Path, Rule]] = {
    _NAME: _FILLED,
    (*_LABELS, _ANY): _LABEL,
    (*_ANNOTATIONS, _ANY): _PRINTABLE,
}
_PLACES: Final[Mapping[type[Any], Mapping[Path, Rule]]] = {
    core_v1.Pod: {
        **_OF_EVERY_KIND,
        _NAME: _POD_NAME,
        ("spec", "containers", _ANY, "env", _ANY, "value"): _VARIABLE,
        ("spec", "initContainers", _ANY, "env", _ANY, "value"): _VARIABLE,
        ("spec", "volumes", _ANY, "persistentVolumeClaim", "claimName"): _CLAIM,
        ("spec", "schedulingGroup", "podGroupName"): _GROUP,
    },
    core_v1.Event: {
        **_OF_EVERY_KIND,
        ("involvedObject", "name"): _FILLED,
        ("involvedObject", "uid"): _FILLED,
        ("involvedObject", "resourceVersion"): _FILLED,
        ("message",): _FILLED,
        ("source", "host"): _FILLED,
        ("reportingInstance",): _FILLED,
        ("firstTimestamp",): _SECOND,
        ("lastTimestamp",): _SECOND,
        ("eventTime",): _MICROSECOND,
    },
    core_v1.ConfigMap: {**_OF_EVERY_KIND, ("data", _ANY): _PRINTABLE},
}
"""Where the texts are that decide nothing but themselves, by the type of the object: nothing is defaulted after them, and nothing but a rule of validation
looks at them."""
