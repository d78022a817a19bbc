"""Asking the conversion webhook of a definition, and what it said of late.

Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/apiserver/conversion`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from bayplan.api.codec import DecodeError, decode_reporting, encode, to_tree
from bayplan.api.conversions.kinds import WebhookNeeded
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.errors import ApiError, failure, internal_error
from bayplan.api.kinds import Kind
from bayplan.api.types import apiextensions_v1, core_v1
from bayplan.apiserver.authorization.waiting import decided
from bayplan.apiserver.context import Call, Context
from bayplan.apiserver.custom_resources.mixed_cache import MixedEntry, mixed
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.webhooks.calling import SendError, SimulatedTarget, target_of, url_of
from bayplan.apiserver.webhooks.conversion_reviews import (
    Batch,
    ConversionError,
    FailureType,
    Tree,
    question,
    read_answer,
    version_for,
    without_revision,
)
from bayplan.support.memory.memo import Memo
from bayplan.support.metrics.instruments import Registry, exponential_buckets

_SECONDS: Final = 30
"""How long a webhook may take, as in Kubernetes."""
_REMEMBERED_BYTES = 32 << 20
"""How many converted objects of a definition are kept, and how large they are altogether at most."""
_MOST_REPEATS: Final = 500
"""How often a step may need one more object: it is wrong if it needs others each time."""
T = TypeVar("T")


class _Key(NamedTuple):
    """What tells conversions apart."""

    source: str
    target: str
    """Names of versions."""
    body: bytes
    """The original, with its resourceVersion."""


class WebhookConverter:
    """The objects of one definition in other versions. What has been converted is not asked for again as long as it is remembered."""

    def __init__(self, context: Context, definition: apiextensions_v1.CustomResourceDefinition) -> None:
        conversion = definition.spec.conversion
        assert conversion is not None
        assert conversion.webhook is not None
        assert conversion.webhook.client_config is not None
        self._context = context
        self._name = definition.metadata.name
        self._source = core_v1.ObjectReference(
            kind="CustomResourceDefinition",
            api_version="apiextensions.k8s.io/v1",
            name=self._name,
            uid=definition.metadata.uid,
        )
        self._client = conversion.webhook.client_config
        self._accepted = conversion.webhook.conversion_review_versions
        self._group = definition.spec.group
        self._versions = {version.name for version in definition.spec.versions}
        self._metrics = _Metrics(context.metrics)
        self._known: Memo[_Key, MixedEntry] = Memo("converted_objects", most_bytes=_REMEMBERED_BYTES)
        self._under_way: dict[_Key, asyncio.Task[dict[_Key, MixedEntry]]] = {}
        """The calls that will say what has been asked for and is not known yet: whoever wants it, too, waits for them."""

    async def entries(self, kind: CustomKind, entries: Sequence[MixedEntry]) -> list[MixedEntry]:
        """See Converter. All that is not known is asked for by one call."""
        found: dict[_Key, MixedEntry] = {}
        missing: dict[_Key, MixedEntry] = {}
        waiting: dict[asyncio.Task[dict[_Key, MixedEntry]], None] = {}
        for entry in entries:
            if entry.kind.version == kind.version:
                continue
            key = _key(entry, kind)
            known = self._known.get(key)
            if known is not None:
                found[key] = known
            elif key in self._under_way:
                waiting[self._under_way[key]] = None
            else:
                missing[key] = entry
        if missing:
            task = asyncio.create_task(self._ask_for(kind, missing), name=f"conversion of {self._name}")
            self._under_way |= dict.fromkeys(missing, task)
            waiting[task] = None
        for task in waiting:
            found |= await asyncio.shield(task)  # others may wait for it, who have not gone
        return [found.get(_key(entry, kind), entry) for entry in entries]

    async def object(self, obj: CustomObject, source: Kind, target: CustomKind) -> CustomObject:
        """See Converter."""
        tree = {"kind": source.kind, "apiVersion": source.api_version, **to_tree(obj)}
        return self._read(target, (await self._convert(target, [tree]))[0])

    async def _ask_for(self, kind: CustomKind, missing: dict[_Key, MixedEntry]) -> dict[_Key, MixedEntry]:
        try:
            trees = await self._convert(kind, [_tree(entry) for entry in missing.values()])
            found = {
                key: self._entry(kind, entry, tree) for (key, entry), tree in zip(missing.items(), trees, strict=True)
            }
        finally:
            for key in missing:
                del self._under_way[key]
        for key, entry in found.items():
            self._remember(key, entry)
        return found

    def _entry(self, kind: CustomKind, original: MixedEntry, tree: Tree) -> MixedEntry:
        obj = self._read(kind, tree)
        place, revisions = (original.namespace, original.name), (original.revision, original.create_revision)
        return MixedEntry(place, revisions, obj, encode(obj)[1:], original.kept_in)

    def _read(self, kind: CustomKind, tree: Tree) -> CustomObject:
        """A converted object as the schema of its version wants it. Raises ApiError (500)."""
        try:
            obj, _ = decode_reporting(kind.type, encode(tree))
        except DecodeError as error:
            raise failure(500, "", str(error), details=False) from error
        obj.kind = obj.api_version = ""
        found: CustomObject = obj
        return found

    def _remember(self, key: _Key, entry: MixedEntry) -> None:
        self._known.put(key, entry, len(key.body) + len(entry.body))

    async def _convert(self, target: CustomKind, originals: Sequence[Tree]) -> list[Tree]:
        """Objects of other versions in a version, in the same order. Raises ApiError (500)."""
        for tree in originals:
            version = tree["apiVersion"].rpartition("/")[2]
            if version not in self._versions:
                text = f"request to convert CR from an invalid group/version: {self._group}/{version}"
                raise failure(500, "", text, details=False)
        batch = Batch([without_revision(tree) for tree in originals], target.api_version)
        started = self._context.clock.now()
        problem: ConversionError | None = None
        try:
            trees = await self._call(batch)
        except ConversionError as error:
            problem = error
            raise failure(500, "", str(error), details=False) from error
        finally:
            source = originals[0]["apiVersion"].rpartition("/")[2]
            seconds = self._context.clock.now() - started
            self._metrics.record(self._name, source, target.version, seconds, problem)
        return [_with_revision_of(original, tree) for original, tree in zip(originals, trees, strict=True)]

    async def _call(self, batch: Batch) -> list[Tree]:
        """Raises ConversionError."""
        context = self._context
        version, uid = version_for(self._accepted), context.randomness.uuid4()
        body = question(version, uid, batch)
        try:
            if context.webhook_sender is None:
                raise SendError("this server calls none")
            data = await context.webhook_sender.post(target_of(context, self._client), body, _SECONDS)
        except SendError as error:
            if isinstance(error, SimulatedTarget):
                context.simulated_reports.note(self._source, f"objects cannot be converted: {error}")
            shown = error.told(f"{url_of(self._client)}?timeout={_SECONDS}s")
            raise ConversionError(f"{batch.named} failed: {shown}", FailureType.CALL) from error
        return read_answer(version, uid, data, batch)


def _key(entry: MixedEntry, kind: CustomKind) -> _Key:
    return _Key(entry.kind.version, kind.version, entry.body)


def _tree(entry: MixedEntry) -> Tree:
    """The object of an entry, as it is sent."""
    return {"kind": entry.kind.kind, "apiVersion": entry.kind.api_version, **msgspec.json.decode(b"{" + entry.body)}


def _with_revision_of(original: Tree, tree: Tree) -> Tree:
    """A converted object with the resourceVersion of the original, which the webhook was not told."""
    revision = original["metadata"].get("resourceVersion")
    return {**tree, "metadata": {**tree["metadata"], "resourceVersion": revision}} if revision else tree


class _Metrics:
    """How often webhooks were called, and how long that took, under Kubernetes' names."""

    def __init__(self, registry: Registry) -> None:
        self._of_definition = registry.histogram(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "CRD webhook conversion duration in seconds",
            ("crd_name", "from_version", "to_version", "succeeded"),
            exponential_buckets(0.001, 2, 15),
        )
        self._calls = registry.counter(
            "apiserver_conversion_webhook_request_total",
            "Counter for conversion webhook requests with success/failure and failure error type",
            ("result", "failure_type"),
        )
        self._durations = registry.histogram(
            "apiserver_conversion_webhook_duration_seconds",
            "Conversion webhook request latency",
            ("result", "failure_type"),
            (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0),
        )

    def record(self, name: str, source: str, target: str, seconds: float, problem: ConversionError | None) -> None:
        """Count a conversion from a version to another, which took so long."""
        self._of_definition.labels(name, source, target, "false" if problem else "true").observe(seconds)
        if problem is not None and problem.failure_type is None:
            return
        kind = problem.failure_type.value if problem is not None and problem.failure_type else ""
        labels = ("failure" if problem else "success", kind)
        self._calls.labels(*labels).inc()
        self._durations.labels(*labels).observe(seconds)


async def resolved(call: Call, step: Callable[[], T]) -> T:
    """The outcome of a step that may need objects in versions, or decisions, that only a webhook knows.

    It is asked for them, and the step is repeated: until it is through, it must not have changed anything. Raises ApiError.
    """
    for _ in range(_MOST_REPEATS):
        try:
            return await decided(step)
        except WebhookNeeded as needed:
            converter = mixed(call.context.objects.cache(needed.target)).converter
            try:
                found = await converter.object(needed.obj, needed.source, needed.target)
            except ApiError as error:
                raise failure(500, "", f"{needed.purpose}{error.message}", details=False) from error
            call.note_converted(needed, found)
    raise internal_error(f"{call.kind.kind} {call.path.name} is never the same twice when it is converted")


async def rehearsed(call: Call, entry: Entry) -> Entry:
    """An entry that is only shown (dry run) as it would be read again if it were kept. Raises ApiError (500)."""
    if not call.kind.asks_webhook:
        return entry
    cache = mixed(call.context.objects.cache(call.kind))
    kept = await cache.in_version(cache.kind, [entry])
    return (await cache.in_version(call.kind, kept))[0]
