"""Device taint eviction: pods leave when a device that they use gets a NoExecute taint that their claim does not tolerate, from its slice or from a
DeviceTaintRule, where the server has such. When is decided in `device_taint_rules`.

Slices and claims are followed from when the controllers run, not before. What becomes of a rule is told in its status.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from bayplan.api.codec import encode
from bayplan.api.device_taints import Rule, rules_of, slices_with_rules
from bayplan.api.errors import ApiError
from bayplan.api.optional_kinds import DEVICE_TAINT_RULE, NEWER_DEVICE_TAINT_RULE
from bayplan.api.types import core_v1, resource_v1
from bayplan.client.client import APPLY_PATCH
from bayplan.controllers.base import condition_of
from bayplan.controllers.nodes import device_taint_rules as rules
from bayplan.controllers.nodes.eviction import evict
from bayplan.controllers.optional_kinds import OptionalController
from bayplan.controllers.pods import is_active
from bayplan.informers import Informer, InformerFactory
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import parse_rfc3339, rfc3339

_SLICES = "slices"
"""The key that stands for all slices together; those of claims are `namespace/name`, those of rules begin with `_RULE`."""
_RULE: Final = "rule:"
_STATUS_SECONDS: Final = 10.0
"""The shortest time between two changes of the status of a rule."""


class DeviceTaintEvictionController(OptionalController):
    """See the module. Keys are those of claims and rules, and `slices`."""

    name = "device-taint-eviction-controller"
    workers = 4
    kinds = (DEVICE_TAINT_RULE, NEWER_DEVICE_TAINT_RULE)

    def setup(self) -> None:
        self._rules: Informer[Any] | None = None
        self._evicted: dict[str, int] = {}
        """Pods that were evicted for a rule, by its uid."""
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
        await super().run_background()

    def begin(self, informers: InformerFactory) -> None:
        assert self.kind is not None
        self._rules = informers.informer(self.kind.type)
        self._rules.on_change(
            add=self._rule_changed,
            update=lambda old, new: self._rule_changed(new) if old.spec != new.spec else None,
            delete=lambda rule: self.queue.add(_SLICES),
        )

    def _rule_changed(self, rule: Rule) -> None:
        self.queue.add(_SLICES)
        self.queue.add(f"{_RULE}{rule.metadata.name}")

    def _claim_seen(self, claim: resource_v1.ResourceClaim) -> None:
        if self._tainted or key_of(claim) in self._since:
            self.queue.add(key_of(claim))

    def _forget(self, key: str) -> None:
        self._since.pop(key, None)

    def _slices_changed(self) -> None:
        tainted = rules.tainted_devices(slices_with_rules(self.slices.cache, self._all_rules()))
        if tainted == self._tainted:
            return
        self._tainted = tainted
        for claim in self.claims.cache:
            if claim.status.allocation is not None:
                self.queue.add(key_of(claim))

    def _all_rules(self) -> list[Rule]:
        return list(self._rules.cache) if self._rules is not None else []

    async def reconcile(self, key: str) -> None:
        if key == _SLICES:
            self._slices_changed()
            return
        if key.startswith(_RULE):
            await self._tell_rule(key, key.removeprefix(_RULE))
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
            if await self._evict(key, pod):
                self._count(claim)

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
                and is_active(pod)
            ):
                found.append(pod)
        return found

    def _tell(self, claim: resource_v1.ResourceClaim, what: str) -> None:
        for pod in self._users(claim):
            self.recorder.event(pod, "Normal", "DeviceTaintManagerEviction", f"{what} {key_of(pod)}")

    def _count(self, claim: resource_v1.ResourceClaim) -> None:
        """A pod was evicted: the rules say so that taint what it used."""
        for rule in rules_of(claim, self._all_rules()):
            if rule.spec.taint.effect == rules.NO_EXECUTE:
                self._evicted[rule.metadata.uid] = self._evicted.get(rule.metadata.uid, 0) + 1
                self.queue.add_after(f"{_RULE}{rule.metadata.name}", _STATUS_SECONDS)

    async def _tell_rule(self, key: str, name: str) -> None:
        """Write what becomes of a rule into its status, not too often."""
        rule = self._rules.cache.by_key(name) if self._rules is not None else None
        if rule is None:
            return
        await asyncio.gather(self.claims.wait_for_sync(), self.slices.wait_for_sync())
        told = condition_of(rule.status.conditions, rules.EVICTION)
        now = self.clock.now()
        if told is not None and told.observed_generation == rule.metadata.generation and told.last_transition_time:
            left = parse_rfc3339(told.last_transition_time) + _STATUS_SECONDS - now
            if left > 0:
                self.queue.add_after(key, left)
                return
        pending = [pod for claim in self.claims.cache if rules.would_leave(claim, rule) for pod in self._users(claim)]
        wanted = rules.rule_condition(
            rule,
            pending={key_of(pod): pod.metadata.namespace for pod in pending},
            evicted=self._evicted.get(rule.metadata.uid, 0),
            devices=rules.selected_devices(rule, self.slices.cache, self.claims.cache),
        )
        if told is not None and rules.is_same(told, wanted):
            return
        wanted.last_transition_time = rfc3339(now)
        kind = self.kind
        assert kind is not None
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "uid": rule.metadata.uid},
            "status": {"conditions": [wanted]},
        }
        query = {"fieldManager": self.name, "force": "true"}
        try:
            await self.client.raw("PATCH", kind.path("", name, "status"), query, encode(body), APPLY_PATCH)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _evict(self, key: str, pod: core_v1.Pod) -> bool:
        """Whether the pod is going now because of this."""
        try:
            text = "Device Taint manager: deleting due to NoExecute taint"
            await evict(self.client, pod, "DeletionByDeviceTaintManager", text, self.clock.now())
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
            elif error.code != 404:
                raise
            return False
        text = f"Marking for deletion Pod {key_of(pod)}"
        self.recorder.event(pod, "Normal", "DeviceTaintManagerEviction", text)
        return True
