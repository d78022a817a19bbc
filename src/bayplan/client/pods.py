"""Pods as they come in watches: most news of a pod leave its spec as it is, so it is not made anew each time.

The latest spec of each pod is remembered with the text that it came from. Specs of one template share their parts: their texts differ in the node, in the name of
the volume with the service account's token, and in nothing else. The text around these is their form:

    {"volumes":[{"name":"kube-api-access-x7f2p",...}],...,"serviceAccount":"default","nodeName":"node-1","securityContext":{},...}
                        └────── volume ─────┘                                        └────── node ─────┘

That names in these places mean what they seem to mean is tried once per form, by decoding it with names that no pod has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from bayplan.api.codec import decode, decoder
from bayplan.api.types import core_v1
from bayplan.api.types.meta_v1 import ObjectMeta
from bayplan.api.types.scalars import Object
from bayplan.client.transport import EventDecoder
from bayplan.support.memory.memo import Memo

_SPECS_BYTES: Final = 128 << 20
"""Memory for the latest spec of each pod."""
_SPEC_BYTES: Final = 1000
"""Of a spec that shares its parts with those of its form."""
_FORMS_BYTES: Final = 32 << 20
"""Memory for forms."""


class _Parts(Object):
    """A pod whose spec has not been looked into."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    status: core_v1.PodStatus = msgspec.field(default_factory=core_v1.PodStatus)


class _Event(msgspec.Struct):
    """A line of a watch of pods."""

    type: str
    object: _Parts


_NODE: Final = re.compile(rb'"nodeName":"([a-z0-9.-]+)",')
_VOLUME: Final = re.compile(rb'"(kube-api-access-[a-z0-9]+)"')
_NO_NODE: Final = "No Such Node"
_NO_VOLUME: Final = "No Such Volume"
_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_spec: Callable[[bytes], core_v1.PodSpec] = decoder(core_v1.PodSpec)


class PodDecoder(EventDecoder):
    """From JSON to pods, of which news of one pod share its spec, and pods of one template the parts of theirs."""

    def __init__(self) -> None:
        self._known: Memo[str, _Known] = Memo("pod_specs", most_bytes=_SPECS_BYTES)
        self._templates: Memo[Form, _Template] = Memo("pod_spec_forms", most_bytes=_FORMS_BYTES)

    def __call__(self, data: bytes) -> core_v1.Pod:
        """Raises DecodeError."""
        try:
            return self._pod(_decode_parts(data))
        except msgspec.DecodeError:
            pod: core_v1.Pod = decode(core_v1.Pod, data)
            return pod

    def event(self, line: bytes) -> tuple[str, Any] | None:
        """See EventDecoder."""
        try:
            event = _decode_event(line)
            if event.type == "ERROR":
                return None
            pod = self._pod(event.object)
            if event.type == "DELETED":
                self._known.drop(pod.metadata.uid)
            return event.type, pod
        except msgspec.DecodeError:
            return None

    def _pod(self, parts: _Parts) -> core_v1.Pod:
        text, uid = bytes(parts.spec), parts.metadata.uid
        known = self._known.get(uid)
        if known is None or b"".join(known.texts) != text:
            known = self._changed(text, known)
            self._known.put(uid, known, _SPEC_BYTES)
        return core_v1.Pod(
            kind=parts.kind,
            api_version=parts.api_version,
            metadata=parts.metadata,
            spec=known.spec,
            status=parts.status,
        )

    def _changed(self, text: bytes, before: _Known | None) -> _Known:
        """The spec of a pod that is new, or had another one before."""
        names, form = _taken_apart(text)
        placed = _placed(before, names, text)
        template = self._templates.get(form)
        if template is None:
            template = _Template(form, names, placed if placed is not None else _decode_spec(text))
            self._templates.put(form, template, 4 * len(text))
            spec = template.spec if placed is None or template.is_sound() else _decode_spec(text)
        elif template.is_sound():
            spec = placed if placed is not None else template.spec_with(names)
        else:
            spec = _decode_spec(text)
        return _Known(_put_together(template.form, names), spec)


