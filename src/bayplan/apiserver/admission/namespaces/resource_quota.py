"""ResourceQuota: a namespace holds no more than its quotas allow.

Runs last, when everything else has agreed. The usage of what is admitted is written to the status of the quotas before the object is written, guarded by
their revisions, so that no two requests, on this or another server, can both take what is left. Requests of one namespace that come together are
checked one after the other and written at once. What was charged and then not created is corrected by the ResourceQuota controller, as in Kubernetes.
A quota whose status does not yet say what it limits limits nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from bayplan.api.errors import ApiError, conflict, forbidden_error, internal_error
from bayplan.api.kinds import Kind
from bayplan.api.quota.amounts import Amounts, add, exceeded, increase, masked, negative, parsed, shown, to_wire
from bayplan.api.quota.evaluators import CREATE, UPDATE, Evaluator, evaluator_for
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.chain import AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.reads.cache import ResourceCache
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import ResourcePath
from bayplan.store.errors import Conflict

_TRIES = 1000
_replace = msgspec.structs.replace


class _Charge(NamedTuple):
    """One request that waits for its answer."""

    request: AdmissionRequest
    done: asyncio.Future[None]
    is_counted: bool
    """Whether what it uses is written down: not that of a dry run."""


class ResourceQuota(AdmissionPlugin):
    """See the module. Keeps the requests that wait, by namespace."""

    name = "ResourceQuota"

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Charge]] = {}
        self._evaluators: dict[Kind, Evaluator] = {}
        self._leaders: set[asyncio.Future[None]] = set()
        """What works off waiting requests, one per namespace; kept here so that it is not collected."""

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        if not kind.namespaced or operation not in (CREATE, UPDATE):
            return False
        return self._evaluator(kind).handles(operation, subresource)

    def _evaluator(self, kind: Kind) -> Evaluator:
        found = self._evaluators.get(kind)
        if found is None:
            found = evaluator_for(kind)
            if not kind.is_custom:  # those come and go
                self._evaluators[kind] = found
        return found

    def validate(self, request: AdmissionRequest) -> asyncio.Future[None] | None:
        """Charge the request. Raises ApiError (403) if a quota would be exceeded."""
        bucket = _quotas(request).buckets.get(request.namespace)
        if bucket is None or not bucket.entries:
            return None
        if not self._evaluator(request.kind).is_affected(request.old, request.obj, request.subresource):
            return None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        charge = _Charge(request, done, not request.call.dry_run)
        waiting = self._waiting.get(request.namespace)
        if waiting is not None:
            waiting.append(charge)
            return done
        self._waiting[request.namespace] = [charge]
        leader = asyncio.ensure_future(self._lead(request.namespace))
        self._leaders.add(leader)
        leader.add_done_callback(self._leaders.discard)
        return done

    async def _lead(self, namespace: str) -> None:
        """Work off what waits in a namespace, until nothing does. Whoever asked may have gone away meanwhile."""
        while batch := self._waiting[namespace]:
            self._waiting[namespace] = []
            try:
                await self._charge_all(batch)
            except Exception as error:  # every request gets it as its own
                for charge in batch:
                    if not charge.done.done():
                        charge.done.set_exception(error)
        del self._waiting[namespace]

    async def _charge_all(self, batch: list[_Charge]) -> None:
        """Answer all requests of a batch: write the usage of those that fit, again from the start for a quota that changed meanwhile."""
        cache, namespace = _quotas(batch[0].request), batch[0].request.namespace
        objects = batch[0].request.call.context.objects
        names: set[str] | None = None
        for _ in range(_TRIES):
            entries = [one for one in cache.ordered(namespace) if names is None or one.name in names]
            fitting, used = self._fit(cache, entries, batch)
            names = set()
            for entry, usage in used:
                try:
                    changed = _with_usage(batch[0].request.call, cache, entry, usage)
                    await objects.replace(cache.kind, changed, entry.revision)
                except Conflict as race:
                    await objects.settle(race)
                    names.add(entry.name)
            if not names:
                for charge in fitting:
                    if not charge.done.done():
                        charge.done.set_result(None)
                return
            batch = fitting
        name = next(iter(names or ()))
        raise conflict("resourcequotas", "", name)

    def _fit(
        self, cache: ResourceCache, entries: list[Entry], batch: list[_Charge]
    ) -> tuple[list[_Charge], list[tuple[Entry, Amounts]]]:
        """The requests that fit beside each other, and the quotas whose usage changes. Requests that do not fit are answered."""
        quotas = [cache.shared(entry) for entry in entries]
        used = [parsed(quota.status.used) for quota in quotas]
        changed: set[int] = set()
        fitting = []
        for charge in batch:
            request = charge.request
            if charge.done.done():
                continue
            try:
                wanted = self._check(request, quotas, used)
            except ApiError as error:
                charge.done.set_exception(error)
                continue
            if not (charge.is_counted and wanted):
                charge.done.set_result(None)
                continue
            fitting.append(charge)
            for index, more in wanted.items():
                used[index] = add(used[index], more)
                changed.add(index)
        return fitting, [(entries[index], used[index]) for index in sorted(changed)]

    def _check(
        self, request: AdmissionRequest, quotas: list[core_v1.ResourceQuota], used: list[Amounts]
    ) -> dict[int, Amounts]:
        """What the request adds to which quota, by index. Raises ApiError (403)."""
        evaluator = self._evaluator(request.kind)
        matching = []
        for index, quota in enumerate(quotas):
            if evaluator.matches(quota, request.obj):
                _check_stated(request, evaluator, quota)
                matching.append(index)
        if not matching:
            return {}
        now = request.call.context.clock.now()
        usage = evaluator.usage(request.obj, now)
        below = negative(usage)
        if below:
            raise _refused(request, f"quota usage is negative for resource(s): {','.join(below)}")
        result = {}
        for index in matching:
            quota = quotas[index]
            counted = request.old is not None and evaluator.matches(quota, request.old)
            more = increase(usage, evaluator.usage(request.old, now) if counted else {})
            hard = parsed(quota.status.hard)
            asked = masked(more, hard)
            over = exceeded(masked(add(used[index], asked), asked), hard)
            if over:
                raise _refused(
                    request,
                    f"exceeded quota: {quota.metadata.name}, requested: {shown(masked(asked, over))}, "
                    f"used: {shown(masked(used[index], over))}, limited: {shown(masked(hard, over))}",
                )
            if asked:
                result[index] = asked
        return result


def _check_stated(request: AdmissionRequest, evaluator: Evaluator, quota: core_v1.ResourceQuota) -> None:
    """The object says what the quota counts, and the quota knows what is used. Raises ApiError (403)."""
    required = evaluator.matching(quota.status.hard)
    missing = evaluator.missing(required, request.obj)
    if missing:
        raise _refused(request, f"failed quota: {quota.metadata.name}: must specify {missing}")
    if any(name not in quota.status.used for name in required):
        names = ",".join(sorted(required))
        raise _refused(request, f"status unknown for quota: {quota.metadata.name}, resources: {names}")


def _refused(request: AdmissionRequest, detail: str) -> ApiError:
    kind = request.call.kind
    return forbidden_error(kind.plural, kind.group, request.name, detail)


def _with_usage(call: Any, cache: ResourceCache, entry: Entry, used: Amounts) -> core_v1.ResourceQuota:
    """A new object with this usage, which the server itself manages. `call`: the request that is charged."""
    from bayplan.apiserver.managed_fields.managers import SERVER, track_update  # which needs the chain of plugins

    quota: core_v1.ResourceQuota = cache.shared(entry)
    status = core_v1.ResourceQuotaStatus(hard=quota.status.hard, used=to_wire(used))
    changed = _replace(quota, metadata=_replace(quota.metadata), status=status)
    own = type(call).of(call.context, call.request, ResourcePath(cache.kind, entry.namespace, entry.name, None))
    track_update(own, changed, quota, "status", quota.metadata.managed_fields, manager=SERVER)
    return changed


def _quotas(request: AdmissionRequest) -> ResourceCache:
    context: Any = request.call.context
    kind = context.kinds.of_kind("v1", "ResourceQuota")
    if kind is None:
        raise internal_error("this server has no resource quotas")
    cache: ResourceCache = context.objects.cache(kind)
    return cache
