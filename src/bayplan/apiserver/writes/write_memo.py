"""The fast path for changes that are made to one pod after the other, as when hundreds are bound, evicted or wait for the same; and to pod groups.

    bytes before = a skeleton, filled in with slot values: the pod's own name, uid, node, pod group, ... and its times
    same request, same skeleton, times in the same order  ->  the skeleton afterwards, filled in anew; nothing is decoded, compared, checked or encoded

It serves changes whose outcome does not depend on slot values, as long as admission lets them pass without a look at the pod: that is observed
(`admission.observation`). An entry is believed when the slow path gave the same outcome twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.api.kinds import POD_GROUP
from bayplan.api.strategies.core.pods import NODE_FIELD, NOMINATION_FIELD
from bayplan.api.types import core_v1
from bayplan.api.validation.formats import label_value
from bayplan.apiserver.admission.chain import CREATE, DELETE, UPDATE
from bayplan.apiserver.admission.observation import ObservedRequest, Reads, Untouched, ask
from bayplan.apiserver.admission.service_account import TOKEN_VOLUME
from bayplan.apiserver.reads.cache import Prepared
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.writes.body_texts import is_valid_name
from bayplan.store.errors import Conflict
from bayplan.support.hit_rate import HitRate
from bayplan.support.memo import Memo
from bayplan.support.timestamps import rfc3339

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call
    from bayplan.apiserver.objects import SubmittedWrite

STATUS: Final = f"{UPDATE}/status"
BINDING: Final = f"{CREATE}/binding"
_QUERY: Final = frozenset(("fieldManager", "fieldValidation"))
_LONGEST: Final = 8192
"""Bytes of a request, and of a pod: longer ones take the slow path."""
_MOST_BYTES: Final = 16 << 20
"""Of each memo."""
_KEY_BYTES: Final = 500
"""What a key holds besides the request's body."""
_MOST_TRIED: Final = 8
"""Entries of one request and one set of labels: each is compared with the pod."""
_LEAST_HITS: Final = 0.25
"""Share of changes that hit an entry, below which looking for one costs more than it saves."""
_NAME, _UID, _REVISION, _GIVEN, _NODE, _NOMINATION, _GROUP, _FIRST_LABEL = range(8)
_MOST_LABELS: Final = 8
_VOLUME: Final = _FIRST_LABEL + _MOST_LABELS
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
_ESCAPE: Final = b"\\u"
"""With an escape, a request may spell a slot value in another way."""

_NODES: Final = frozenset((NODE_FIELD, NOMINATION_FIELD))
"""Selectable fields that are slots."""

_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_Key = tuple[object, ...]
_SlotValues = list[bytes | None]
"""By slot; None for slots that are absent, or not known yet."""


class _RequestSkeleton(NamedTuple):
    """A request without its slot values."""

    body: bytes
    times: list[bytes]
    """Times in the request."""
    given: str
    """The node that the request gives the pod; "" if it gives it none."""


class _RequestKey(NamedTuple):
    """What of a request decides its outcome, whatever pod it changes."""

    kind: str
    body: bytes
    operation: str
    content_type: str
    writer: _Key
    labels: _Key
    """Keys of labels that the pod gets."""


class _Subject(NamedTuple):
    """A pod, and the request to change it."""

    entry: Entry
    request_key: _RequestKey
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
    def groups(self) -> tuple[_Key, _Key]:
        """The keys under which entries are looked up: pods of one application have the same labels; those of an indexed Job, say, only the same keys."""
        labels = self.entry.labels
        return (self.request_key, *labels.items()), (self.request_key, *labels)

    @property
    def given_fields(self) -> dict[str, str]:
        """The selectable field that the request sets, if it sets one."""
        return {self.field: self.given} if self.given else {}

    def slot_values(self) -> _SlotValues:
        """The pod's slot values, but for its times, its pod group and its token volume. Of too many labels, the last ones are no slots."""
        entry = self.entry
        slot_values: _SlotValues = [None] * len(_PLACEHOLDERS)
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

    def matches(self, body: bytes, slot_values: _SlotValues) -> bool:
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

    def filled_in(self, slot_values: _SlotValues) -> bytes:
        """The bytes with these slot values."""
        pieces = self._pieces.copy()
        pieces[1::2] = [slot_values[slot] or b"" for slot in self._slots]
        return b"".join(pieces)


