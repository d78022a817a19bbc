"""What changes of pods and pod groups have in common: requests and objects without the values that are each object's own.

{"name":"a","uid":"1",...,"nodeName":"n"}   skeleton  {"name":_,"uid":_,...,"nodeName":_}   slot values  a, 1, n

A binding neither changes nor looks at most of a pod: owners, managers, containers, what the scheduler went by. That is left out as well, so that pods
which have nothing else in common are bound alike.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from itertools import chain
from typing import Final, NamedTuple

from bayplan.api.strategies.core.pods import NODE_FIELD, NOMINATION_FIELD
from bayplan.apiserver.admission.pods.service_account import TOKEN_VOLUME
from bayplan.apiserver.reads.watching import Entry

_NAME, _UID, _REVISION, _GIVEN, _NODE, _NOMINATION, _GROUP, _FIRST_LABEL = range(8)
MOST_LABELS: Final = 8
_VOLUME: Final = _FIRST_LABEL + MOST_LABELS
_FIRST_TIME: Final = _VOLUME + 1
"""The slots of a skeleton. The last ones are for times, in their order; before the volume come values of labels: those that the pod gets, then those that it has."""
_OWN: Final = (
    (_NAME, b"name"),
    (_UID, b"uid"),
    (_NODE, b"nodeName"),
    (_NOMINATION, b"nominatedNodeName"),
    (_GROUP, b"podGroupName"),
)
"""Members of the object whose first occurrence has the slot's value."""
_PLACEHOLDERS: Final = tuple(b"\0%02d" % slot for slot in range(_FIRST_TIME + 16))
"""Placeholders of slot values in a skeleton, between quotation marks. JSON has no such bytes in it."""
_LABELS: Final = b'"labels":{'
_ANY_REVISION: Final = b',"resourceVersion":"%b"' % _PLACEHOLDERS[_REVISION]
_PLACEHOLDER: Final = re.compile(rb"\0([0-9]{2})")
_SOME_NAME, _SOME_UID, _SOME_NODE, _SOME_TIME = b"\0p", b"\0u", b"\0n", b"\0t"
"""Placeholders in requests. Only the first occurrence of a value is replaced: a request that repeats it elsewhere is another request."""
_SECOND: Final = rb"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_TIME: Final = re.compile(rb'"(%b)"' % _SECOND)
_is_time: Final = re.compile(_SECOND).fullmatch
_VOLUME_PREFIX: Final = TOKEN_VOLUME.encode()
_VOLUME_TEXT: Final = re.compile(rb'"name":"(%b[a-z0-9]{5})"' % _VOLUME_PREFIX)
_NOMINATED: Final = re.compile(rb'"nominatedNodeName":"([a-z0-9.-]+)"')
_TARGET: Final = re.compile(rb'"target":\{(?:"[a-zA-Z]+":"[^"]*",)*"name":"([a-z0-9.-]+)"')
_GROUP_NAME: Final = re.compile(rb'"podGroupName":"([a-z0-9.-]+)"')
ESCAPE: Final = b"\\u"
"""With an escape, a request may spell a slot value in another way."""
NODE_FIELDS: Final = frozenset((NODE_FIELD, NOMINATION_FIELD))
"""Selectable fields that are slots."""
_KEY_BYTES: Final = 500
"""What an entry holds besides its bytes."""
_KEPT: Final = b'"\0kept"'
"""Stands for a part of a pod that a binding leaves alone."""
_KEPT_STARTS: Final = (b'"ownerReferences":[', b'"finalizers":[', b'"managedFields":[', b'"spec":{')
_KEPT_END: Final = b'","terminationGracePeriodSeconds":'
"""The first such part: the end of the metadata and the spec up to what happens when its containers end."""
_LATER_START: Final = b'"securityContext":{'
_LATER_END: Final = b'},"status":{'
"""The second one: what follows the node in the spec. Quotation marks within texts are escaped, so none of these is part of one."""
_GATES: Final = b'"schedulingGates":['
"""Pods with these are not bound."""
Key = tuple[object, ...]
SlotValues = list[bytes | None]
"""By slot; None for slots that are absent, or not known yet."""


class RequestSkeleton(NamedTuple):
    """A request without its slot values."""

    body: bytes
    times: list[bytes]
    """Times in the request."""
    given: str
    """The node that the request gives the pod; "" if it gives it none."""


class RequestKey(NamedTuple):
    """What of a request decides its outcome, whatever pod it changes."""

    kind: str
    body: bytes
    operation: str
    content_type: str
    writer: Key
    labels: Key
    """Keys of labels that the pod gets."""


class PodParts(NamedTuple):
    """The bytes of a pod, perhaps without parts that a change leaves alone."""

    body: bytes
    kept: tuple[bytes, ...] = ()

    @staticmethod
    def of_bound(body: bytes) -> PodParts:
        """Those of a pod that is to be bound, or was."""
        start = min((at for mark in _KEPT_STARTS if (at := body.find(mark)) >= 0), default=-1)
        end = body.find(_KEPT_END, start)
        later = body.find(_LATER_START, end)
        last = body.find(_LATER_END, later)
        if -1 in (start, end, later, last) or body.find(_GATES, later, last) >= 0:
            return PodParts(body)
        shortened = b"".join((body[:start], _KEPT, body[end:later], _KEPT, body[last:]))
        return PodParts(shortened, (body[start:end], body[later:last]))

    def completed(self, body: bytes) -> bytes:
        """Other bytes with the parts that are left alone."""
        for part in self.kept:
            body = body.replace(_KEPT, part, 1)
        return body