class _Known(NamedTuple):
    """A spec and the text that it came from, in parts that are shared with others of its form."""

    texts: tuple[bytes, ...]
    spec: core_v1.PodSpec


class _Names(NamedTuple):
    """What stands in the places of a form; "" for a place that it has not."""

    node: str
    volume: str


Form = tuple[bytes | None, ...]
"""The texts around the names of the token's volume, in order; None in place of the node."""


def _taken_apart(text: bytes) -> tuple[_Names, Form]:
    node, volume = _NODE.search(text), _VOLUME.search(text)
    quoted = volume[0] if volume is not None else b""
    form: Form
    if node is None:
        form = tuple(text.split(quoted)) if quoted else (text,)
    else:
        head, tail = text[: node.start()], text[node.end() :]
        form = (*head.split(quoted), None, *tail.split(quoted)) if quoted else (head, None, tail)
    names = _Names(node[1].decode() if node is not None else "", volume[1].decode() if volume is not None else "")
    return names, form


def _put_together(form: Form, names: _Names) -> tuple[bytes, ...]:
    """The opposite of `_taken_apart`, in parts."""
    node, volume = f'"nodeName":"{names.node}",'.encode(), f'"{names.volume}"'.encode()
    texts: list[bytes] = []
    is_after_text = False
    for text in form:
        if text is None:
            texts.append(node)
        elif is_after_text:
            texts += (volume, text)
        else:
            texts.append(text)
        is_after_text = text is not None
    return tuple(texts)


def _placed(before: _Known | None, names: _Names, text: bytes) -> core_v1.PodSpec | None:
    """The spec of a pod that has got its node and is what it was before otherwise, if its form is sound."""
    if before is None or not names.node or before.spec.node_name or b"".join(before.texts) != _NODE.sub(b"", text, 1):
        return None
    return replace(before.spec, node_name=names.node)


class _Template:
    """What makes specs of one form: copies of the first one with other names."""

    __slots__ = ("_is_sound", "_names", "form", "spec")

    def __init__(self, form: Form, names: _Names, spec: core_v1.PodSpec) -> None:
        self.form = form
        self.spec = spec
        """The first one."""
        self._names = names
        """Those of the first one."""
        self._is_sound: bool | None = None

    def is_sound(self) -> bool:
        """Whether specs of this form are what `spec_with` makes: whether names that no pod has come to stand where they should."""
        if self._is_sound is None:
            names = _Names(self._names.node and _NO_NODE, self._names.volume and _NO_VOLUME)
            try:
                self._is_sound = _decode_spec(b"".join(_put_together(self.form, names))) == self.spec_with(names)
            except msgspec.DecodeError:
                self._is_sound = False
        return self._is_sound

    def spec_with(self, names: _Names) -> core_v1.PodSpec:
        """The spec of this form with some names."""
        if names.volume != self._names.volume:
            return _with_names(self.spec, self._names.volume, names)
        return replace(self.spec, node_name=names.node) if names.node != self._names.node else self.spec


def _with_names(spec: core_v1.PodSpec, volume: str, names: _Names) -> core_v1.PodSpec:
    """A spec for another node, in which a volume has another name."""
    new = names.volume

    def renamed(containers: tuple[Any, ...]) -> tuple[Any, ...]:
        found = []
        for one in containers:
            mounts = [replace(mount, name=new) if mount.name == volume else mount for mount in one.volume_mounts]
            found.append(replace(one, volume_mounts=tuple(mounts)) if mounts else one)
        return tuple(found)

    return replace(
        spec,
        node_name=names.node,
        volumes=tuple([replace(one, name=new) if one.name == volume else one for one in spec.volumes]),
        containers=renamed(spec.containers),
        init_containers=renamed(spec.init_containers) if spec.init_containers else (),
        ephemeral_containers=renamed(spec.ephemeral_containers) if spec.ephemeral_containers else (),
    )