class _MemoEntry(NamedTuple):
    """The outcome of a request for pods of one skeleton."""

    key: _Key
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

    def slot_values(self, subject: _Subject, known: _SlotValues) -> _SlotValues | None:
        """All slot values of a pod, of which some are known; None if the entry is not for this pod."""
        slot_values = known.copy()
        slot_values[self.now] = subject.now
        for slot, time in zip(self.times, subject.times, strict=True):
            if slot_values[slot] not in (None, time):
                return None
            slot_values[slot] = time
        if not self.before.matches(subject.entry.body, slot_values) or not _is_volume(slot_values[_VOLUME]):
            return None
        times = [time for time in slot_values[_FIRST_TIME:] if time is not None]
        return slot_values if sorted({*times}) == times and all(map(_is_time, times)) else None


class Change:
    """A change of one pod, which may have an entry in the memo."""

    def __init__(self, memo: WriteMemo, call: Call, subject: _Subject) -> None:
        self._memo = memo
        self._call = call
        self._subject = subject
        self._labels = {**subject.entry.labels, **subject.labels} if subject.labels else subject.entry.labels
        """The pod's labels afterwards."""
        self._known = memo.find(subject)

    @property
    def is_known(self) -> bool:
        """Whether the memo has the outcome."""
        return self._known is not None

    async def write(self, *, removes: bool = False) -> Entry | None:
        """Make the change, and remove the pod with it if that belongs to it. None if the memo has no outcome, or another client was faster.

        Raises ApiError.
        """
        try:
            submitted = self.submit(removes=removes)
        except Conflict as race:
            await self._call.context.objects.settle(race)
            return None
        if submitted is None:
            return None
        revision = await submitted.done()
        if not removes:
            return submitted.entry
        return self._call.context.objects.cache(self._call.stored).as_deleted(submitted.entry, revision)

    def submit(self, *, removes: bool = False) -> SubmittedWrite | None:
        """Submit the change without waiting for its commit. Raises ApiError, and store.Conflict if another client was faster."""
        if self._known is None:
            return None
        memo_entry, slot_values = self._known
        entry, call, objects = self._subject.entry, self._call, self._call.context.objects
        value = call.stored.type_meta + memo_entry.after.filled_in(slot_values)
        if len(value) > objects.max_object_bytes:
            return None  # it may be too large in the form that is limited
        fields = {**entry.fields, **memo_entry.fields, **self._subject.given_fields}
        prepared = Prepared(self._labels, fields, entry.uid)
        return objects.submit(call.stored, entry, value, prepared, removes=removes)

    def learn(self, after: Entry) -> None:
        """Learn the outcome of the slow path, which gave no warning."""
        before = self._subject.entry
        fields = dict(after.fields.items() - {**before.fields, **self._subject.given_fields}.items())
        if (
            not any(fields.get(one) for one in _NODES)
            and after.labels == self._labels
            and after.revision != before.revision
            and self._call.changed is before
        ):
            self._memo.note(self._subject, after, fields)


