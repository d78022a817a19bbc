"""Figures of pools of devices: each ResourcePoolStatusRequest is answered once, from the slices and claims that there are, and goes by itself some time later.

Source of the behaviour: Kubernetes' `pkg/controller/resourcepoolstatusrequest` (KEP-5677).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from bayplan.api.optional_kinds import RESOURCE_POOL_STATUS_REQUEST
from bayplan.api.types import meta_v1, resource_v1, resource_v1alpha3
from bayplan.controllers.base import delete_if_there
from bayplan.controllers.optional_kinds import OptionalController
from bayplan.informers import InformerFactory
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import parse_rfc3339, rfc3339

Request = resource_v1alpha3.ResourcePoolStatusRequest
Status = resource_v1alpha3.ResourcePoolStatusRequestStatus
PoolStatus = resource_v1alpha3.PoolStatus
COMPLETE, FAILED = "Complete", "Failed"
_LIMIT: Final = 100
_LONGEST_ERROR: Final = 256
_MOST_TRIES: Final = 5
"""How often a pool may be found incomplete before nobody waits for its slices any more."""
_CLEANED_EVERY, _KEPT, _WAITED_FOR = 600.0, 3600.0, 24 * 3600.0
"""Seconds between looks for old requests, and after which those with and without an answer are removed."""


class IncompleteError(Exception):
    """Slices of a pool are missing; they may come."""


def status_of(
    request: Request,
    slices: Iterable[resource_v1.ResourceSlice],
    claims: Iterable[resource_v1.ResourceClaim],
    now: float,
) -> Status:
    """The answer to a request. now: unix time."""
    spec = request.spec
    by_pool: dict[str, list[resource_v1.ResourceSlice]] = {}
    for one in slices:
        if one.spec.driver == spec.driver and spec.pool_name in (None, one.spec.pool.name):
            by_pool.setdefault(one.spec.pool.name, []).append(one)
    taken = Counter(
        result.pool
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if result.driver == spec.driver
    )
    pools = [_pool(spec.driver, name, by_pool[name], taken[name]) for name in sorted(by_pool)]
    shown = pools[: spec.limit if spec.limit is not None else _LIMIT]
    missing = sum(one.validation_error is not None for one in shown)
    text = f"Calculated status for {len(shown)} pools" + (f" ({missing} incomplete)" if missing else "")
    return Status(
        pool_count=len(pools),
        pools=tuple(shown),
        conditions=(
            meta_v1.Condition(
                type=COMPLETE,
                status="True",
                last_transition_time=rfc3339(now),
                reason="CalculationComplete",
                message=text,
            ),
        ),
    )


def _pool(driver: str, name: str, slices: list[resource_v1.ResourceSlice], taken: int) -> PoolStatus:
    """One pool, by its slices of the highest generation."""
    generation = max(one.spec.pool.generation for one in slices)
    newest = [one for one in slices if one.spec.pool.generation == generation]
    nodes = {one.spec.node_name for one in newest}
    found = PoolStatus(
        driver=driver, pool_name=name, generation=generation, node_name=nodes.pop() if len(nodes) == 1 else None
    )
    expected = newest[0].spec.pool.resource_slice_count
    if len(newest) < expected:
        text = (
            f"pool {driver}/{name} is incomplete: observed {len(newest)}/{expected} slices at generation {generation}"
        )
        found.validation_error = text[:_LONGEST_ERROR]
        return found
    total = sum(len(one.spec.devices) for one in newest)
    found.resource_slice_count, found.total_devices = len(newest), total
    found.allocated_devices, found.available_devices = taken, max(0, total - taken)
    found.unavailable_devices = 0  # as in 1.36, which does not look at taints yet
    return found


def is_old(request: Request, now: float) -> bool:
    """Whether nobody needs a request any more. now: unix time."""
    created = request.metadata.creation_timestamp
    if request.status is None:
        return bool(created) and now - parse_rfc3339(created or "") > _WAITED_FOR
    since = next((one.last_transition_time for one in request.status.conditions if one.type in (COMPLETE, FAILED)), "")
    since = since or created
    return bool(since) and now - parse_rfc3339(since or "") > _KEPT


class ResourcePoolStatusRequestController(OptionalController):
    """See the module. Keys are names of requests."""

    name = "resourcepoolstatusrequest-controller"
    workers = 1
    kinds = (RESOURCE_POOL_STATUS_REQUEST,)

    def begin(self, informers: InformerFactory) -> None:
        self.requests = informers.informer(Request)
        self.slices = self.informer(resource_v1.ResourceSlice)
        self.claims = self.informer(resource_v1.ResourceClaim)
        self.requests.on_change(add=self._seen, update=lambda old, new: self._seen(new))

    def _seen(self, request: Request) -> None:
        if request.status is None:
            self.queue.add(key_of(request))

    async def work(self) -> None:
        await self.clean_every(_CLEANED_EVERY, self._clean)

    async def _clean(self) -> None:
        now = self.clock.now()
        for request in [one for one in self.requests.cache if is_old(one, now)]:
            await delete_if_there(self.client, request)

    async def reconcile(self, key: str) -> None:
        await self.slices.wait_for_sync()
        await self.claims.wait_for_sync()
        request = self.requests.cache.by_key(key)
        if request is None or request.status is not None:
            return
        status = status_of(request, self.slices.cache, self.claims.cache, self.clock.now())
        if any(one.validation_error is not None for one in status.pools):
            if self.queue.num_requeues(key) < _MOST_TRIES:
                raise IncompleteError(f"incomplete pools of {request.spec.driver}")
            return
        metadata = {"uid": request.metadata.uid, "resourceVersion": request.metadata.resource_version}
        await self.client.patch(Request, key, "", {"metadata": metadata, "status": status}, subresource="status")
