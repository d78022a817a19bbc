"""Device taint eviction: pods leave when a device that they use gets a NoExecute taint that their claim does not tolerate. When is decided in
`device_taint_rules`.

Slices and claims are followed from when the controllers run, not before.
"""

from __future__ import annotations

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, resource_v1
from bayplan.controllers.base import Controller
from bayplan.controllers.nodes import device_taint_rules as rules
from bayplan.controllers.nodes.eviction import evict
from bayplan.informers.cache import key_of

_SLICES = "slices"
"""The key that stands for all slices together; those of claims are `namespace/name`."""


class DeviceTaintEvictionController(Controller):
    """See the module. Keys are those of claims, and `slices`."""

    name = "device-taint-eviction-controller"
    workers = 4

    def setup(self) -> None:
        self.pods = self.informer(core_v1.Pod)
        self._tainted: dict[rules.DeviceId, tuple[resource_v1.DeviceTaint, ...]] = {}
        self._since: dict[str, float] = {}
        """Key of a claim whose pods have to leave some time -> unix time when that was first seen, from which taints without a time count."""

    async def run_background(self) -> None:
        self.claims = self.informer(resource_v1.ResourceClaim)
        self.slices = self.informer(resource_v1.ResourceSlice)
        self.claims.on_change(
            add=self._claim_seen,
            update=lambda old, new: self._claim_seen(new),
            delete=lambda claim: self._forget(key_of(claim)),
        )
        self.slices.on_change(
            add=lambda one: self.queue.add(_SLICES),
            update=lambda old, new: self.queue.add(_SLICES),
            delete=lambda one: self.queue.add(_SLICES),
        )

    def _claim_seen(self, claim: resource_v1.ResourceClaim) -> None:
        if self._tainted or key_of(claim) in self._since:
            self.queue.add(key_of(claim))

    def _forget(self, key: str) -> None:
        self._since.pop(key, None)

    def _slices_changed(self) -> None:
        tainted = rules.tainted_devices(self.slices.cache)
        if tainted == self._tainted:
            return
        self._tainted = tainted
        for claim in self.claims.cache:
            if claim.status.allocation is not None:
                self.queue.add(key_of(claim))

    async def reconcile(self, key: str) -> None:
        if key == _SLICES:
            self._slices_changed()
            return
        await self.claims.wait_for_sync()
        claim: resource_v1.ResourceClaim | None = self.claims.cache.by_key(key)
        if claim is None:
            return
        now = self.clock.now()
        when = rules.eviction_time(claim, self._tainted, self._since.get(key, now))
        if when is None:
            if self._since.pop(key, None) is not None:
                self._tell(claim, "Cancelling deletion of Pod")
            return
        self._since.setdefault(key, now)
        if when > now:
            self.queue.add_after(key, when - now)
            return
        for pod in self._users(claim):
            await self._evict(key, pod)

    def _users(self, claim: resource_v1.ResourceClaim) -> list[core_v1.Pod]:
        """Pods that use a claim and stay."""
        found = []
        for one in claim.status.reserved_for:
            pod: core_v1.Pod | None = self.pods.cache.get(claim.metadata.namespace, one.name)
            if (
                one.resource == "pods"
                and not one.api_group
                and pod is not None
                and pod.metadata.uid == one.uid
                and not pod.metadata.deletion_timestamp
                and pod.status.phase not in ("Succeeded", "Failed")
            ):
                found.append(pod)
        return found

    def _tell(self, claim: resource_v1.ResourceClaim, what: str) -> None:
        for pod in self._users(claim):
            self.recorder.event(pod, "Normal", "DeviceTaintManagerEviction", f"{what} {key_of(pod)}")

    async def _evict(self, key: str, pod: core_v1.Pod) -> None:
        try:
            text = "Device Taint manager: deleting due to NoExecute taint"
            await evict(self.client, pod, "DeletionByDeviceTaintManager", text, self.clock.now())
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
            elif error.code != 404:
                raise
        else:
            text = f"Marking for deletion Pod {key_of(pod)}"
            self.recorder.event(pod, "Normal", "DeviceTaintManagerEviction", text)
