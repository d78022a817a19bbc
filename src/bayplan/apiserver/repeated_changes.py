"""Changes that are made to one pod after the other, as when hundreds are evicted or wait for the same: what two of them came to, the next come to as well.

    bytes before = a form, filled in with what is the pod's own (name, uid, node, ...) and with times
    same request, same form, times in the same order  ->  same form afterwards, filled in anew; nothing is decoded, compared, checked or encoded

That holds for changes to which what is the pod's own makes no difference, and as long as nobody is to be asked about them. The same outcome has to come out
twice before it is believed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.api.strategies.pods import NODE_FIELD, NOMINATION_FIELD
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.service_account import TOKEN_VOLUME
from bayplan.apiserver.cache import Prepared, ResourceCache
from bayplan.apiserver.crowds import is_usual_name
from bayplan.apiserver.watching import Entry
from bayplan.store.errors import Conflict
from bayplan.support.timestamps import rfc3339

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call

_QUERY: Final = frozenset(("fieldManager", "fieldValidation"))
_LONGEST: Final = 8192
"""Bytes of a request, and of a pod."""
_MOST: Final = 1024
_UID, _VOLUME, _NODE, _NOMINATION, _GIVEN, _SOME_TIME = (b"\0%d" % number for number in range(6))
"""What stands in a form for what is a pod's own. JSON has no such bytes in it."""
_TIMES: Final = tuple(b"\0t%02d" % number for number in range(16))
"""The same for times, in their order."""
_TIME: Final = re.compile(rb'"(20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"')
_VOLUME_BEGIN: Final = b'"name":"%b' % TOKEN_VOLUME.encode()
_VOLUME_LENGTH: Final = len(TOKEN_VOLUME) + 5
_NOMINATED: Final = re.compile(rb'"nominatedNodeName":"([a-z0-9.-]+)"')
_ESCAPE: Final = b"\\u"
"""With it, a request may say in another way what is a pod's own."""

_Key = tuple[object, ...]
_Texts = list[tuple[bytes, bytes]]
"""Texts of one pod and what stands for them, in the order in which they are looked for."""


class _Outcome(NamedTuple):
    """What a change comes to, for all pods of one form."""

    form: bytes
    fields: dict[str, str]
    """Selectable fields that differ from before, but for the nomination."""


class Change:
    """A change of one pod that is about to be made, and may be one that was made to others."""

    def __init__(
        self, memory: RepeatedChanges, call: Call, entry: Entry, key: _Key, own: _Texts, nomination: dict[str, str]
    ) -> None:
        self._memory = memory
        self._call = call
        self._entry = entry
        self._key = key
        self._own = own
        self._nomination = nomination
        """Its selectable field that the request gives it, if it gives it one."""
        self._outcome = memory.known.get(key)

    @property
    def is_known(self) -> bool:
        """Whether it is known what it comes to."""
        return self._outcome is not None

    async def write(self) -> Entry | None:
        """Make the change, whose outcome is known. None if somebody else was faster. Raises ApiError."""
        assert self._outcome is not None
        entry, outcome, call = self._entry, self._outcome, self._call
        body = outcome.form
        for text, mark in self._own:
            body = body.replace(mark, text)
        value = b'%b"metadata":{"name":"%b"%b' % (call.stored.type_meta, entry.name.encode(), body)
        prepared = Prepared(entry.labels, {**entry.fields, **outcome.fields, **self._nomination}, entry.uid)
        objects = call.context.objects
        try:
            return await objects.replace_prepared(call.stored, entry, value, prepared)
        except Conflict as race:
            await objects.settle(race)
            return None

    def learn(self, after: Entry) -> None:
        """What it came to, the long way, without any warning."""
        before = self._entry
        fields = dict(after.fields.items() - {**before.fields, **self._nomination}.items())
        form = _form(after, self._own)
        if (
            form is not None
            and not _TIME.search(form)  # one that was worked out from others
            and NOMINATION_FIELD not in fields
            and after.labels == before.labels
            and after.revision != before.revision
            and self._call.changed is before
        ):
            self._memory.note(self._key, _Outcome(form, fields))