class Subject(NamedTuple):
    """A pod, and the request to change it."""

    entry: Entry
    parts: PodParts
    """Of the pod before."""
    request_key: RequestKey
    now: bytes
    times: list[bytes]
    """Times in the request."""
    given: str
    """The node that the request gives the pod; "" if it gives it none."""
    field: str
    """The selectable field that it gives: the pod's node, or its nomination."""
    labels: Mapping[str, str]
    """Labels that the pod gets."""

    @property
    def keeps_node(self) -> bool:
        """Whether the pod is given the node that it has."""
        return self.given == self.entry.fields.get(self.field, "")

    @property
    def groups(self) -> tuple[Key, Key]:
        """The keys under which entries are looked up: pods of one application have the same labels; those of an indexed Job, say, only the same keys."""
        labels = self.entry.labels
        return (self.request_key, *labels.items()), (self.request_key, *labels)

    @property
    def given_fields(self) -> dict[str, str]:
        """The selectable field that the request sets, if it sets one."""
        return {self.field: self.given} if self.given else {}

    def slot_values(self) -> SlotValues:
        """The pod's slot values, but for its times, its pod group and its token volume. Of too many labels, the last ones are no slots."""
        entry = self.entry
        slot_values: SlotValues = [None] * len(_PLACEHOLDERS)
        slot_values[_NAME], slot_values[_UID], slot_values[_REVISION] = (
            entry.name.encode(),
            entry.uid.encode(),
            b"%d" % entry.revision,
        )
        slot_values[_NODE] = entry.fields.get(NODE_FIELD, "").encode() or None
        slot_values[_NOMINATION] = entry.fields.get(NOMINATION_FIELD, "").encode() or None
        slot_values[_GIVEN] = self.given.encode() or None
        slot = _FIRST_LABEL
        for value in chain(self.labels.values(), entry.labels.values()):
            if slot == _VOLUME:
                break
            slot_values[slot] = value.encode()
            slot += 1
        return slot_values

    def with_label_slots(self, body: bytes, *, is_after: bool) -> bytes:
        """The pod's bytes, before or after, with placeholders for the values of its labels."""
        if not (self.entry.labels or (is_after and self.labels)):
            return body
        start = body.index(_LABELS)
        end = body.index(b"}", start)
        block = body[start:end]
        for slot, (key, value) in enumerate(chain(self.labels.items(), self.entry.labels.items()), _FIRST_LABEL):
            if slot == _VOLUME:
                break
            if is_after or slot >= _FIRST_LABEL + len(self.labels):
                pair = b'"%b":"%b"'
                block = block.replace(pair % (key.encode(), value.encode()), pair % (key.encode(), _PLACEHOLDERS[slot]))
        return body[:start] + block + body[end:]


class _ObjectSkeleton:
    """Bytes with slots in them."""

    def __init__(self, marked: bytes) -> None:
        *parts, self._end = _PLACEHOLDER.split(marked)
        self._slots = list(map(int, parts[1::2]))
        self._pairs = list(zip(parts[::2], self._slots, strict=True))
        """The text before a slot, and the slot."""
        self._pieces = [*parts, self._end]

    def matches(self, body: bytes, slot_values: SlotValues) -> bool:
        """Whether bytes have this skeleton and the slot values that are known; fills in the others."""
        at = 0
        for literal, slot in self._pairs:
            if not body.startswith(literal, at):
                return False
            at += len(literal)
            end = body.find(b'"', at)
            text, known = body[at:end], slot_values[slot]
            if known is None:
                slot_values[slot] = text
            elif known != text:
                return False
            at = end
        return body[at:] == self._end

    def filled_in(self, slot_values: SlotValues) -> bytes:
        """The bytes with these slot values."""
        pieces = self._pieces.copy()
        pieces[1::2] = [slot_values[slot] or b"" for slot in self._slots]
        return b"".join(pieces)


class MemoEntry(NamedTuple):
    """The outcome of a request for pods of one skeleton."""

    key: Key
    """Its identity among the entries of its request."""
    before: _ObjectSkeleton
    now: int
    """The slot of the time of the request."""
    times: list[int]
    """The slots of the times in the request."""
    keeps_node: bool
    after: _ObjectSkeleton
    fields: dict[str, str]
    """Selectable fields that change, but for the one that the request sets."""

    def slot_values(self, subject: Subject, known: SlotValues) -> SlotValues | None:
        """All slot values of a pod, of which some are known; None if the entry is not for this pod."""
        slot_values = known.copy()
        slot_values[self.now] = subject.now
        for slot, time in zip(self.times, subject.times, strict=True):
            if slot_values[slot] not in (None, time):
                return None
            slot_values[slot] = time
        if not self.before.matches(subject.parts.body, slot_values) or not _is_volume(slot_values[_VOLUME]):
            return None
        times = [time for time in slot_values[_FIRST_TIME:] if time is not None]
        return slot_values if sorted({*times}) == times and all(map(_is_time, times)) else None


