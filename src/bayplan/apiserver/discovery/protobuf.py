"""Aggregated discovery as protobuf. Message types and field numbers are those of `apidiscovery/v2/generated.proto`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bayplan.api import protobuf
from bayplan.api.protobuf.wire import delimited
from bayplan.api.types import meta_v1

_Tree = dict[str, Any]


def aggregated_body(tree: _Tree) -> bytes:
    """The enveloped message of an APIGroupDiscoveryList (as JSON would show it)."""
    message = delimited(1, protobuf.message_of(meta_v1.ListMeta())) + _many(2, tree["items"], _group)
    return protobuf.envelope("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", message)


def _text(number: int, text: str) -> bytes:
    return delimited(number, text.encode())


def _many(number: int, items: Iterable[_Tree], make: Callable[[_Tree], bytes]) -> bytes:
    return b"".join([delimited(number, make(item)) for item in items])


def _texts(number: int, texts: Iterable[str]) -> bytes:
    return b"".join([_text(number, text) for text in texts])


def _group(group: _Tree) -> bytes:
    metadata = meta_v1.ObjectMeta(name=group["metadata"].get("name", ""))
    return delimited(1, protobuf.message_of(metadata)) + _many(2, group["versions"], _version)


def _version(version: _Tree) -> bytes:
    return _text(1, version["version"]) + _many(2, version["resources"], _resource) + _text(3, version["freshness"])


def _kind(kind: _Tree) -> bytes:
    """A GroupVersionKind."""
    return _text(1, kind["group"]) + _text(2, kind["version"]) + _text(3, kind["kind"])


def _response_kind(row: _Tree) -> bytes:
    kind = row.get("responseKind")
    return b"" if kind is None else delimited(2, _kind(kind))


def _resource(resource: _Tree) -> bytes:
    return b"".join(
        (
            _text(1, resource["resource"]),
            _response_kind(resource),
            _text(3, resource["scope"]),
            _text(4, resource.get("singularResource", "")),
            _texts(5, resource["verbs"]),
            _texts(6, resource.get("shortNames", ())),
            _texts(7, resource.get("categories", ())),
            _many(8, resource.get("subresources", ()), _subresource),
        )
    )


def _subresource(row: _Tree) -> bytes:
    return b"".join(
        (
            _text(1, row["subresource"]),
            _response_kind(row),
            _many(3, row.get("acceptedTypes", ()), _kind),
            _texts(4, row["verbs"]),
        )
    )