class WriteMemo:
    """The outcomes of changes to pods."""

    def __init__(self) -> None:
        self._known: Memo[_Key, list[_MemoEntry]] = Memo("write_memo_cases", most_bytes=_MOST_BYTES)
        """Entries by request and the pod's labels."""
        self._once: Memo[_Key, _Key] = Memo("write_memo_outcomes", most_bytes=_MOST_BYTES)
        """Outcomes that came once, by identity of the entry."""
        self._seen: Memo[_RequestKey, bool] = Memo("write_memo_requests", most_bytes=_MOST_BYTES)
        """Requests that came at least once, for whatever pod."""
        self._skeletons: Memo[bytes, _RequestSkeleton] = Memo("write_memo_skeletons", most_bytes=_MOST_BYTES)
        """Skeletons by request without the pod's uid; none of requests that set a node."""
        self._hit_rates: dict[tuple[str, ...], HitRate] = {}
        """By kind and operation."""
        self._admissions: Memo[_Key, Reads] = Memo("write_memo_admissions", most_bytes=_MOST_BYTES)
        """What admission decides by that changes pass, whatever the pod; by kind, operation, namespace and user."""

    def change(self, call: Call, operation: str, *, labels: Mapping[str, str] | None = None) -> Change | None:
        """A change of a pod as pending writes leave it; None if it takes the slow path, as the first of its kind does.

        operation: as admission names it, with the subresource. labels: those that a binding gives the pod once admission has been called.
        """
        request, path = call.request, call.path
        query = request.query
        if not _is_served(call) or not _QUERY.issuperset(query) or len(request.body) > _LONGEST:
            return None
        if call.context.objects.is_shared:
            return None
        entry = call.entry(path.namespace, path.name)
        if entry is None or len(entry.body) > _LONGEST:
            return None
        body, times, given = self._skeleton(request.body, entry, operation)
        writer = (request.user_agent, query.get("fieldManager"), query.get("fieldValidation"), request.reads_warnings)
        labels = labels or _NO_LABELS
        request_key = _RequestKey(call.stored.kind, body, operation, request.content_type, writer, tuple(labels))
        if self._seen.get(request_key) is None:
            if _ESCAPE not in body:
                self._seen.put(request_key, value=True, size=len(body))
            return None
        if (operation != BINDING and not self._is_admitted(call, operation)) or not _are_slots(given, labels):
            return None
        hit_rate = self._hit_rate(call.stored.kind, operation)
        if not hit_rate.is_worth_asking():
            return None
        now = rfc3339(call.context.clock.now()).encode()
        field = NODE_FIELD if operation == BINDING else NOMINATION_FIELD
        entry = call.context.objects.newest(call.stored, entry)
        change = Change(self, call, _Subject(entry, request_key, now, times, given, field, labels))
        hit_rate.record(hit=change.is_known)
        return change

    def _skeleton(self, body: bytes, entry: Entry, operation: str) -> _RequestSkeleton:
        """The skeleton of a request. Most requests that set no node differ only in the pod's uid."""
        body = body.replace(b'"uid":"%b"' % entry.uid.encode(), _SOME_UID, 1)
        if operation == BINDING:
            return _request_skeleton(body.replace(b'"name":"%b"' % entry.name.encode(), _SOME_NAME, 1), _TARGET)
        skeleton = self._skeletons.get(body)
        if skeleton is None:
            skeleton = _request_skeleton(body, _NOMINATED)
            if not skeleton.given:
                self._skeletons.put(body, skeleton, 2 * len(body))
        return skeleton

    def find(self, subject: _Subject) -> tuple[_MemoEntry, _SlotValues] | None:
        """The entry for a pod, and its slot values; None if there is none."""
        keeps_node, known = subject.keeps_node, None
        for group in subject.groups:
            for memo_entry in self._known.get(group) or ():
                if memo_entry.keeps_node != keeps_node:
                    continue
                known = known or subject.slot_values()
                if (slot_values := memo_entry.slot_values(subject, known)) is not None:
                    return memo_entry, slot_values
        return None

    def note(self, subject: _Subject, after: Entry, fields: dict[str, str]) -> None:
        """Record an outcome. It becomes an entry when the same outcome came before."""
        times = sorted({subject.now, *subject.times, *_TIME.findall(subject.entry.body)})
        slot_values = subject.slot_values()
        group = _GROUP_NAME.search(subject.entry.body)
        slot_values[_GROUP] = group[1] if group is not None else None
        volume = _VOLUME_TEXT.search(subject.entry.body)
        slot_values[_VOLUME] = volume[1] if volume is not None else None
        slot_values[_FIRST_TIME:] = times
        before, later = (
            _with_placeholders(subject, subject.entry, slot_values, is_after=False),
            _with_placeholders(subject, after, slot_values, is_after=True),
        )
        if len(slot_values) > len(_PLACEHOLDERS) or b'"deletionTimestamp"' in before or _TIME.search(later):
            return  # a time of the outcome was computed from others
        slots = [_FIRST_TIME + times.index(time) for time in (subject.now, *subject.times)]
        key = (subject.request_key, _digest(before), tuple(slots), subject.keeps_node)
        outcome = (_digest(later), tuple(sorted(fields.items())))
        if self._once.get(key) != outcome:
            self._once.put(key, outcome, _KEY_BYTES + len(subject.request_key.body))
            return
        after_form = _ObjectSkeleton(later.replace(_ANY_REVISION, b"", 1))
        memo_entry = _MemoEntry(
            key, _ObjectSkeleton(before), slots[0], slots[1:], subject.keeps_node, after_form, fields
        )
        for alike in subject.groups:
            others = [one for one in self._known.get(alike) or () if one.key != key]  # found by several at a time
            memo_entries = [memo_entry, *others[: _MOST_TRIED - 1]]
            self._known.put(alike, memo_entries, len(memo_entries) * (len(before) + len(later) + _KEY_BYTES))

    def _hit_rate(self, *kind_and_operation: str) -> HitRate:
        hit_rate = self._hit_rates.get(kind_and_operation)
        if hit_rate is None:
            hit_rate = self._hit_rates[kind_and_operation] = HitRate(_LEAST_HITS)
        return hit_rate

    def _is_admitted(self, call: Call, operation: str) -> bool:
        """Whether admission lets such a change pass without a look at the pod."""
        user = call.request.user
        key = (call.stored.kind, operation, call.path.namespace, user.name)
        reads = self._admissions.get(key)
        if reads is None or not reads.hold(user):
            reads = _admission_of(call, operation)
            self._admissions.put(key, reads, _KEY_BYTES)
        return reads.is_repeatable


