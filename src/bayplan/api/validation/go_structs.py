"""How Go shows whole objects of Kubernetes' internal types, as they stand in messages of validation: fields under Go's names, in the order of the type.

Where the internal type differs from the published one, `types/internal_structs.json` has its fields (see `tools/extract_internal_structs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.api.errors import Deferred
from bayplan.api.types import meta_v1

_encode = msgspec.json.Encoder().encode
_PUBLISHED: Final = {
    "boolvalue": "bool",
    "boolvalues": "bools",
    "cephmonitors": "monitors",
    "datadiskuri": "diskuri",
    "discoverychapauth": "chapauthdiscovery",
    "endpointsname": "endpoints",
    "intvalue": "int",
    "intvalues": "ints",
    "lastterminationstate": "laststate",
    "radosuser": "user",
    "rbdimage": "image",
    "rbdpool": "pool",
    "sessionchapauth": "chapauthsession",
    "stringvalue": "string",
    "stringvalues": "strings",
    "versionvalue": "version",
    "versionvalues": "versions",
}
"""Names of internal fields -> those of the published ones that have another name, in small letters."""


def go_struct(value: Any) -> Any:
    """An object as Go shows values of its internal types, which have no JSON names: `{"Key":"a","TimeAdded":null}`.

    Fields keep the order of the type, so structs come back as JSON; keys of maps are in order of the alphabet.
    """
    if isinstance(value, meta_v1.LabelSelector | meta_v1.Condition):
        return value
    if isinstance(value, msgspec.Struct):
        return _go_members(value)
    if isinstance(value, list | tuple):
        return _go_items(value) or None
    if isinstance(value, dict):
        return {key: go_struct(item) for key, item in value.items()} or None
    return value


def go_part(value: msgspec.Struct, attributes: Sequence[str]) -> msgspec.Raw:
    """Some of a struct's attributes, which are a struct of their own for Go."""
    return _go_members(value, only=frozenset(attributes))


def shown_later(value: Any) -> Deferred:
    """go_struct for a large object, done when an error about it is told."""
    return Deferred(partial(go_struct, value))


def _go_members(
    value: msgspec.Struct, moved: Mapping[str, Any] | None = None, only: frozenset[str] | None = None
) -> msgspec.Raw:
    """The fields of a struct. moved: those that the internal type has here, and the published type in the object around it; only: those that are wanted."""
    shown = []
    fields = _go_fields(type(value))
    hosts = {name: getattr(value, name) for name in _OF_HOST} if type(value).__name__ == "PodSpec" else None
    for name, key in fields:
        if only is not None and name not in only:
            continue
        if not name:
            shown.append(b'"%b":null' % key)
            continue
        inner = moved[name] if moved and name in moved else getattr(value, name)
        if isinstance(inner, meta_v1.ObjectMeta):  # Go embeds it
            shown += _members(inner)
            continue
        is_context = hosts is not None and name == "security_context" and inner is not None
        shown_inner = _go_members(inner, hosts) if is_context else go_struct(inner)
        shown.append(b'"%b":%b' % (key, msgspec.json.encode(shown_inner, order="deterministic")))
    return msgspec.Raw(b"{%b}" % b",".join(shown))


_OF_HOST: Final = ("host_network", "host_pid", "host_ipc", "share_process_namespace", "host_users")
"""What the published pod has in its spec, and the internal one in the spec's security context."""


def _go_items(items: Sequence[Any]) -> list[Any]:
    """The items of a list, objects with equal JSON worked out once: a body of 3 MiB holds a million of `{}`."""
    known: dict[bytes, Any] = {}
    shown = []
    for item in items:
        if isinstance(item, msgspec.Struct):
            text = _encode(item)
            found = known.get(text)
            if found is None:
                found = known[text] = go_struct(item)
            shown.append(found)
        else:
            shown.append(go_struct(item))
    return shown


@cache
def _internal_structs() -> dict[str, str]:
    """The fields of internal types that are not as those of the published type: by module and name of this."""
    path = Path(meta_v1.__file__).with_name("internal_structs.json")
    facts: dict[str, str] = msgspec.json.decode(path.read_bytes())
    return facts


@cache
def _go_fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, bytes], ...]:
    """Attribute and name in Go of each field of a struct's internal type; the attribute is "" if the published type has no such field."""
    published = {info.encode_name.lower(): info.name for info in msgspec.structs.fields(cls)}
    known = {"objectmeta": "metadata", **published, **_of_host(cls)}
    names = _internal_structs().get(f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}", "").split()
    return tuple(
        (known.get(lower := name.lower()) or known.get(_PUBLISHED.get(lower, ""), ""), name.encode())
        for name in names or published_names(cls)
    )


def _of_host(cls: type[msgspec.Struct]) -> dict[str, str]:
    return {name.replace("_", ""): name for name in _OF_HOST} if cls.__name__ == "PodSecurityContext" else {}


def published_names(cls: type[msgspec.Struct]) -> list[str]:
    """Names in Go of a struct's fields, if its internal type is as the published one."""
    return [
        "ObjectMeta"
        if info.type is meta_v1.ObjectMeta
        else _GO_NAMES.get(info.encode_name) or info.encode_name[:1].upper() + info.encode_name[1:]
        for info in msgspec.structs.fields(cls)
        if not info.name.endswith(_OWN_FIELDS)
    ]


def _members(value: msgspec.Struct) -> list[bytes]:
    """The fields of an object that has JSON names, those that say something."""
    text = msgspec.json.encode(value, order="deterministic")[1:-1]
    return [text] if text else []


_OWN_FIELDS: Final = "_required_during_execution"
_GO_NAMES: Final = {
    "apiVersion": "APIVersion",
    "cel": "CEL",
    "cidrs": "CIDRs",
    "pkixPublicKey": "PKIXPublicKey",
    "uid": "UID",
}
