"""Has drivers prepare the claims of pods before these start, and take them back when the last pod that uses them has ended (pkg/kubelet/cm/dra/manager.go).

What is prepared stands in a file before and after each call, so that a kubelet that was killed knows what has to be taken back. One thing at a time is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Final

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, resource_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.dynamic_resources.claims import (
    ClaimState,
    PreparedDevice,
    container_claims,
    container_requests,
    usable_state,
    used_claims,
)
from bayplan.kubelet.dynamic_resources.drivers import DraDrivers
from bayplan.kubelet.dynamic_resources.errors import ClaimError
from bayplan.kubelet.dynamic_resources.health import DeviceHealth
from bayplan.kubelet.dynamic_resources.messages import MESSAGES
from bayplan.kubelet.dynamic_resources.metrics import ANY_DRIVER, PREPARE, UNPREPARE, DraMetrics
from bayplan.kubelet.dynamic_resources.state_file import read_claims, write_claims
from bayplan.kubelet.resource_managers.errors import CheckpointError
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

RECONCILE_SECONDS: Final = 60.0


class DraManager:
    """See the module. pods: uids of the pods that may still use devices, None before all are known."""

    def __init__(
        self,
        client: Client,
        drivers: DraDrivers,
        file: Path,
        clock: Clock,
        pods: Callable[[], Collection[str] | None],
        metrics: DraMetrics,
    ) -> None:
        self._client = client
        self._drivers = drivers
        self._file = file
        self._clock = clock
        self._pods = pods
        self._metrics = metrics
        metrics.on_render(self._count)
        self._lock = asyncio.Lock()
        self._claims: dict[tuple[str, str], ClaimState] = {}
        """(namespace, name) -> claim."""

    def load(self) -> None:
        """Read what an earlier kubelet has left. Raises CheckpointError."""
        for claim in read_claims(self._file):
            claim.is_prepared = any(claim.drivers.values())
            self._claims[claim.namespace, claim.name] = claim

    async def prepare(self, pod: core_v1.Pod) -> None:
        """Return when all claims of a pod are prepared. Raises ClaimError."""
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return
        async with self._lock:
            with self._metrics.operation(PREPARE):
                if not self._is_ready(pod):
                    await self._prepare(pod)

    def _is_ready(self, pod: core_v1.Pod) -> bool:
        """Whether nothing is left to do. Raises ClaimError."""
        known = [self._claims.get((pod.metadata.namespace, name)) for _, name, _ in used_claims(pod)]
        return all(one is not None and one.is_prepared and pod.metadata.uid in one.pods for one in known)

    async def _prepare(self, pod: core_v1.Pod) -> None:
        wanted = [await self._usable(pod, name, made_for_pod=own) for _, name, own in used_claims(pod)]
        for state in wanted:  # nothing is noted before all is well, so that a pod that cannot start leaves nothing
            self._drivers.require(list(state.drivers))
            known = self._claims.get((state.namespace, state.name))
            if known is not None and known.uid != state.uid:
                text = f"old ResourceClaim with same name {state.name} and different UID {known.uid} still exists"
                raise ClaimError(f"{text} (previous pod force-deleted?!)")
        claims = [self._claims.setdefault((one.namespace, one.name), one) for one in wanted]
        for claim in claims:
            claim.pods.add(pod.metadata.uid)
        self._save()
        await self._ask_to_prepare([one for one in claims if not one.is_prepared])
        self._save()

    async def _usable(self, pod: core_v1.Pod, name: str, *, made_for_pod: bool) -> ClaimState:
        try:
            claim = await self._client.get(resource_v1.ResourceClaim, name, pod.metadata.namespace)
        except (ApiError, TransportError) as error:
            raise ClaimError(f"fetch ResourceClaim {name}: {error}") from error
        return usable_state(pod, claim, made_for_pod=made_for_pod)

    async def _ask_to_prepare(self, claims: list[ClaimState]) -> None:
        prepared: dict[tuple[str, str], tuple[PreparedDevice, ...]] = {}
        for driver, batch in _by_driver(claims).items():
            answers = await self._ask(driver, "NodePrepareResources", batch, MESSAGES["PrepareResponse"])
            for claim, answer in zip(batch, answers, strict=True):
                prepared[claim.uid, driver] = tuple(_device(one) for one in answer.devices)
        for claim in claims:
            claim.drivers = {driver: prepared[claim.uid, driver] for driver in claim.drivers}
            claim.is_prepared = True

    async def _ask(self, driver: str, call: str, claims: list[ClaimState], answer: type[Any]) -> list[Any]:
        """What a driver says of each of the claims. Raises ClaimError unless all went well."""
        request = MESSAGES["ClaimsRequest"](
            claims=[MESSAGES["Claim"](namespace=one.namespace, uid=one.uid, name=one.name) for one in claims]
        )
        response = await self._drivers.call(driver, call, request, answer)
        found = {entry.key: entry.value for entry in response.claims}
        names = {one.uid: one.name for one in claims}
        for uid, value in found.items():
            if uid not in names:
                raise ClaimError(f"{call} returned result for unknown claim UID {uid}")
            if value.error:
                raise ClaimError(f"{call} failed for ResourceClaim {names[uid]}: {value.error}")
        if len(found) < len(claims):
            raise ClaimError(f"{call} skipped {len(claims) - len(found)} ResourceClaims")
        return [found[one.uid] for one in claims]

    async def unprepare(self, pod_uid: str) -> None:
        """Return when nothing is prepared for a pod any more that no other pod uses. Raises ClaimError."""
        if not any(pod_uid in one.pods for one in self._claims.values()):
            return
        async with self._lock:
            with self._metrics.operation(UNPREPARE):
                await self._unprepare(pod_uid)

    async def _unprepare(self, pod_uid: str) -> None:
        mine = [one for one in self._claims.values() if pod_uid in one.pods]
        last = [one for one in mine if len(one.pods) == 1]
        for driver, batch in _by_driver(last).items():
            await self._ask(driver, "NodeUnprepareResources", batch, MESSAGES["UnprepareResponse"])
        for claim in last:
            self._claims.pop((claim.namespace, claim.name))
        for claim in mine:
            claim.pods.discard(pod_uid)
        self._save()

    def cdi_devices(self, pod: core_v1.Pod, container: AnyContainer) -> tuple[str, ...]:
        """What a container gets, by the runtime's names of devices. Raises ClaimError."""
        if not isinstance(container, core_v1.Container):
            return ()
        found: dict[str, None] = {}
        for name, request in container_requests(pod, container):
            claim = self._claims.get((pod.metadata.namespace, name))
            if claim is None or not claim.is_prepared:
                raise ClaimError(f"ResourceClaim {name} is not prepared")
            found.update(dict.fromkeys(claim.cdi_ids(request)))
        return tuple(found)

    def claims_of(self, pod: core_v1.Pod, container: core_v1.Container) -> list[tuple[str, str, ClaimState]]:
        """(entry of the pod, request or empty for all, claim) of what a container uses; claims that are not known here are left out."""
        try:
            used = container_claims(pod, container)
        except ClaimError:
            return []  # a claim is not even made yet
        found = ((entry, request, self._claims.get((pod.metadata.namespace, name))) for entry, request, name in used)
        return [(entry, request, claim) for entry, request, claim in found if claim is not None]

    def users(self, driver: str, devices: Iterable[DeviceHealth]) -> set[str]:
        """Uids of the pods that use one of a driver's devices."""
        wanted = {(one.pool, one.device) for one in devices}
        return {
            uid
            for claim in self._claims.values()
            if any((one.pool, one.name) in wanted for one in claim.drivers.get(driver, ()))
            for uid in claim.pods
        }

    async def run(self) -> None:
        """Take back what pods have left that are gone, each minute, until cancelled."""
        while True:
            await self._clock.sleep(RECONCILE_SECONDS)
            pods = self._pods()
            if pods is None:
                continue
            for uid in {each for claim in self._claims.values() for each in claim.pods} - set(pods):
                try:
                    await self.unprepare(uid)
                except ClaimError as error:
                    logger.info("claims of pod %s, which is gone, are tried again: %s", uid, error)

    def _count(self) -> None:
        """Say how many claims are in use."""
        prepared = [one for one in self._claims.values() if one.is_prepared]
        counts = Counter(driver for one in prepared for driver in one.drivers)
        self._metrics.in_use.children.clear()
        for driver, count in (*counts.items(), (ANY_DRIVER, len(prepared))):
            self._metrics.in_use.labels(driver).set(count)

    def _save(self) -> None:
        try:
            write_claims(self._file, self._claims.values())
        except CheckpointError as error:
            raise ClaimError(f"checkpoint ResourceClaim state: {error}") from error


def _by_driver(claims: Iterable[ClaimState]) -> dict[str, list[ClaimState]]:
    found: dict[str, list[ClaimState]] = {}
    for claim in claims:
        for driver in claim.drivers:
            found.setdefault(driver, []).append(claim)
    return found


def _device(message: Any) -> PreparedDevice:
    return PreparedDevice(
        message.pool_name,
        message.device_name,
        tuple(message.request_names),
        tuple(message.cdi_device_ids),
        message.share_id,
    )
