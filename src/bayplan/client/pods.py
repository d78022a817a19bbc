"""Pods as they come in watches: most news of a pod leave its spec as it is, but for its node, so it is not made anew each time."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bayplan.api.codec import decode, decoder
from bayplan.api.types import core_v1
from bayplan.api.types.meta_v1 import ObjectMeta
from bayplan.api.types.scalars import Object

_KEPT: Final = 4096
"""Specs that are remembered."""


class _Parts(Object):
    """A pod whose spec has not been looked into."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    status: core_v1.PodStatus = msgspec.field(default_factory=core_v1.PodStatus)


_NODE: Final = re.compile(rb'"nodeName":"([^"\\]+)",')
"""The node in the JSON of a spec. No other member of that name is in a spec, and within a text the quotation marks would be escaped."""
_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode_spec = decoder(core_v1.PodSpec)


class PodDecoder:
    """From JSON to pods, of which those with equal specs share one, and those with specs that differ in the node its parts."""

    def __init__(self) -> None:
        self._specs: dict[bytes, core_v1.PodSpec] = {}

    def __call__(self, data: bytes) -> core_v1.Pod:
        """Raises DecodeError."""
        try:
            parts = _decode_parts(data)
            text = bytes(parts.spec)
            spec = self._specs.get(text)
            if spec is None:
                spec = self._remembered(text)
        except msgspec.DecodeError:
            pod: core_v1.Pod = decode(core_v1.Pod, data)
            return pod
        return core_v1.Pod(
            kind=parts.kind, api_version=parts.api_version, metadata=parts.metadata, spec=spec, status=parts.status
        )

    def _remembered(self, text: bytes) -> core_v1.PodSpec:
        if len(self._specs) >= _KEPT:
            del self._specs[next(iter(self._specs))]
        spec = self._specs[text] = self._with_its_node(text) or _decode_spec(text)
        return spec

    def _with_its_node(self, text: bytes) -> core_v1.PodSpec | None:
        """The spec of a pod that was known before it had its node."""
        node = _NODE.search(text)
        if node is None:
            return None
        before = self._specs.get(text[: node.start()] + text[node.end() :])
        return msgspec.structs.replace(before, node_name=node[1].decode()) if before is not None else None