def _admission_of(call: Call, operation: str) -> Reads:
    """Ask admission about a change of some pod."""
    verb, _, subresource = operation.partition("/")
    plan = call.context.admission.plan(call.stored, verb, subresource)
    reads = Reads()
    pod = Untouched(reads)
    ask(
        (*plan.mutating, *plan.validating),
        ObservedRequest(call, verb, None if verb == DELETE else pod, pod, subresource, reads),
    )
    return reads


def _are_slots(given: str, labels: Mapping[str, str]) -> bool:
    """Whether what a request gives a pod, a node and labels, can stand in a skeleton as it is."""
    if given and not is_valid_name(given):
        return False
    return len(labels) <= _MOST_LABELS and not any(label_value(value) for value in labels.values())


def _is_served(call: Call) -> bool:
    """Whether a request is about an object of a kind whose changes are alike, in the version that is stored."""
    return call.kind is call.stored and (call.stored.type is core_v1.Pod or call.stored is POD_GROUP)


def _digest(text: bytes) -> bytes:
    """Stands for some kilobytes that are kept only to be compared: most outcomes come once."""
    return hashlib.blake2b(text, digest_size=16).digest()


def _request_skeleton(body: bytes, giving: re.Pattern[bytes]) -> _RequestSkeleton:
    """giving: finds the node that the request sets."""
    given = giving.search(body)
    if given is not None:
        body = body[: given.start(1)] + _SOME_NODE + body[given.end(1) :]
    times = _TIME.findall(body)
    if times:
        body = _TIME.sub(_SOME_TIME, body)
    return _RequestSkeleton(body, times, given[1].decode() if given is not None else "")


def _is_volume(text: bytes | None) -> bool:
    return text is None or (len(text) == len(_VOLUME_PREFIX) + 5 and text.startswith(_VOLUME_PREFIX))


def _with_placeholders(subject: _Subject, entry: Entry, slot_values: _SlotValues, *, is_after: bool) -> bytes:
    """A pod's bytes, before or after, with placeholders for slot values."""
    body = subject.with_label_slots(entry.body, is_after=is_after).replace(
        b',"resourceVersion":"%d"' % entry.revision, _ANY_REVISION, 1
    )
    given = (_GIVEN, b"nodeName" if subject.field == NODE_FIELD else b"nominatedNodeName")
    for slot, member in (given, *_OWN):
        if (text := slot_values[slot]) is not None:
            body = body.replace(b'"%b":"%b"' % (member, text), b'"%b":"%b"' % (member, _PLACEHOLDERS[slot]), 1)
    for text, mark in zip(slot_values[_VOLUME:], _PLACEHOLDERS[_VOLUME:], strict=False):
        if text is not None:
            body = body.replace(b'"%b"' % text, b'"%b"' % mark)
    return body
