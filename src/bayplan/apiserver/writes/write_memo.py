"""The fast path for changes that are made to one pod after the other, as when hundreds are bound, evicted or wait for the same; and to pod groups.

    bytes before = a skeleton, filled in with slot values: the pod's own name, uid, node, pod group, ... and its times
    same request, same skeleton, times in the same order  ->  the skeleton afterwards, filled in anew; nothing is decoded, compared, checked or encoded

It serves changes whose outcome does not depend on slot values, as long as admission lets them pass without a look at the pod: that is observed
(`admission.idle`). An entry is believed when the slow path gave the same outcome twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bayplan.api.optional_kinds import POD_GROUP
from bayplan.api.strategies.core.pods import NODE_FIELD, NOMINATION_FIELD
from bayplan.api.types import core_v1
from bayplan.api.validation.values.formats import label_value
from bayplan.apiserver.admission.chain import CREATE, UPDATE
from bayplan.apiserver.reads.cache import Prepared
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.writes.body_texts import is_valid_name
from bayplan.apiserver.writes.change_skeletons import (
    ESCAPE,
    MOST_LABELS,
    NODE_FIELDS,
    Key,
    MemoEntry,
    PodParts,
    RequestKey,
    RequestSkeleton,
    SlotValues,
    Subject,
    binding_skeleton,
    change_skeleton,
    outcome_of,
    without_uid,
)
from bayplan.store.errors import Conflict
from bayplan.support.memory.hit_rate import HitRate
from bayplan.support.memory.memo import Memo
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
_MOST_TRIED: Final = (8, 2)
"""Entries of one request and equal labels, and of one request and equal keys of labels: each is compared with the pod."""
_LEAST_HITS: Final = 0.25
"""Share of changes that hit an entry, below which looking for one costs more than it saves."""
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class Change:
    """A change of one pod, which may have an entry in the memo."""

    def __init__(self, memo: WriteMemo, call: Call, subject: Subject) -> None:
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
        value = call.stored.type_meta + self._subject.parts.completed(memo_entry.after.filled_in(slot_values))
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
            not any(fields.get(one) for one in NODE_FIELDS)
            and after.labels == self._labels
            and after.revision != before.revision
            and self._call.changed is before
        ):
            self._memo.note(self._subject, after, fields)


class WriteMemo:
    """The outcomes of changes to pods."""

    def __init__(self) -> None:
        self._known: Memo[Key, list[MemoEntry]] = Memo("write_memo_cases", most_bytes=_MOST_BYTES)
        """Entries by request and the pod's labels."""
        self._once: Memo[Key, Key] = Memo("write_memo_outcomes", most_bytes=_MOST_BYTES)
        """Outcomes that came once, by identity of the entry."""
        self._seen: Memo[RequestKey, bool] = Memo("write_memo_requests", most_bytes=_MOST_BYTES)
        """Requests that came at least once, for whatever pod."""
        self._skeletons: Memo[bytes, RequestSkeleton] = Memo("write_memo_skeletons", most_bytes=_MOST_BYTES)
        """Skeletons by request without the pod's uid; none of requests that set a node."""
        self._hit_rates: dict[tuple[str, ...], HitRate] = {}
        """By kind and operation."""

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
        request_key = RequestKey(call.stored.kind, body, operation, request.content_type, writer, tuple(labels))
        if self._seen.get(request_key) is None:
            if ESCAPE not in body:
                self._seen.put(request_key, value=True, size=len(body))
            return None
        if not _are_slots(given, labels) or (
            operation != BINDING and not call.context.idle_admission.lets_pass(call, *_verb_of(operation))
        ):
            return None
        hit_rate = self._hit_rate(call.stored.kind, operation)
        if not hit_rate.is_worth_asking():
            return None
        now = rfc3339(call.context.clock.now()).encode()
        field = NODE_FIELD if operation == BINDING else NOMINATION_FIELD
        entry = call.context.objects.newest(call.stored, entry)
        parts = PodParts.of_bound(entry.body) if operation == BINDING else PodParts(entry.body)
        change = Change(self, call, Subject(entry, parts, request_key, now, times, given, field, labels))
        hit_rate.record(hit=change.is_known)
        return change

    def _skeleton(self, body: bytes, entry: Entry, operation: str) -> RequestSkeleton:
        """The skeleton of a request. Most requests that set no node differ only in the pod's uid."""
        body = without_uid(body, entry)
        if operation == BINDING:
            return binding_skeleton(body, entry)
        skeleton = self._skeletons.get(body)
        if skeleton is None:
            skeleton = change_skeleton(body)
            if not skeleton.given:
                self._skeletons.put(body, skeleton, 2 * len(body))
        return skeleton

    def find(self, subject: Subject) -> tuple[MemoEntry, SlotValues] | None:
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

    def note(self, subject: Subject, after: Entry, fields: dict[str, str]) -> None:
        """Record an outcome. It becomes an entry when the same outcome came before."""
        outcome = outcome_of(subject, after, fields)
        if outcome is None:
            return
        if self._once.get(outcome.key) != outcome.digests:
            self._once.put(outcome.key, outcome.digests, _KEY_BYTES + len(subject.request_key.body))
            return
        memo_entry = outcome.entry(subject)
        for alike, most in zip(subject.groups, _MOST_TRIED, strict=True):
            others = [
                one for one in self._known.get(alike) or () if one.key != outcome.key
            ]  # found by several at a time
            memo_entries = [memo_entry, *others[: most - 1]]
            self._known.put(alike, memo_entries, len(memo_entries) * outcome.size)

    def _hit_rate(self, *kind_and_operation: str) -> HitRate:
        hit_rate = self._hit_rates.get(kind_and_operation)
        if hit_rate is None:
            hit_rate = self._hit_rates[kind_and_operation] = HitRate(_LEAST_HITS)
        return hit_rate


def _verb_of(operation: str) -> tuple[str, str]:
    """An operation of admission and the subresource."""
    verb, _, subresource = operation.partition("/")
    return verb, subresource


def _are_slots(given: str, labels: Mapping[str, str]) -> bool:
    """Whether what a request gives a pod, a node and labels, can stand in a skeleton as it is."""
    if given and not is_valid_name(given):
        return False
    return len(labels) <= MOST_LABELS and not any(label_value(value) for value in labels.values())


def _is_served(call: Call) -> bool:
    """Whether a request is about an object of a kind whose changes are alike, in the version that is stored."""
    return call.kind is call.stored and (call.stored.type is core_v1.Pod or call.stored is POD_GROUP)