class Outcome(NamedTuple):
    """What came of a request for one object."""

    key: Key
    """Of what the outcome is: the request, and the object's skeleton before."""
    digests: Key
    """Equal for equal outcomes."""
    before: bytes
    later: bytes
    """The object with placeholders, before and after."""
    slots: list[int]
    """The slots of the time of the request, and of the times in it."""
    fields: dict[str, str]
    """Selectable fields that change, but for the one that the request sets."""

    @property
    def size(self) -> int:
        """Bytes that the entry takes."""
        return len(self.before) + len(self.later) + _KEY_BYTES

    def entry(self, subject: Subject) -> MemoEntry:
        """The outcome as an entry. subject: of which it is the outcome."""
        before, after = _ObjectSkeleton(self.before), _ObjectSkeleton(self.later.replace(_ANY_REVISION, b"", 1))
        return MemoEntry(self.key, before, self.slots[0], self.slots[1:], subject.keeps_node, after, self.fields)


def outcome_of(subject: Subject, after: Entry, fields: dict[str, str]) -> Outcome | None:
    """An outcome of the slow path; None if it depends on slot values. fields: selectable fields that changed."""
    parts = subject.parts
    later_parts = PodParts.of_bound(after.body) if parts.kept else PodParts(after.body)
    if later_parts.kept != parts.kept:
        return None
    times = sorted({subject.now, *subject.times, *_TIME.findall(parts.body)})
    slot_values = subject.slot_values()
    group = _GROUP_NAME.search(parts.body)
    slot_values[_GROUP] = group[1] if group is not None else None
    volume = _VOLUME_TEXT.search(parts.body)
    slot_values[_VOLUME] = volume[1] if volume is not None else None
    slot_values[_FIRST_TIME:] = times
    before, later = (
        _with_placeholders(subject, parts.body, subject.entry.revision, slot_values, is_after=False),
        _with_placeholders(subject, later_parts.body, after.revision, slot_values, is_after=True),
    )
    if len(slot_values) > len(_PLACEHOLDERS) or b'"deletionTimestamp"' in before or _TIME.search(later):
        return None  # a time of the outcome was computed from others
    slots = [_FIRST_TIME + times.index(time) for time in (subject.now, *subject.times)]
    key = (subject.request_key, _digest(before), tuple(slots), subject.keeps_node)
    return Outcome(key, (_digest(later), tuple(sorted(fields.items()))), before, later, slots, fields)


def _digest(text: bytes) -> bytes:
    """Stands for some kilobytes that are kept only to be compared: most outcomes come once."""
    return hashlib.blake2b(text, digest_size=16).digest()


def without_uid(body: bytes, entry: Entry) -> bytes:
    """A request without the uid of the object that it is about."""
    return body.replace(b'"uid":"%b"' % entry.uid.encode(), _SOME_UID, 1)


def binding_skeleton(body: bytes, entry: Entry) -> RequestSkeleton:
    """The skeleton of a binding, given without the uid."""
    return _request_skeleton(body.replace(b'"name":"%b"' % entry.name.encode(), _SOME_NAME, 1), _TARGET)


def change_skeleton(body: bytes) -> RequestSkeleton:
    """The skeleton of another change, given without the uid."""
    return _request_skeleton(body, _NOMINATED)


def _request_skeleton(body: bytes, giving: re.Pattern[bytes]) -> RequestSkeleton:
    """giving: finds the node that the request sets."""
    given = giving.search(body)
    if given is not None:
        body = body[: given.start(1)] + _SOME_NODE + body[given.end(1) :]
    times = _TIME.findall(body)
    if times:
        body = _TIME.sub(_SOME_TIME, body)
    return RequestSkeleton(body, times, given[1].decode() if given is not None else "")


def _is_volume(text: bytes | None) -> bool:
    return text is None or (len(text) == len(_VOLUME_PREFIX) + 5 and text.startswith(_VOLUME_PREFIX))


def _with_placeholders(
    subject: Subject, body: bytes, revision: int, slot_values: SlotValues, *, is_after: bool
) -> bytes:
    """A pod's bytes, before or after, with placeholders for slot values."""
    body = subject.with_label_slots(body, is_after=is_after).replace(
        b',"resourceVersion":"%d"' % revision, _ANY_REVISION, 1
    )
    given = (_GIVEN, b"nodeName" if subject.field == NODE_FIELD else b"nominatedNodeName")
    for slot, member in (given, *_OWN):
        if (text := slot_values[slot]) is not None:
            body = body.replace(b'"%b":"%b"' % (member, text), b'"%b":"%b"' % (member, _PLACEHOLDERS[slot]), 1)
    for text, mark in zip(slot_values[_VOLUME:], _PLACEHOLDERS[_VOLUME:], strict=False):
        if text is not None:
            body = body.replace(b'"%b"' % text, b'"%b"' % mark)
    return body
