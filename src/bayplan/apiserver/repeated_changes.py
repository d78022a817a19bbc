"""Changes that are made to one pod after the other, as when hundreds are evicted or wait for the same: what two of them came to, the next come to as well.

    bytes before = a form, filled in with what is the pod's own (name, uid, node, ...) and with times
    same request, same form, times in the same order  ->  same form afterwards, filled in anew; nothing is decoded, compared, checked or encoded

That holds for changes to which what is the pod's own makes no difference, and as long as nobody is to be asked about them. The same outcome has to come out
twice before it is believed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.api.strategies.pods import NODE_FIELD, NOMINATION_FIELD
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.chain import CREATE, UPDATE
from bayplan.apiserver.admission.service_account import TOKEN_VOLUME
from bayplan.apiserver.authorization.node import NODES
from bayplan.apiserver.cache import Prepared, ResourceCache
from bayplan.apiserver.crowds import is_usual_name
from bayplan.apiserver.watching import Entry
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
"""Bytes of a request, and of a pod."""
_MOST_BYTES: Final = 16 << 20
"""Of each table."""
_KEY_BYTES: Final = 500
"""What a key holds besides the request's body."""
_MOST_TRIED: Final = 8
"""Forms of the pods with the same labels, of one request: each is compared with the pod."""
_LEAST_HITS: Final = 0.25
"""Changes that are known among all, from which on it pays to know them."""
_NAME, _UID, _REVISION, _GIVEN, _NODE, _NOMINATION, _VOLUME, _FIRST_TIME = range(8)
"""The slots of a form: texts that are a pod's own. The last ones are for times, in their order."""
_OWN: Final = ((_NAME, b"name"), (_UID, b"uid"), (_NODE, b"nodeName"), (_NOMINATION, b"nominatedNodeName"))
"""What has the text of a slot for its value, where it comes first."""
_MARKS: Final = tuple(b"\0%02d" % slot for slot in range(24))
"""What stands in a form for the text of a slot, between its quotation marks. JSON has no such bytes in it."""
_ANY_REVISION: Final = b',"resourceVersion":"%b"' % _MARKS[_REVISION]
_MARK: Final = re.compile(rb"\0([0-9]{2})")
_SOME_NAME, _SOME_UID, _SOME_NODE, _SOME_TIME = b"\0p", b"\0u", b"\0n", b"\0t"
"""The same in requests. What is said once more in another place is none of it: then it makes another request."""
_SECOND: Final = rb"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_TIME: Final = re.compile(rb'"(%b)"' % _SECOND)
_is_time: Final = re.compile(_SECOND).fullmatch
_VOLUME_PREFIX: Final = TOKEN_VOLUME.encode()
_VOLUME_TEXT: Final = re.compile(rb'"name":"(%b[a-z0-9]{5})"' % _VOLUME_PREFIX)
_NOMINATED: Final = re.compile(rb'"nominatedNodeName":"([a-z0-9.-]+)"')
_TARGET: Final = re.compile(rb'"target":\{(?:"[a-zA-Z]+":"[^"]*",)*"name":"([a-z0-9.-]+)"')
_ESCAPE: Final = b"\\u"
"""With it, a request may say in another way what is a pod's own."""

_NODES: Final = frozenset((NODE_FIELD, NOMINATION_FIELD))
"""Selectable fields that are a pod's own."""

_Key = tuple[object, ...]
_Texts = list[bytes | None]
"""By slot; None for those that are not there, or not known yet."""


class _Wording(NamedTuple):
    """A request without what is a pod's own."""

    body: bytes
    times: list[bytes]
    """Those in the request."""
    given: str
    """The node that the request gives the pod; "" if it gives it none."""


class _Asked(NamedTuple):
    """A request, whatever pod it is about."""

    body: bytes
    operation: str
    content_type: str
    writer: _Key
    labels: _Key
    """Those that the pod gets."""