class RepeatedChanges:
    """What is known of changes."""

    def __init__(self) -> None:
        self.known: dict[_Key, _Outcome] = {}
        self._once: dict[_Key, _Outcome] = {}
        """What came out once."""
        self._asked: set[_Key] = set()
        """Requests that were seen, whatever they were about."""
        self._askers: dict[str, tuple[ResourceCache, ...] | None] = {}
        """By operation: objects on which it depends whether anybody is asked; None if somebody is anyway."""

    def change(self, call: Call, operation: str, entry: Entry) -> Change | None:
        """A change of a pod that may be one of many; None if it is none, or the first. operation: the one that admission sees, with the subresource."""
        request = call.request
        if (
            call.stored.type is not core_v1.Pod
            or len(request.body) > _LONGEST
            or len(entry.body) > _LONGEST
            or not _QUERY.issuperset(request.query)
        ):
            return None
        body = request.body.replace(b'"uid":"%b"' % entry.uid.encode(), _UID)
        given = _NOMINATED.search(body)
        if given is not None:
            body = body.replace(given[0], _GIVEN)
        times = _TIME.findall(body)
        for time in times:
            body = body.replace(time, _SOME_TIME)
        query = request.query
        writer = (request.user_agent, query.get("fieldManager"), query.get("fieldValidation"), request.reads_warnings)
        asked = (operation, request.content_type, writer, body)
        if asked not in self._asked:
            if _ESCAPE not in body:
                _make_room(self._asked)
                self._asked.add(asked)
            return None
        if not self._is_nobody_asked(call, operation):
            return None
        return self._about(call, entry, asked, times, given[1].decode() if given is not None else "")

    def _about(self, call: Call, entry: Entry, asked: _Key, given_times: list[bytes], given: str) -> Change | None:
        """The change that is asked for, of this pod. given: its nomination from now on, if the request says so."""
        now = rfc3339(call.context.clock.now()).encode()
        times = sorted({now, *given_times, *_TIME.findall(entry.body)})
        if len(times) > len(_TIMES) or (given and not is_usual_name(given)):
            return None
        own = [*_own(entry), *zip(times, _TIMES, strict=False)]
        before = _form(entry, own)
        if before is None or b'"deletionTimestamp"' in before:
            return None
        order = (times.index(now), *map(times.index, given_times))
        if not given:
            return Change(self, call, entry, (asked, before, order), own, {})
        own.insert(0, (b'"nominatedNodeName":"%b"' % given.encode(), _GIVEN))
        stays = given == entry.fields.get(NOMINATION_FIELD)
        return Change(self, call, entry, (asked, before, order, stays), own, {NOMINATION_FIELD: given})

    def note(self, key: _Key, outcome: _Outcome) -> None:
        """What a change came to. It is known when the same came out before."""
        kept = self.known if self._once.get(key) == outcome else self._once
        _make_room(kept)
        kept[key] = outcome

    def _is_nobody_asked(self, call: Call, operation: str) -> bool:
        """Whether no admission plugin has anything to say about such a change."""
        if operation not in self._askers:
            self._askers[operation] = _askers(call, operation)
        askers = self._askers[operation]
        return askers is not None and sum([cache.count for cache in askers]) == 0


def _askers(call: Call, operation: str) -> tuple[ResourceCache, ...] | None:
    context = call.context
    verb, _, subresource = operation.partition("/")
    plugins = context.admission.plan(call.stored, verb, subresource).plugins
    if not all(plugin.idle_without for plugin in plugins) or context.allocators.serves(call.stored):
        return None
    kinds = {context.kinds.of_kind(*one) for plugin in plugins for one in plugin.idle_without}
    return tuple(context.objects.cache(kind) for kind in kinds if kind is not None)


def _make_room(kept: dict[_Key, _Outcome] | set[_Key]) -> None:
    if len(kept) >= _MOST:
        kept.clear()


def _own(entry: Entry) -> _Texts:
    """Texts that are a pod's own, but for its name and times."""
    body, fields = entry.body, entry.fields
    own = [(b'"uid":"%b"' % entry.uid.encode(), _UID)]
    at = body.find(_VOLUME_BEGIN)
    if at >= 0:
        begin = at + len(b'"name":"')
        own.append((body[begin : begin + _VOLUME_LENGTH], _VOLUME))
    if node := fields.get(NODE_FIELD):
        own.append((b'"nodeName":"%b"' % node.encode(), _NODE))
    if nomination := fields.get(NOMINATION_FIELD):
        own.append((b'"nominatedNodeName":"%b"' % nomination.encode(), _NOMINATION))
    return own


def _form(entry: Entry, own: _Texts) -> bytes | None:
    """A pod's bytes behind its name, without its revision and what is its own; None if they look unusual."""
    begin = b'"metadata":{"name":"%b"' % entry.name.encode()
    revision = b',"resourceVersion":"%d"' % entry.revision
    form = entry.body
    if not form.startswith(begin) or revision not in form:
        return None
    form = form[len(begin) :].replace(revision, b"", 1)
    for text, mark in own:
        form = form.replace(text, mark)
    return form
