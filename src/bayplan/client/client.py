"""The typed client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypedDict, TypeVar, Unpack

import msgspec

from bayplan.api.codec import decode, encode
from bayplan.api.kinds import DEFAULT_KINDS, Kind, KindTable
from bayplan.api.types import core_v1, meta_v1, policy_v1
from bayplan.client.pods import PodDecoder
from bayplan.client.transport import RawWatch, SentRequest, Transport

T = TypeVar("T")

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class ListResult(Generic[T]):
    """Objects of one list, as of one revision."""

    items: list[T]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One change: `type` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: T


class WatchStream(Generic[T]):
    """A running watch; iterate over it or take batches."""

    def __init__(self, raw: RawWatch) -> None:
        self._raw = raw

    async def next_batch(self) -> Sequence[tuple[str, T]]:
        """(event type, object) pairs, at least one; empty when the watch has ended. Raises ApiError, TransportError."""
        return await self._raw.next_batch()

    async def __aiter__(self) -> AsyncIterator[WatchEvent[T]]:
        while batch := await self._raw.next_batch():
            for event_type, obj in batch:
                yield WatchEvent(event_type, obj)

    def close(self) -> None:
        """End the watch."""
        self._raw.close()


class _RawList(msgspec.Struct):
    """A list whose items are decoded one by one."""

    metadata: meta_v1.ListMeta
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_RawList).decode


class DeletionOptions(TypedDict, total=False):
    """How something is to be deleted."""

    grace_period_seconds: int | None
    propagation_policy: str | None
    uid: str
    resource_version: str


class Client:
    """Reads and writes objects of one API server. All methods raise ApiError for answers other than success and TransportError without an answer."""

    def __init__(self, transport: Transport, kinds: KindTable | None = None) -> None:
        """kinds: those that the client knows; None for a table of its own with the built-in ones, to which custom resources may come."""
        self.transport = transport
        self.kinds = KindTable(DEFAULT_KINDS) if kinds is None else kinds
        self._read_pod = PodDecoder()

    async def close(self) -> None:
        """Release the transport."""
        await self.transport.close()

    async def get(self, cls: type[T], name: str, namespace: str = "") -> T:
        """One object."""
        kind = self.kinds.of_type(cls)
        data = await self.transport.request("GET", kind.path(namespace, name), {})
        found: T = decode(cls, data)
        return found

    async def list(
        self,
        cls: type[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        page_size: int = 0,
    ) -> ListResult[T]:
        """All objects (of one namespace), in one answer or in pages of `page_size`."""
        kind = self.kinds.of_type(cls)
        query = _query(labelSelector=label_selector, fieldSelector=field_selector, resourceVersion=resource_version)
        if page_size:
            query["limit"] = str(page_size)
        items: list[T] = []
        while True:
            page = _decode_list(await self.transport.request("GET", kind.path(namespace), query))
            items.extend(decode(cls, bytes(item)) for item in page.items or ())
            if not page.metadata.continue_:
                return ListResult(items, page.metadata.resource_version)
            query = {**query, "continue": page.metadata.continue_}
            query.pop("resourceVersion", None)

    async def watch(
        self,
        cls: type[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = False,
        send_initial_events: bool = False,
        timeout_seconds: int = 0,
    ) -> WatchStream[T]:
        """Changes from behind a revision (or from now, with what is there first). Objects may be shared: do not change them."""
        kind = self.kinds.of_type(cls)
        query = _query(resourceVersion=resource_version, labelSelector=label_selector, fieldSelector=field_selector)
        query["watch"] = "true"
        if bookmarks:
            query["allowWatchBookmarks"] = "true"
        if send_initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if timeout_seconds:
            query["timeoutSeconds"] = str(timeout_seconds)
        read = self._read_pod if cls is core_v1.Pod else partial(decode, cls)
        return WatchStream(await self.transport.watch(kind, kind.path(namespace), query, read))

    async def create(self, obj: T, namespace: str = "", *, dry_run: bool = False) -> T:
        """Create an object; the answer is what the server made of it."""
        kind, meta = self.kinds.of_type(type(obj)), _meta(obj)
        path = kind.path(namespace or meta.namespace)
        return await self._send("POST", path, obj, kind, dry_run)

    async def post(self, obj: Any) -> None:
        """Create an object, for who does not want to know what the server made of it."""
        kind, meta = self.kinds.of_type(type(obj)), _meta(obj)
        await self.transport.send((SentRequest("POST", kind.path(meta.namespace), _body(obj, kind)),))

    async def update(self, obj: T, *, subresource: str = "", dry_run: bool = False) -> T:
        """Replace an object (or its status); with its resourceVersion set, only if nobody else has changed it."""
        kind, meta = self.kinds.of_type(type(obj)), _meta(obj)
        return await self._send("PUT", kind.path(meta.namespace, meta.name, subresource), obj, kind, dry_run)

    async def update_status(self, obj: T) -> T:
        """Replace the status of an object. Who manages the fields of a built-in one is not sent: it stays as it is, and would be half of what is to be read."""
        shown: Any = obj
        if isinstance(obj, msgspec.Struct):
            metadata = msgspec.structs.replace(_meta(obj), managed_fields=())
            shown = msgspec.structs.replace(shown, metadata=metadata)
        changed: T = await self.update(shown, subresource="status")
        return changed

    async def patch(
        self,
        cls: type[T],
        name: str,
        namespace: str,
        patch: Any,
        *,
        patch_type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> T:
        """Change an object by a patch: a merge patch, or what `patch_type` says."""
        kind = self.kinds.of_type(cls)
        data = await self.transport.request(
            "PATCH", kind.path(namespace, name, subresource), {}, encode(patch), patch_type
        )
        changed: T = decode(cls, data)
        return changed

    async def apply(
        self,
        cls: type[T],
        name: str,
        namespace: str,
        fields: Mapping[str, Any],
        *,
        manager: str,
        subresource: str = "",
    ) -> T:
        """Set fields of an object by server-side apply, as theirs who is called `manager` from now on, whoever had them before."""
        kind = self.kinds.of_type(cls)
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        tree = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
        query = {"fieldManager": manager, "force": "true"}
        data = await self.raw("PATCH", kind.path(namespace, name, subresource), query, encode(tree), APPLY_PATCH)
        changed: T = decode(cls, data)
        return changed

    async def delete(self, cls: type[Any], name: str, namespace: str = "", **options: Unpack[DeletionOptions]) -> None:
        """Delete an object; with `uid` or `resource_version` only if it is still that one."""
        await self.transport.send((self.deletion(cls, name, namespace, **options),))

    def deletion(
        self, cls: type[Any], name: str, namespace: str = "", **wanted: Unpack[DeletionOptions]
    ) -> SentRequest:
        """What `delete` asks for."""
        kind = self.kinds.of_type(cls)
        options = meta_v1.DeleteOptions(
            grace_period_seconds=wanted.get("grace_period_seconds"), propagation_policy=wanted.get("propagation_policy")
        )
        uid, resource_version = wanted.get("uid"), wanted.get("resource_version")
        if uid or resource_version:
            options.preconditions = meta_v1.Preconditions(uid=uid or None, resource_version=resource_version or None)
        body = b'{"kind":"DeleteOptions","apiVersion":"v1",' + encode(options)[1:] if encode(options) != b"{}" else b""
        return SentRequest("DELETE", kind.path(namespace, name), body)

    def replacement(self, obj: Any) -> SentRequest:
        """What `update` asks for."""
        kind, meta = self.kinds.of_type(type(obj)), _meta(obj)
        return SentRequest("PUT", kind.path(meta.namespace, meta.name), _body(obj, kind))

    def binding(self, namespace: str, name: str, uid: str, node_name: str) -> SentRequest:
        """What assigns a pod to a node."""
        binding = core_v1.Binding(
            metadata=meta_v1.ObjectMeta(name=name, namespace=namespace, uid=uid),
            target=core_v1.ObjectReference(kind="Node", name=node_name),
        )
        body = b'{"kind":"Binding","apiVersion":"v1",' + encode(binding)[1:]
        return SentRequest("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)

    async def bind(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Assign a pod to a node."""
        await self.transport.send((self.binding(namespace, name, uid, node_name),))

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        grace_period_seconds: int | None = None,
        annotations: Mapping[str, str] | None = None,
        uid: str = "",
    ) -> None:
        """Ask for a pod's eviction; ApiError 429 if a disruption budget forbids it now. annotations: of the Eviction. uid: of the pod, if only that one may go;
        ApiError 409 if there is another one."""
        options: meta_v1.DeleteOptions | None = None
        if uid or grace_period_seconds is not None:
            preconditions = meta_v1.Preconditions(uid=uid) if uid else None
            options = meta_v1.DeleteOptions(grace_period_seconds=grace_period_seconds, preconditions=preconditions)
        eviction = policy_v1.Eviction(
            metadata=meta_v1.ObjectMeta(name=name, namespace=namespace, annotations=dict(annotations or {})),
            delete_options=options,
        )
        body = b'{"kind":"Eviction","apiVersion":"policy/v1",' + encode(eviction)[1:]
        await self.transport.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", {}, body)

    async def finalize_namespace(self, namespace: core_v1.Namespace) -> None:
        """Write a namespace's spec.finalizers."""
        body = (
            b'{"kind":"Namespace","apiVersion":"v1",'
            + encode(msgspec.structs.replace(namespace, kind="", api_version=""))[1:]
        )
        await self.transport.request("PUT", f"/api/v1/namespaces/{namespace.metadata.name}/finalize", {}, body)

    async def raw(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> bytes:
        """A request as it is, for what has no method of its own."""
        return await self.transport.request(method, path, query or {}, body, content_type)

    async def _send(self, method: str, path: str, obj: T, kind: Kind, dry_run: bool) -> T:
        query = {"dryRun": "All"} if dry_run else {}
        answer: T = decode(type(obj), await self.transport.request(method, path, query, _body(obj, kind)))
        return answer


def _body(obj: Any, kind: Kind) -> bytes:
    data = encode(obj)
    return data if obj.kind else kind.type_meta + data[1:]


def _meta(obj: Any) -> meta_v1.ObjectMeta:
    metadata: meta_v1.ObjectMeta = obj.metadata
    return metadata


def _query(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}
