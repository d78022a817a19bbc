"""The fast path for creates of objects from one template: pods of a ReplicaSet, events of a component, what a load test or a controller makes over and over.

Their bodies are equal byte for byte but for the name and some other texts that decide nothing but themselves (`body_texts`). So is everything that follows from
the body alone: defaults, managed fields, what mutating admission adds. What else mutating admission depends on is observed (`admission.observation`), and the
template is valid as long as that is the same:

    same skeleton and fixed texts, reads hold -> the template's bytes with the object's own texts, uid, times -> rules, validating admission -> the store

A body becomes a template when another one like it has come before, if the slow path gave no warning for it. Then the object is made once more from a body with
stand-ins for all open texts, by a server whose clock and randomness give stand-ins: where these are in the result, there are the slots. That has to explain the
object that the slow path made. Open texts that a plugin looks at are fixed from then on.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bayplan.api.codec import decoder
from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.observation import Reads
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.writes.body_texts import STAND_IN, BodyTexts, OpenTexts, open_texts_of, stand_ins, texts_of
from bayplan.apiserver.writes.shared_parts import Copy, OpaqueError, copy_of
from bayplan.support.memory.hit_rate import HitRate
from bayplan.support.memory.memo import Memo
from bayplan.support.timestamps import rfc3339

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call, Context
    from bayplan.apiserver.requests import User

_QUERY: Final = frozenset(("fieldManager", "fieldValidation"))
_LONGEST_BODY: Final = 8192
_TEMPLATES_BYTES: Final = 16 << 20
_SKELETONS_BYTES: Final = 4 << 20
_SEEN_BYTES: Final = 1 << 20
_LEAST_HITS: Final = 0.2
"""Share of creates that hit a template, below which looking for one costs more than it saves."""
_DECODED: Final = 32
"""Objects of a template that are decoded. To find out what the next ones share costs as much as to decode so many."""
_MOST_PASSES: Final = 4
"""How often an object is made with stand-ins until no plugin looks at one."""
_END: Final = b'"'
"""What ends a text."""
_FORMAT: Final = re.compile(rb"(%%|%b)")


class RequestKey(NamedTuple):
    """What of a request decides its outcome, besides the body."""

    resource: str
    """The storage prefix of the kind."""
    namespace: str
    user_agent: str
    manager: str
    validation: str


class StandIns(NamedTuple):
    """An object that was made with stand-ins, while it was observed what decides."""

    value: bytes
    """As it would be stored; b"" if what decides cannot be compared."""
    reads: Reads
    """What was read of the server."""
    time: str
    """What stands for the time of the request."""
    texts_read: Collection[int]
    """Which open texts were looked at; -1 for a name that is not in the body."""


class Template:
    """What the objects of one template have in common."""

    __slots__ = ("_copy", "_draws", "_form", "_kind", "_marks", "_slots", "_to_decode", "_value", "reads", "size")

    def __init__(self, kind: Kind, made: StandIns, open_texts: OpenTexts, size: int) -> None:
        """size: bytes of the body."""
        self._kind = weakref.ref(kind)
        self.reads = made.reads
        self._draws = tuple([length for _, length in made.reads.drawn])
        drawn = [text.encode() for text, _ in made.reads.drawn]
        slots = {mark: at for at, mark in enumerate((made.time.encode(), *drawn, *stand_ins(open_texts).values()))}
        finds = re.compile(b"|".join((STAND_IN, *drawn)))
        found: list[int] = []

        def slot_of(match: re.Match[bytes]) -> bytes:
            slot = slots.get(match[0])
            if slot is None:
                return match[0]
            found.append(slot)
            return b"%b"

        self._form = finds.sub(slot_of, made.value.replace(b"%", b"%%"))
        self._slots = tuple(found)
        self._to_decode = 0 if kind.is_custom else _DECODED
        """Objects until it is found out what the objects share; 0 if it has been, or nothing is."""
        self._value, self._marks = (made.value, slots) if self._to_decode else (b"", {})
        """The object with stand-ins, and their slots, until then."""
        self._copy: Copy | None = None
        self.size = size + 3 * len(made.value)
        """Bytes, about."""

    def is_of(self, kind: Kind) -> bool:
        """Whether it is one of this very kind: definitions of custom resources change."""
        return self._kind() is kind

    def explains(self, value: bytes, texts: Sequence[bytes]) -> bool:
        """Whether an object that the slow path made of a body with these open texts is one that the template makes."""
        own: dict[int, bytes] = {1 + len(self._draws) + number: text for number, text in enumerate(texts)}
        at, slots, slot = 0, iter(self._slots), -1
        for literal in self._literals():
            if slot >= 0:
                end = at + len(own[slot]) if slot in own else value.find(literal or _END, at)
                if end < at or own.setdefault(slot, value[at:end]) != value[at:end]:
                    return False
                at = end
            if value[at : at + len(literal)] != literal:
                return False
            at += len(literal)
            slot = next(slots, -1)
        return at == len(value)

    def _literals(self) -> list[bytes]:
        """What stands between the slots."""
        literals = [b""]
        for part in _FORMAT.split(self._form):
            if part == b"%b":
                literals.append(b"")
            else:
                literals[-1] += b"%" if part == b"%%" else part
        return literals

    def instance(self, cls: type[Any], context: Context, texts: Sequence[bytes]) -> Instance:
        """One more object, of a type. texts: the open ones. Raises DecodeError, UnicodeDecodeError if these cannot be in an object."""
        randomness = context.randomness
        drawn = [randomness.suffix(length) if length else randomness.uuid4() for length in self._draws]
        made = [rfc3339(context.clock.now()), *drawn]
        encoded = [*[text.encode() for text in made], *texts]
        value = self._form % tuple([encoded[slot] for slot in self._slots])
        if self._copy is not None:
            return Instance(self._copy([*made, *[text.decode() for text in texts]]), value)
        if self._to_decode:
            self._to_decode -= 1
            if not self._to_decode:
                self._copy = _copy_of(cls, self._value, {mark.decode(): at for mark, at in self._marks.items()})
                self._value, self._marks = b"", {}
        return Instance(decoder(cls)(value), value)


class Instance(NamedTuple):
    """An object made from a template, and the bytes to store."""

    obj: Any
    value: bytes


class Match(NamedTuple):
    """A body that is one of a template."""

    template: Template
    texts: list[bytes]
    """The open ones."""
    has_name: bool
    """Whether they have the name; one is generated if they have not."""


MakeWithStandIns = Callable[[bytes, OpenTexts], StandIns | None]
"""Makes an object of a body with stand-ins; None if it cannot be made so."""


class CreateTemplates:
    """All templates of an API server."""

    def __init__(self) -> None:
        self._skeletons: Memo[tuple[RequestKey, tuple[bytes, bytes]], OpenTexts] = Memo(
            "create_skeletons", most_bytes=_SKELETONS_BYTES
        )
        self._templates: Memo[tuple[OpenTexts, tuple[bytes, ...]], Template] = Memo(
            "create_templates", most_bytes=_TEMPLATES_BYTES
        )
        """Templates by skeleton and fixed texts."""
        self._seen: Memo[int, bool] = Memo("create_bodies_seen", most_bytes=_SEEN_BYTES)
        """What came once: hashes of skeletons, and of skeletons with fixed texts."""
        self._hit_rates: dict[str, HitRate] = {}
        """By kind."""

    def request_key(self, call: Call) -> RequestKey | None:
        """The key of a request, if it may be one of a template; None if it takes the slow path."""
        request, kind = call.request, call.stored
        if (
            len(request.body) > _LONGEST_BODY
            or request.content_type.partition(";")[0] != "application/json"
            or not _QUERY.issuperset(request.query)
            or call.kind is not kind
            or kind.asks_webhook
            or _depends_on_more(call)
            or not self._hit_rate(kind.storage_prefix).is_worth_asking()
        ):
            return None
        return RequestKey(
            kind.storage_prefix,
            call.path.namespace,
            request.user_agent,
            request.query.get("fieldManager", ""),
            request.query.get("fieldValidation", ""),
        )

    def _hit_rate(self, resource: str) -> HitRate:
        found = self._hit_rates.get(resource)
        if found is None:
            found = self._hit_rates[resource] = HitRate(_LEAST_HITS)
        return found

    def find(self, request_key: RequestKey, call: Call) -> Match | None:
        """The template of a body; None if there is none, or what it says does not hold any more, or not for this body or user."""
        found = self._found(request_key, texts_of(call.request.body), call.request.user, call.stored)
        self._hit_rates[request_key.resource].record(hit=found is not None)
        return found

    def _found(self, request_key: RequestKey, parts: BodyTexts, user: User, kind: Kind) -> Match | None:
        open_texts = self._skeletons.get((request_key, parts.skeleton))
        if open_texts is None:
            return None
        texts = parts.texts
        template = self._templates.get((open_texts, tuple([texts[at] for at in open_texts.fixed])))
        if (
            template is None
            or not template.is_of(kind)
            or not open_texts.are_valid(texts)
            or not template.reads.hold(user)
        ):
            return None
        return Match(template, [texts[one.text] for one in open_texts.open], open_texts.has_name)

    def note(self, call: Call, request_key: RequestKey, entry: Entry, make: MakeWithStandIns) -> None:
        """Learn from an object that was made without any warning, when there was one like it before. Of several that were made at a time one is enough."""
        kind, body = call.stored, call.request.body
        parts = texts_of(body)
        if self._found(request_key, parts, call.request.user, kind) is not None:
            return
        open_texts = self._skeletons.get((request_key, parts.skeleton))
        is_new = open_texts is None
        if open_texts is None:
            if self._came_before(hash((request_key, parts.skeleton))):
                open_texts = open_texts_of(parts, kind.type)
            if open_texts is None:
                return
            self._put_skeleton(request_key, parts, open_texts)
        fixed = tuple([parts.texts[at] for at in open_texts.fixed])
        came_before = self._came_before(hash((open_texts, fixed)))
        if not ((came_before or is_new) and open_texts.are_valid(parts.texts)):
            return
        known = open_texts
        for _ in range(_MOST_PASSES):
            made = make(parts.with_texts(stand_ins(open_texts)), open_texts)
            if made is None or -1 in made.texts_read:
                return
            if not made.texts_read:
                break
            open_texts = open_texts.without(made.texts_read)
        else:
            return
        if open_texts is not known:
            self._put_skeleton(request_key, parts, open_texts)
            fixed = tuple([parts.texts[at] for at in open_texts.fixed])
        if not made.value:
            return
        template = Template(kind, made, open_texts, len(body))
        if template.explains(_stored(kind, entry), [parts.texts[one.text] for one in open_texts.open]):
            self._templates.put((open_texts, fixed), template, template.size)

    def _put_skeleton(self, request_key: RequestKey, parts: BodyTexts, open_texts: OpenTexts) -> None:
        size = sum(map(len, parts.skeleton)) + 100 * len(parts.texts)
        self._skeletons.put((request_key, parts.skeleton), open_texts, size)

    def _came_before(self, seen: int) -> bool:
        if self._seen.get(seen) is not None:
            return True
        self._seen.put(seen, value=True, size=0)
        return False


def _copy_of(cls: type[Any], value: bytes, slots: dict[str, int]) -> Copy | None:
    """What makes objects of the texts in the slots and of parts that they share; None if they have to be decoded."""
    try:
        return copy_of(decoder(cls)(value), slots)
    except OpaqueError:
        return None


def _stored(kind: Kind, entry: Entry) -> bytes:
    """The bytes of which an entry was made."""
    return kind.type_meta + entry.body.replace(b',"resourceVersion":"%d"' % entry.revision, b"", 1)


def _depends_on_more(call: Call) -> bool:
    """Whether a new object depends on more than its body and what admission looks at: what the server gives out, or who asks."""
    kind = call.stored
    return call.context.allocators.serves(kind) or (kind.kind == "CertificateSigningRequest" and not kind.is_custom)


def follows_rules(obj: Any) -> bool:
    """Whether an object breaks no rule if one of before did not that differs from it in open texts alone. Only pods are known well enough to say so."""
    if type(obj) is not core_v1.Pod:
        return False
    spec = obj.spec
    return not (spec.node_name or any(volume.ephemeral is not None for volume in spec.volumes))