class _Subject(NamedTuple):
    """A pod, and what is asked for it."""

    entry: Entry
    asked: _Asked
    now: bytes
    times: list[bytes]
    """Those in the request."""
    given: str
    """The node that the request gives the pod; "" if it gives it none."""
    field: str
    """The selectable field that it gives: the pod's node, or its nomination."""

    @property
    def keeps_node(self) -> bool:
        """Whether the pod is given what it has."""
        return self.given == self.entry.fields[self.field]

    @property
    def group(self) -> _Key:
        """What pods must have in common for the same to come out, as far as it is told at a glance."""
        return (self.asked, *self.entry.labels.items())

    @property
    def given_fields(self) -> dict[str, str]:
        """The selectable field as the request gives it to the pod, if it does."""
        return {self.field: self.given} if self.given else {}

    def texts(self) -> _Texts:
        """What is the pod's own, but for its times and its token volume."""
        entry = self.entry
        texts: _Texts = [None] * len(_MARKS)
        texts[_NAME], texts[_UID], texts[_REVISION] = entry.name.encode(), entry.uid.encode(), b"%d" % entry.revision
        texts[_NODE] = entry.fields[NODE_FIELD].encode() or None
        texts[_NOMINATION] = entry.fields[NOMINATION_FIELD].encode() or None
        texts[_GIVEN] = self.given.encode() or None
        return texts


class _Form:
    """Bytes with slots in them."""

    def __init__(self, marked: bytes) -> None:
        *parts, self._end = _MARK.split(marked)
        self._slots = list(map(int, parts[1::2]))
        self._pairs = list(zip(parts[::2], self._slots, strict=True))
        """What stands before a slot, and the slot."""
        self._pieces = [*parts, self._end]

    def matches(self, body: bytes, texts: _Texts) -> bool:
        """Whether bytes are of this form, with the texts that are known; finds the others."""
        at = 0
        for literal, slot in self._pairs:
            if not body.startswith(literal, at):
                return False
            at += len(literal)
            end = body.find(b'"', at)
            text, known = body[at:end], texts[slot]
            if known is None:
                texts[slot] = text
            elif known != text:
                return False
            at = end
        return body[at:] == self._end

    def filled_in(self, texts: _Texts) -> bytes:
        """The bytes with these texts."""
        pieces = self._pieces.copy()
        pieces[1::2] = [texts[slot] or b"" for slot in self._slots]
        return b"".join(pieces)


class _Case(NamedTuple):
    """What a request comes to for pods of one form."""

    key: _Key
    """What tells it apart from the others of its request."""
    before: _Form
    now: int
    """The slot of the time at which it is made."""
    times: list[int]
    """The slots of those in the request."""
    keeps_node: bool
    after: _Form
    fields: dict[str, str]
    """Selectable fields that differ from before, but for the one that is given."""

    def texts(self, subject: _Subject, known: _Texts) -> _Texts | None:
        """The texts of a pod, of which some are known; None if this is not its case."""
        texts = known.copy()
        texts[self.now] = subject.now
        for slot, time in zip(self.times, subject.times, strict=True):
            if texts[slot] not in (None, time):
                return None
            texts[slot] = time
        if not self.before.matches(subject.entry.body, texts) or not _is_volume(texts[_VOLUME]):
            return None
        times = [time for time in texts[_FIRST_TIME:] if time is not None]
        return texts if sorted({*times}) == times and all(map(_is_time, times)) else None


