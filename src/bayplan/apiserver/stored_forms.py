"""The form in which objects are kept: JSON, or protobuf as kube-apiserver writes it. Whichever is written, both are read, in any version of a kind that is known.

Definitions of custom resources, API services and custom resources are always JSON, as kube-apiserver keeps them.
Source: `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`, `--storage-media-type`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bayplan.api import protobuf
from bayplan.api.codec import DecodeError, decode, encode
from bayplan.api.conversions.definitions import from_v1beta1
from bayplan.api.conversions.kinds import convert
from bayplan.api.kinds import Kind, KindTable, resource_of_key
from bayplan.api.optional_kinds import EVERY_KIND
from bayplan.api.schema import definition_of
from bayplan.api.strategies import strategy_for
from bayplan.apiserver.etcd_layout import WITH_GROUP
from bayplan.apiserver.reads.cache import stored_value
from bayplan.store.errors import Untransformable

JSON: Final = "application/json"
MEDIA_TYPES: Final = (JSON, protobuf.MEDIA_TYPE)
_UNSERVED: Final[dict[str, tuple[str, ...]]] = {
    "admissionregistration.k8s.io/v1beta1": ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    "coordination.k8s.io/v1beta1": ("Lease",),
    "storage.k8s.io/v1beta1": ("CSIStorageCapacity",),
    "apiextensions.k8s.io/v1beta1": ("CustomResourceDefinition",),
}
"""Versions in which kube-apiserver keeps objects, or did, and which are not served here. All but definitions look as in v1."""


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class StoredForm:
    """The form of the objects of one kind. See `bayplan.store.transforming.Transformer`."""

    __slots__ = ("_is_protobuf", "_kind", "_kinds")

    def __init__(self, kind: Kind, kinds: KindTable, *, is_protobuf: bool) -> None:
        """kind: in whose version objects are kept; kinds: all that there may be in the store."""
        self._kind, self._kinds, self._is_protobuf = kind, kinds, is_protobuf

    def to_storage(self, key: str, value: bytes) -> bytes:
        if not self._is_protobuf:
            return value
        kind = self._kind
        try:
            return protobuf.envelope(kind.api_version, kind.kind, protobuf.message_of(decode(kind.type, value)))
        except (DecodeError, protobuf.ProtobufError) as error:
            raise Untransformable(key, str(error)) from error

    def from_storage(self, key: str, value: bytes) -> bytes:
        if value.startswith(self._kind.type_meta):
            return value
        try:
            return self._renewed(value)
        except (DecodeError, msgspec.DecodeError, protobuf.ProtobufError, KeyError) as error:
            reason = f"it is no {self._kind.kind} that this server knows, perhaps one of a newer server: {error}"
            raise Untransformable(key, reason) from error

    def is_current(self, value: bytes) -> bool:
        return value.startswith(protobuf.MAGIC if self._is_protobuf else self._kind.type_meta)

    def form(self, value: bytes) -> bytes:
        return protobuf.MAGIC if value.startswith(protobuf.MAGIC) else value[: len(self._kind.type_meta)]

    def _renewed(self, value: bytes) -> bytes:
        """The JSON of an object in protobuf, or in another version. What kube-apiserver fills in when it reads is filled in."""
        if value.startswith(protobuf.MAGIC):
            api_version, name, message = protobuf.unwrap(value)
            kind = self._known(api_version, name)
            value = encode(protobuf.to_tree(definition_of(kind.type), message))
        else:
            head = msgspec.json.decode(value, type=_Head)
            kind = self._known(head.api_version, head.kind)
            if head.api_version == "apiextensions.k8s.io/v1beta1":
                value = encode(from_v1beta1(msgspec.json.decode(value)))
        obj = _in_version(decode(kind.type, value), kind, self._kind)
        strategy_for(self._kind).default(obj)
        return stored_value(self._kind, obj)

    def _known(self, api_version: str, name: str) -> Kind:
        """The kind that reads a version."""
        if name == self._kind.kind and name in _UNSERVED.get(api_version, ()):
            return self._kind
        found = self._kinds.of_kind(api_version, name)
        if found is None or self._kinds.storage_kind(found) is not self._kind:
            raise DecodeError(f"it is a {name or 'nothing'} of version {api_version!r}")
        return found


def _in_version(obj: Any, source: Kind, target: Kind) -> Any:
    """Versions that are alike have no conversion."""
    return obj if source.type is target.type else convert(obj, source, target)


class StoredForms:
    """The form of each kind."""

    def __init__(self, media_type: str = JSON) -> None:
        """media_type: one of MEDIA_TYPES, in which objects are written."""
        kinds = KindTable(EVERY_KIND)
        is_protobuf = media_type == protobuf.MEDIA_TYPE
        self._by_resource = {
            resource_of_key(kind.storage_prefix): StoredForm(
                kind, kinds, is_protobuf=is_protobuf and kind.group not in WITH_GROUP
            )
            for kind in kinds.stored()
        }

    def of_key(self, key: str) -> StoredForm | None:
        """The form of an object by its key in the store; None for custom resources, and for what is no object."""
        return self._by_resource.get(resource_of_key(key))
