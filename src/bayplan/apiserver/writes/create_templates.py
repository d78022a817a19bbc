"""The fast path for creates of pods from one template, as those of a ReplicaSet, an indexed Job or a load test.

Their bodies are equal byte for byte but for the name and some other texts that decide nothing but themselves (`body_texts`). So is everything that follows from
the body alone: defaults, managed fields, what mutating admission adds, that no rule is broken. What else mutating admission depends on is observed
(`admission.observation`), and the template is valid as long as that is the same:

    same skeleton and fixed texts, reads hold -> a copy with its own texts, uid, times and token volume -> validating admission -> the store

A body becomes a template when another one like it has come before, if the slow path gave no warning for it, and the observed plugins made of it what they
made of it unobserved. Open texts that a plugin looks at are fixed from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from bayplan.api.codec import encode
from bayplan.api.kinds import Kind
from bayplan.api.strategies.core.pod_forms import token_volume
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.observation import Reads
from bayplan.apiserver.admission.service_account import TOKEN_VOLUME
from bayplan.apiserver.reads.cache import stored_value
from bayplan.apiserver.writes.body_texts import BodyTexts, OpenTexts, open_texts_of, texts_of
from bayplan.apiserver.writes.generated_names import generated_name
from bayplan.support.hit_rate import HitRate
from bayplan.support.memo import Memo
from bayplan.support.timestamps import rfc3339

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call, Context
    from bayplan.apiserver.requests import User

_replace = msgspec.structs.replace
_QUERY: Final = frozenset(("fieldManager", "fieldValidation"))
_LONGEST_BODY: Final = 8192
_TEMPLATES_BYTES: Final = 16 << 20
_SKELETONS_BYTES: Final = 4 << 20
_SEEN_BYTES: Final = 1 << 20
_LEAST_HITS: Final = 0.2
"""Share of creates that hit a template, below which looking for one costs more than it saves."""
_PLACEHOLDERS: Final = tuple(f"~~bayplan-{slot}~~" for slot in ("name", "uid", "time", "volume"))
"""Placeholders for what the server gives each instance."""
_TEXT_PLACEHOLDER: Final = "~~bayplan-text-%d~~"
"""That of an open text."""
_PLACEHOLDER: Final = re.compile(rb"~~bayplan-[a-z]+(?:-[0-9]+)?~~")


class RequestKey(NamedTuple):
    """What of a request decides its outcome, besides the body."""

    namespace: str
    user_agent: str
    manager: str
    validation: str


class Instance(NamedTuple):
    """A pod made from a template, as an object and as the bytes to store."""

    pod: core_v1.Pod
    value: bytes


class Template:
    """What the pods of one template have in common."""

    def __init__(self, kind: Kind, pod: core_v1.Pod, reads: Reads, open_texts: OpenTexts, size: int) -> None:
        """reads: what decided, besides the body. size: bytes of the body."""
        self.reads = reads
        self._open = open_texts
        self._base = pod.metadata.generate_name
        self._volume = token_volume(pod.spec)
        self._pod = _replace(pod, metadata=_replace(pod.metadata, resource_version=""))
        texts = [_TEXT_PLACEHOLDER % number for number in range(len(open_texts.open))]
        places = {placeholder.encode(): at for at, placeholder in enumerate((*_PLACEHOLDERS, *texts))}
        data = stored_value(kind, self._of(_PLACEHOLDERS, texts))
        self._slots = tuple([places[placeholder] for placeholder in _PLACEHOLDER.findall(data)])
        self._form = _PLACEHOLDER.sub(b"%b", data.replace(b"%", b"%%"))
        self.size = size + 5 * len(data)
        """Bytes, about: an object takes some times as much as its JSON."""

    def is_like(self, other: Template) -> bool:
        """Whether both make equal pods."""
        return self._form == other._form and self._slots == other._slots

    def _of(self, own: Sequence[str], texts: Sequence[str]) -> core_v1.Pod:
        """own: as in `_PLACEHOLDERS`. texts: the open ones."""
        pod, texts_left = self._pod, iter(texts)
        name, uid, time, volume = own
        open_texts = self._open
        metadata = _replace(
            pod.metadata,
            name=name,
            uid=uid,
            creation_timestamp=time,
            managed_fields=tuple([_replace(one, time=time) for one in pod.metadata.managed_fields]),
        )
        if open_texts.labels:
            metadata.labels = metadata.labels | {key: next(texts_left) for key, _ in open_texts.labels}
        if open_texts.annotations:
            metadata.annotations = metadata.annotations | {key: next(texts_left) for key, _ in open_texts.annotations}
        spec = _with_volume(pod.spec, self._volume, volume) if self._volume else _replace(pod.spec)
        for variable in open_texts.variables:
            containers = list(getattr(spec, variable.attribute))
            container = containers[variable.container]
            env = list(container.env)
            env[variable.position] = _replace(env[variable.position], value=next(texts_left))
            containers[variable.container] = _replace(container, env=tuple(env))
            setattr(spec, variable.attribute, tuple(containers))
        if open_texts.claims:
            spec.volumes = _with_claims(spec.volumes, [(at, next(texts_left)) for at, _ in open_texts.claims])
        if open_texts.group >= 0 and spec.scheduling_group is not None:
            spec.scheduling_group = _replace(spec.scheduling_group, pod_group_name=next(texts_left))
        return _replace(pod, metadata=metadata, spec=spec)

    def instance(self, context: Context, name: str, texts: Sequence[bytes]) -> Instance:
        """One more pod. name: "" to generate one. texts: the open ones."""
        randomness = context.randomness
        volume = TOKEN_VOLUME + randomness.suffix(5) if self._volume else ""
        name = name or generated_name(randomness, self._base)
        own = (name, randomness.uuid4(), rfc3339(context.clock.now()), volume)
        encoded = [*[text.encode() for text in own], *texts]
        pod = self._of(own, [text.decode() for text in texts])
        return Instance(pod, self._form % tuple([encoded[slot] for slot in self._slots]))


class ObservedPod(NamedTuple):
    """A pod that was made of a body while it was observed what decides."""

    pod: core_v1.Pod
    reads: Reads
    """What was read of the server."""
    texts_read: Collection[int]
    """Which open texts were looked at."""


Observe = Callable[[OpenTexts], ObservedPod | None]
"""Makes a pod once more; None if what decides cannot be compared."""


class Match(NamedTuple):
    """A body that is one of a template."""

    template: Template
    name: str
    """"" to generate one."""
    texts: list[bytes]
    """The open ones."""


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
        self._hit_rate = HitRate(_LEAST_HITS)

    def request_key(self, call: Call) -> RequestKey | None:
        """The key of a request, if it may be one of a template; None if it takes the slow path."""
        request = call.request
        if (
            len(request.body) > _LONGEST_BODY
            or request.content_type.partition(";")[0] != "application/json"
            or not _QUERY.issuperset(request.query)
            or not self._hit_rate.is_worth_asking()
        ):
            return None
        return RequestKey(
            call.path.namespace,
            request.user_agent,
            request.query.get("fieldManager", ""),
            request.query.get("fieldValidation", ""),
        )

    def find(self, request_key: RequestKey, body: bytes, user: User) -> Match | None:
        """The template of a body; None if there is none, or what it says does not hold any more, or not for this body or user."""
        found = self._found(request_key, body, user)
        self._hit_rate.record(hit=found is not None)
        return found

    def _found(self, request_key: RequestKey, body: bytes, user: User) -> Match | None:
        parts = texts_of(body)
        open_texts = self._skeletons.get((request_key, parts.skeleton))
        if open_texts is None:
            return None
        texts = parts.texts
        template = self._templates.get((open_texts, tuple([texts[at] for at in open_texts.fixed])))
        if template is None or not open_texts.are_valid(texts) or not template.reads.hold(user):
            return None
        name = texts[open_texts.name].decode() if open_texts.name >= 0 else ""
        return Match(template, name, [texts[at] for at in open_texts.open])

    def note(self, kind: Kind, request_key: RequestKey, body: bytes, pod: core_v1.Pod, observe: Observe) -> None:
        """Learn from a pod that was made of a body without any warning, when there was one like it before. observe: makes the pod once more."""
        parts = texts_of(body)
        open_texts = self._skeletons.get((request_key, parts.skeleton))
        is_new = open_texts is None
        if open_texts is None:
            if self._came_before(hash((request_key, parts.skeleton))):
                open_texts = open_texts_of(parts)
            if open_texts is None:
                return
            self._put_skeleton(request_key, parts, open_texts)
        fixed = tuple([parts.texts[at] for at in open_texts.fixed])
        came_before = self._came_before(hash((open_texts, fixed)))
        if not ((came_before or is_new) and _is_like(pod, parts, open_texts)):
            return
        observed = observe(open_texts)
        if observed is None:
            return
        if observed.texts_read:
            open_texts = open_texts.without(observed.texts_read)
            self._put_skeleton(request_key, parts, open_texts)
            fixed = tuple([parts.texts[at] for at in open_texts.fixed])
        template, other = (Template(kind, each, observed.reads, open_texts, len(body)) for each in (pod, observed.pod))
        if template.is_like(other):
            self._templates.put((open_texts, fixed), template, template.size)

    def _put_skeleton(self, request_key: RequestKey, parts: BodyTexts, open_texts: OpenTexts) -> None:
        size = sum(map(len, parts.skeleton)) + 100 * len(parts.texts)
        self._skeletons.put((request_key, parts.skeleton), open_texts, size)

    def _came_before(self, seen: int) -> bool:
        if self._seen.get(seen) is not None:
            return True
        self._seen.put(seen, value=True, size=0)
        return False


def _is_like(pod: core_v1.Pod, parts: BodyTexts, open_texts: OpenTexts) -> bool:
    """Whether what was made of a body would be made of another one with other open texts, but for these."""
    given = parts.texts[open_texts.name] if open_texts.name >= 0 else b""
    return (
        (given.decode() == pod.metadata.name if given else bool(pod.metadata.generate_name))
        and open_texts.are_valid(parts.texts)
        and open_texts.are_in(pod, parts.texts)
        and is_template_instance(pod)
    )


def is_template_instance(pod: core_v1.Pod) -> bool:
    """Whether nothing in a pod but what a template leaves open depends on its name or the time."""
    spec, metadata = pod.spec, pod.metadata
    return not (
        spec.node_name
        or spec.scheduling_gates
        or any(volume.ephemeral is not None for volume in spec.volumes)
        or len(metadata.managed_fields) > 1
        or _PLACEHOLDER.search(encode(pod))
    )


def _with_claims(volumes: Sequence[core_v1.Volume], names: Sequence[tuple[int, str]]) -> tuple[core_v1.Volume, ...]:
    """The same with other names of claims."""
    found = list(volumes)
    for at, name in names:
        claim = found[at].persistent_volume_claim
        assert claim is not None
        found[at] = _replace(found[at], persistent_volume_claim=_replace(claim, claim_name=name))
    return tuple(found)


def _with_volume(spec: core_v1.PodSpec, old: str, new: str) -> core_v1.PodSpec:
    """The same with another name of the volume that was added last."""

    def renamed(containers: tuple[core_v1.Container, ...]) -> tuple[core_v1.Container, ...]:
        return tuple(
            [
                _replace(one, volume_mounts=(*one.volume_mounts[:-1], _replace(one.volume_mounts[-1], name=new)))
                if one.volume_mounts and one.volume_mounts[-1].name == old
                else one
                for one in containers
            ]
        )

    return _replace(
        spec,
        volumes=(*spec.volumes[:-1], _replace(spec.volumes[-1], name=new)),
        containers=renamed(spec.containers),
        init_containers=renamed(spec.init_containers),
    )
