"""The fast path for creates of pods from one template, as those of a ReplicaSet or a load test.

Their bodies are equal byte for byte but for the name. So is everything that follows from the body alone: defaults, managed fields, what mutating admission
adds, that no rule is broken. What depends on other objects as well stays valid until one of these changes:

    body = prefix + name + suffix, dependency version unchanged -> a copy with its own name, uid, times and token volume -> validating admission -> the store

A body becomes a template when the second one like it comes, if the slow path gave no warning for it.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from bayplan.api.codec import encode
from bayplan.api.kinds import Kind
from bayplan.api.strategies.core.pod_forms import token_volume
from bayplan.api.types import core_v1
from bayplan.api.validation import formats
from bayplan.api.validation.pods.pod_warnings import pod_name_warnings
from bayplan.apiserver.admission.chain import CREATE
from bayplan.apiserver.admission.service_account import TOKEN_VOLUME
from bayplan.apiserver.authorization.node import NODES
from bayplan.apiserver.reads.cache import ResourceCache, stored_value
from bayplan.apiserver.writes.generated_names import generated_name
from bayplan.support.hit_rate import HitRate
from bayplan.support.memo import Memo
from bayplan.support.timestamps import rfc3339

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call, Context

_replace = msgspec.structs.replace
_QUERY: Final = frozenset(("fieldManager", "fieldValidation"))
_LONGEST_BODY: Final = 8192
_TEMPLATES_BYTES: Final = 16 << 20
_SEEN_BYTES: Final = 1 << 20
_LEAST_HITS: Final = 0.2
"""Share of creates that hit a template, below which looking for one costs more than it saves."""
_GIVEN_NAME: Final = re.compile(rb'"name": ?"([a-z0-9][a-z0-9.-]*)"')
_MOST_NAMES: Final = 4
"""So many of the names in a body may be that of the pod: labels and owners can come before it."""
_PLACEHOLDERS: Final = tuple(f"~~bayplan-{slot}~~" for slot in ("name", "uid", "time", "volume"))
"""Placeholders for what differs between instances."""
_PLACEHOLDER: Final = re.compile("|".join(_PLACEHOLDERS).encode())


Caches = tuple[ResourceCache, ...]


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

    def __init__(
        self, kind: Kind, pod: core_v1.Pod, dependency_version: int, prefix: bytes, suffix: bytes, base: str
    ) -> None:
        self.dependency_version = dependency_version
        self.prefix, self.suffix = prefix, suffix
        self.base = base
        """`generateName`; "" if requests give the names."""
        self._volume = token_volume(pod.spec)
        name, uid, time, volume = _PLACEHOLDERS
        metadata = _replace(pod.metadata, resource_version="")
        self._pod = _replace(pod, metadata=metadata)
        data = stored_value(kind, self._of(name, uid, time, volume))
        self._slots = tuple(_PLACEHOLDERS.index(placeholder.decode()) for placeholder in _PLACEHOLDER.findall(data))
        self._form = _PLACEHOLDER.sub(b"%b", data.replace(b"%", b"%%"))
        self.size = len(prefix) + len(suffix) + 5 * len(data)
        """Bytes, about: an object takes some times as much as its JSON."""

    def _of(self, name: str, uid: str, time: str, volume: str) -> core_v1.Pod:
        pod = self._pod
        metadata = _replace(
            pod.metadata,
            name=name,
            uid=uid,
            creation_timestamp=time,
            managed_fields=tuple([_replace(one, time=time) for one in pod.metadata.managed_fields]),
        )
        spec = _with_volume(pod.spec, self._volume, volume) if self._volume else _replace(pod.spec)
        return _replace(pod, metadata=metadata, spec=spec)

    def instance(self, context: Context, name: str) -> Instance:
        """One more pod. name: "" to generate one."""
        randomness = context.randomness
        volume = TOKEN_VOLUME + randomness.suffix(5) if self._volume else ""
        name = name or generated_name(randomness, self.base)
        own = (name, randomness.uuid4(), rfc3339(context.clock.now()), volume)
        encoded = [text.encode() for text in own]
        return Instance(self._of(*own), self._form % tuple([encoded[slot] for slot in self._slots]))


class CreateTemplates:
    """All templates of an API server."""

    def __init__(self) -> None:
        self._generated: Memo[tuple[RequestKey, bytes], Template] = Memo(
            "create_templates", most_bytes=_TEMPLATES_BYTES
        )
        """Templates whose names are generated, by body."""
        self._named: Memo[tuple[RequestKey, bytes, bytes], Template] = Memo(
            "create_templates", most_bytes=_TEMPLATES_BYTES
        )
        """Templates whose names are given, by the text before and after the name: the number of templates does not matter."""
        self._seen: Memo[int, bool] = Memo("create_bodies_seen", most_bytes=_SEEN_BYTES)
        """Bodies that came once: hashes of request key, prefix and suffix."""
        self._hit_rate = HitRate(_LEAST_HITS)
        self._caches: tuple[Caches, Caches] | None = None
        """Caches of the kinds whose objects admission depends on (none if it depends on more), and of the kinds of which there must be no object."""

    def request_key(self, call: Call) -> RequestKey | None:
        """The key of a request, if it may be one of a template; None if it takes the slow path."""
        request = call.request
        if (
            len(request.body) > _LONGEST_BODY
            or request.content_type.partition(";")[0] != "application/json"
            or not _QUERY.issuperset(request.query)
            or NODES in request.user.groups
            or not self._hit_rate.is_worth_asking()
        ):
            return None
        return RequestKey(
            call.path.namespace,
            request.user_agent,
            request.query.get("fieldManager", ""),
            request.query.get("fieldValidation", ""),
        )

    def dependency_version(self, call: Call) -> int | None:
        """A number that changes with the objects that decide what becomes of a body; None if these do not decide alone."""
        if self._caches is None:
            self._caches = _caches(call)
        deciding, absent = self._caches
        if not deciding or any(cache.count for cache in absent):
            return None
        return sum([cache.revision for cache in deciding])

    def find(self, request_key: RequestKey, body: bytes, dependency_version: int) -> tuple[Template, str] | None:
        """The template of a body, and the name that the pod brings ("" if it gets one); None if there is none, or what it says does not hold any more."""
        found = self._found(request_key, body, dependency_version)
        self._hit_rate.record(hit=found is not None)
        return found

    def _found(self, request_key: RequestKey, body: bytes, dependency_version: int) -> tuple[Template, str] | None:
        template = self._generated.get((request_key, body))
        if template is not None:
            return (template, "") if template.dependency_version == dependency_version else None
        if not len(self._named):
            return None
        for match in itertools.islice(_GIVEN_NAME.finditer(body), _MOST_NAMES):
            start, end = match.span(1)
            template = self._named.get((request_key, body[:start], body[end:]))
            if template is not None:
                name = match[1].decode()
                return (
                    (template, name)
                    if template.dependency_version == dependency_version and is_valid_name(name)
                    else None
                )
        return None

    def note(
        self,
        kind: Kind,
        request_key: RequestKey,
        body: bytes,
        dependency_version: int,
        pod: core_v1.Pod,
        *,
        named: bool,
    ) -> None:
        """Learn from a pod that was made of a body without any warning, when it is the second one like it."""
        name = b'"%b"' % pod.metadata.name.encode()
        if not named:
            prefix, suffix = body, b""
        elif body.count(name) == 1 and b"\\" not in body:
            before, _, after = body.partition(name)
            prefix, suffix = before + b'"', b'"' + after
        else:
            return  # what is the name, and what another text that is the same?
        seen = hash((request_key, prefix, suffix))
        if self._seen.get(seen) is None:
            self._seen.put(seen, value=True, size=0)
        elif is_template_instance(pod):
            self._learn(
                request_key,
                Template(kind, pod, dependency_version, prefix, suffix, "" if named else pod.metadata.generate_name),
            )

    def _learn(self, request_key: RequestKey, template: Template) -> None:
        if template.base:
            self._generated.put((request_key, template.prefix), template, template.size)
        else:
            self._named.put((request_key, template.prefix, template.suffix), template, template.size)


def _caches(call: Call) -> tuple[Caches, Caches]:
    context = call.context
    changing = context.admission.plan(call.stored, CREATE, "").changing

    def caches(kinds: set[tuple[str, str]]) -> Caches:
        found = [context.kinds.of_kind(*one) for one in sorted(kinds)]
        return tuple(context.objects.cache(kind) for kind in found if kind is not None)

    if any(plugin.decided_by is None for plugin in changing):
        return (), ()
    deciding = {one for plugin in changing for one in plugin.decided_by or ()}
    return caches(deciding), caches({one for plugin in changing for one in plugin.idle_without})


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


def is_valid_name(name: str) -> bool:
    """Whether a name is one that pods may have, and gives no warning."""
    return not formats.dns_subdomain(name) and not pod_name_warnings(name)


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