class Change:
    """A change of one pod that is about to be made, and may be one that was made to others."""

    def __init__(
        self, memory: RepeatedChanges, call: Call, subject: _Subject, labels: Mapping[str, str] | None
    ) -> None:
        self._memory = memory
        self._call = call
        self._subject = subject
        self._labels = {**subject.entry.labels, **labels} if labels else subject.entry.labels
        """The pod's from now on."""
        self._known = memory.find(subject)

    @property
    def is_known(self) -> bool:
        """Whether it is known what the change comes to."""
        return self._known is not None

    async def write(self, *, removes: bool = False) -> Entry | None:
        """Make the change, and remove the pod with it if that belongs to it. None if it is not known what it comes to, or somebody else was faster.

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
        case, texts = self._known
        entry, call, objects = self._subject.entry, self._call, self._call.context.objects
        value = call.stored.type_meta + case.after.filled_in(texts)
        if len(value) > objects.max_object_bytes:
            return None  # it may be too large in the form that counts
        fields = {**entry.fields, **case.fields, **self._subject.given_fields}
        prepared = Prepared(self._labels, fields, entry.uid)
        return objects.submit(call.stored, entry, value, prepared, removes=removes)

    def learn(self, after: Entry) -> None:
        """What it came to, the long way, without any warning."""
        before = self._subject.entry
        fields = dict(after.fields.items() - {**before.fields, **self._subject.given_fields}.items())
        if (
            not any(fields.get(one) for one in _NODES)
            and after.labels == self._labels
            and after.revision != before.revision
            and self._call.changed is before
        ):
            self._memory.note(self._subject, after, fields)


class RepeatedChanges:
    """What is known of changes."""

    def __init__(self) -> None:
        self._known: Memo[_Key, list[_Case]] = Memo("write_memo_cases", most_bytes=_MOST_BYTES)
        """By request and the pod's labels: those of an application have the same ones."""
        self._once: Memo[_Key, _Key] = Memo("write_memo_outcomes", most_bytes=_MOST_BYTES)
        """What came out once: outcome by case."""
        self._asked: Memo[_Asked, bool] = Memo("write_memo_requests", most_bytes=_MOST_BYTES)
        """Requests that were seen, whatever they were about."""
        self._wordings: Memo[bytes, _Wording] = Memo("write_memo_skeletons", most_bytes=_MOST_BYTES)
        """By request without a pod's uid; none of those that give it a node."""
        self._hit_rates: dict[str, HitRate] = {}
        """By operation."""
        self._askers: dict[str, tuple[ResourceCache, ...] | None] = {}
        """By operation: objects on which it depends whether anybody is asked; None if somebody is anyway."""

    def change(self, call: Call, operation: str, *, labels: Mapping[str, str] | None = None) -> Change | None:
        """A change of a pod, as it will be when all has been written that was begun; None if it is none of many, or the first.

        operation: the one that admission sees, with the subresource. labels: those that the pod gets, as admission has it, which has been asked.
        """
        request, path = call.request, call.path
        query = request.query
        if call.stored.type is not core_v1.Pod or not _QUERY.issuperset(query) or len(request.body) > _LONGEST:
            return None
        if NODES in request.user.groups or call.context.objects.is_shared:
            return None
        entry = call.entry(path.namespace, path.name)
        if entry is None or len(entry.body) > _LONGEST:
            return None
        body, times, given = self._wording(request.body, entry, operation)
        writer = (request.user_agent, query.get("fieldManager"), query.get("fieldValidation"), request.reads_warnings)
        asked = _Asked(body, operation, request.content_type, writer, tuple(labels.items()) if labels else ())
        if self._asked.get(asked) is None:
            if _ESCAPE not in body:
                self._asked.put(asked, value=True, size=len(body))
            return None
        if not self._is_nobody_asked(call, operation, admitted=labels is not None) or (
            given and not is_usual_name(given)
        ):
            return None
        hit_rate = self._hit_rates.get(operation)
        if hit_rate is None:
            hit_rate = self._hit_rates[operation] = HitRate(_LEAST_HITS)
        if not hit_rate.is_worth_asking():
            return None
        now = rfc3339(call.context.clock.now()).encode()
        field = NODE_FIELD if operation == BINDING else NOMINATION_FIELD
        entry = call.context.objects.newest(call.stored, entry)
        change = Change(self, call, _Subject(entry, asked, now, times, given, field), labels)
        hit_rate.record(hit=change.is_known)
        return change

    def _wording(self, body: bytes, entry: Entry, operation: str) -> _Wording:
        """A request about a pod. Most of those that give no node are the same but for the pod's uid."""
        body = body.replace(b'"uid":"%b"' % entry.uid.encode(), _SOME_UID, 1)
        if operation == BINDING:
            return _worded(body.replace(b'"name":"%b"' % entry.name.encode(), _SOME_NAME, 1), _TARGET)
        wording = self._wordings.get(body)
        if wording is None:
            wording = _worded(body, _NOMINATED)
            if not wording.given:
                self._wordings.put(body, wording, 2 * len(body))
        return wording

    def find(self, subject: _Subject) -> tuple[_Case, _Texts] | None:
        """The case of a pod, and its texts; None if it is not known."""
        cases = self._known.get(subject.group)
        if not cases:
            return None
        keeps_node, known = subject.keeps_node, subject.texts()
        for case in cases:
            if case.keeps_node == keeps_node and (texts := case.texts(subject, known)) is not None:
                return case, texts
        return None

    def note(self, subject: _Subject, after: Entry, fields: dict[str, str]) -> None:
        """What a change came to. It is known when the same came out before."""
        times = sorted({subject.now, *subject.times, *_TIME.findall(subject.entry.body)})
        texts = subject.texts()
        volume = _VOLUME_TEXT.search(subject.entry.body)
        texts[_VOLUME] = volume[1] if volume is not None else None
        texts[_FIRST_TIME:] = times
        before, later = _marked(subject, subject.entry, texts), _marked(subject, after, texts)
        if len(texts) > len(_MARKS) or b'"deletionTimestamp"' in before or _TIME.search(later):
            return  # a time in what it came to was worked out from others
        slots = [_FIRST_TIME + times.index(time) for time in (subject.now, *subject.times)]
        key = (subject.asked, _digest(before), tuple(slots), subject.keeps_node)
        outcome = (_digest(later), tuple(sorted(fields.items())))
        if self._once.get(key) != outcome:
            self._once.put(key, outcome, _KEY_BYTES + len(subject.asked.body))
            return
        after_form = _Form(later.replace(_ANY_REVISION, b"", 1))
        case = _Case(key, _Form(before), slots[0], slots[1:], subject.keeps_node, after_form, fields)
        others = [one for one in self._known.get(subject.group) or () if one.key != key]  # found by several at a time
        cases = [case, *others[: _MOST_TRIED - 1]]
        self._known.put(subject.group, cases, len(cases) * (len(before) + len(later) + _KEY_BYTES))

    def _is_nobody_asked(self, call: Call, operation: str, *, admitted: bool) -> bool:
        """Whether users have nobody asked about such a change, nor has any other plugin something to say (or it has said it)."""
        if operation not in self._askers:
            self._askers[operation] = _askers(call, operation, admitted=admitted)
        askers = self._askers[operation]
        return askers is not None and sum([cache.count for cache in askers]) == 0


