"""Long random runs of the core: pods of every kind come, are placed, fail to be bound, are evicted and go.

After every step no node is over-committed, no device or volume is given twice, and no gang is half placed; when all
pods are gone nothing is left of them.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler.binding_cycle import failed
from bayplan.scheduler.core import Outcome
from bayplan.scheduler.snapshot.pods import pod_key
from tests.scheduler.devices import claim as device_claim
from tests.scheduler.devices import device, device_class, slice_of
from tests.scheduler.gangs.test_gangs import group
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.test_volume_binding import claim as volume_claim
from tests.scheduler.plugins.test_volume_binding import storage_class, volume
from tests.scheduler.test_core import Setup

NODES = 4
STEPS = 120
GANG = 3


class Run:
    """One run, with what the API server would know."""

    def __init__(self, seed: int, failures: float) -> None:
        self.random = random.Random(seed)
        self.failures = failures
        self.setup = Setup()
        self.core = self.setup.core
        self.pods: dict[str, Pod] = {}
        self.count = 0
        for index in range(NODES):
            name = f"n{index}"
            self.setup.see("Node", node(name, cpu="2", pods="6"))
            self.setup.see("ResourceSlice", slice_of(name, device("g0")))
            self.setup.see("PersistentVolume", volume(f"disk-{name}", name))
        self.setup.see("DeviceClass", device_class())
        self.setup.see("StorageClass", storage_class())

    def step(self) -> None:
        """Something happens."""
        action = self.random.choice(
            ("plain", "plain", "urgent", "device", "volume", "gang", "delete", "delete", "wait")
        )
        if action == "delete":
            if self.pods:
                self.delete(self.random.choice(sorted(self.pods)))
        elif action == "wait":
            self.setup.clock.seconds += self.random.choice((1, 5, 20))
        else:
            self.create(action)
        for _ in range(self.random.randint(0, 4)):
            self.attempt()

    def create(self, kind: str) -> None:
        """Pods of a kind come, with what they need."""
        self.count += 1
        name = f"{kind}{self.count}"
        cpu = self.random.choice(("200m", "700m", "1"))
        fields: dict[str, Any] = {}
        if kind == "device":
            self.setup.see("ResourceClaim", device_claim(name))
            fields["resourceClaims"] = [{"name": "r", "resourceClaimName": name}]
        elif kind == "volume":
            self.setup.see("PersistentVolumeClaim", volume_claim(name))
            fields["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        elif kind == "urgent":
            fields["priority"] = 10
        elif kind == "gang":
            self.setup.see("PodGroup", group(name, GANG))
            for index in range(GANG):
                self.see(pod(f"{name}-{index}", cpu=cpu, schedulingGroup={"podGroupName": name}))
            return
        self.see(pod(name, cpu=cpu, **fields))

    def see(self, tree: Tree) -> None:
        made = self.setup.see("Pod", tree)
        self.pods[pod_key(made)] = made

    def delete(self, key: str) -> None:
        """A pod goes, and its gang with it: nobody would run the rest."""
        made = self.pods.pop(key)
        self.setup.gone("Pod", made)
        if made.spec.scheduling_group is not None:
            prefix = key.rpartition("-")[0]
            for other in [name for name in self.pods if name.rpartition("-")[0] == prefix]:
                self.setup.gone("Pod", self.pods.pop(other))

    def attempt(self) -> None:
        """One attempt, and what becomes of it."""
        outcome = self.core.schedule_one()
        if outcome is None:
            return
        for victim in outcome.decision.victims:
            if victim in self.pods:
                self.delete(victim)
        if not outcome.decision.scheduled:
            return
        info = outcome.queued.pod
        if self.random.random() < self.failures or info.key not in self.pods:
            self.fail(outcome)
        else:
            self.bind(outcome)

    def fail(self, outcome: Outcome) -> None:
        if outcome.binding_cycle is not None:
            outcome.binding_cycle.undo()
        error = failed("Bind", "DefaultBinder", RuntimeError("no"))
        self.core.binding_failed(outcome.queued.pod, error)

    def bind(self, outcome: Outcome) -> None:
        """The Binding is written; the binding cycle's memory goes as far as tests may let it."""
        key, binding_cycle = outcome.queued.pod.key, outcome.binding_cycle
        if binding_cycle is not None:
            binding_cycle.settle()
        self.core.bound(outcome.queued.pod)
        self.pods[key] = self.setup.bound(self.pods[key], outcome.decision.node or "")

    def check(self) -> None:
        """What must hold at any time."""
        snapshot = self.core.snapshot
        requested: Counter[str] = Counter()
        for info in snapshot.pods.values():
            requested[info.node_name] += dict(info.requests).get(0, 0)
        for name, row in snapshot.row_of.items():
            assert snapshot.requested[0, row] == requested[name] <= 2000
            assert snapshot.pod_count[row] == len(snapshot.pods_on[row]) <= 6
        given = [
            (result.pool, result.device)
            for item in snapshot.catalog.pending_allocations.values()
            if item.status.allocation is not None
            for result in item.status.allocation.devices.results
        ]
        assert len(set(given)) == len(given)
        owners = [item.spec.claim_ref.name for item in snapshot.catalog.volumes.values() if item.spec.claim_ref]
        assert len(set(owners)) == len(owners)

    def check_gangs(self) -> None:
        """Between attempts every gang is placed as a whole or not at all."""
        placed = Counter(
            info.pod.spec.scheduling_group.pod_group_name
            for info in self.core.snapshot.pods.values()
            if info.pod.spec.scheduling_group is not None
        )
        assert set(placed.values()) <= {GANG}


def finish(run: Run) -> None:
    """All pods go; nothing may be left."""
    for key in sorted(run.pods):
        if key in run.pods:
            run.delete(key)
    for _ in range(GANG):
        # Of a gang, decided about as a whole, some outcomes may still be to come.
        run.attempt()
    run.check()
    snapshot = run.core.snapshot
    assert not snapshot.pods
    assert not snapshot.requested[:, : snapshot.size].any()
    assert not any(snapshot.claim_users.values())
    assert len(run.core.queue) == len(run.core.waiting) == len(run.core.nominator) == len(run.core.cache) == 0


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_given_twice_or_left_behind(seed: int) -> None:
    run = Run(seed, failures=0.2)
    for _ in range(STEPS):
        run.step()
        run.check()
    finish(run)


@pytest.mark.parametrize("seed", range(12))
def test_no_gang_is_ever_half_placed(seed: int) -> None:
    run = Run(100 + seed, failures=0.0)
    for _ in range(STEPS):
        run.step()
        run.check()
        run.check_gangs()
    finish(run)


def test_equal_seeds_give_equal_runs() -> None:
    def trace(seed: int) -> list[tuple[str, str]]:
        run = Run(seed, failures=0.1)
        for _ in range(STEPS):
            run.step()
        return sorted((key, made.spec.node_name) for key, made in run.pods.items())

    assert trace(7) == trace(7)
    assert msgspec.json.encode(trace(7)) != msgspec.json.encode(trace(8))