def _digest(text: bytes) -> bytes:
    """Stands for a text of some kilobytes that is kept only to be compared: most outcomes come once."""
    return hashlib.blake2b(text, digest_size=16).digest()


def _askers(call: Call, operation: str, *, admitted: bool) -> tuple[ResourceCache, ...] | None:
    context = call.context
    verb, _, subresource = operation.partition("/")
    plugins = context.admission.plan(call.stored, verb, subresource).plugins
    if context.allocators.serves(call.stored) or not (
        admitted or all(plugin.idle_without or plugin.is_about_nodes for plugin in plugins)
    ):
        return None
    kinds = {context.kinds.of_kind(*one) for plugin in plugins for one in plugin.idle_without}
    return tuple(context.objects.cache(kind) for kind in kinds if kind is not None)


def _worded(body: bytes, giving: re.Pattern[bytes]) -> _Wording:
    """giving: finds the node that is given."""
    given = giving.search(body)
    if given is not None:
        body = body[: given.start(1)] + _SOME_NODE + body[given.end(1) :]
    times = _TIME.findall(body)
    if times:
        body = _TIME.sub(_SOME_TIME, body)
    return _Wording(body, times, given[1].decode() if given is not None else "")


def _is_volume(text: bytes | None) -> bool:
    return text is None or (len(text) == len(_VOLUME_PREFIX) + 5 and text.startswith(_VOLUME_PREFIX))


def _marked(subject: _Subject, entry: Entry, texts: _Texts) -> bytes:
    """A pod's bytes, before or after, with marks in place of texts."""
    body = entry.body.replace(b',"resourceVersion":"%d"' % entry.revision, _ANY_REVISION, 1)
    given = (_GIVEN, b"nodeName" if subject.field == NODE_FIELD else b"nominatedNodeName")
    for slot, member in (given, *_OWN):
        if (text := texts[slot]) is not None:
            body = body.replace(b'"%b":"%b"' % (member, text), b'"%b":"%b"' % (member, _MARKS[slot]), 1)
    for text, mark in zip(texts[_VOLUME:], _MARKS[_VOLUME:], strict=False):
        if text is not None:
            body = body.replace(b'"%b"' % text, b'"%b"' % mark)
    return body
