"""The enforcement of network policies on one node: informers feed the state, its changes go to the kernel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

from bayplan.api.types import core_v1, networking_v1
from bayplan.informers import Informer, InformerFactory
from bayplan.network.policy import nftables
from bayplan.network.policy.addresses import Family, family_of
from bayplan.network.policy.bridges import judge_bridged
from bayplan.network.policy.errors import PolicyError, TransactionError
from bayplan.network.policy.metrics import PolicyMetrics
from bayplan.network.policy.objects import pod_entry, policy_entry
from bayplan.network.policy.state import PolicyState
from bayplan.network.policy.table import partial, whole
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry

logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0
_MOST_PROBLEMS: Final = 1000
"""Sentences in the log after which equal ones may come again."""


class PolicyEnforcer:
    """Keeps the policies of one node's pods in the kernel. The factory's informers are its caller's to start."""

    def __init__(
        self,
        factory: InformerFactory,
        node_name: str,
        *,
        clock: Clock,
        registry: Registry,
        families: Iterable[Family] = tuple(Family),
        check_seconds: float = 60.0,
    ) -> None:
        """check_seconds: how often the kernel's tables are compared with what they should be."""
        self._node_name = node_name
        self._clock = clock
        self._randomness = factory.randomness
        self._check_seconds = check_seconds
        self._families = tuple(families)
        self._state = PolicyState(self._families)
        self._metrics = PolicyMetrics(registry)
        self._metrics.watch(lambda: self._state.policies, lambda: self._state.isolated)
        self._changed = asyncio.Event()
        self._changed_at: float | None = None
        """When the oldest change came that is not in the kernel yet."""
        self._synced = False
        self._logged: set[str] = set()
        self._bridges_checked: set[Family] = set()
        self._informers: list[Informer[Any]] = self._follow(factory)

    def has_synced(self) -> bool:
        """Whether the kernel has had all policies since the start of `run`."""
        return self._synced

    async def run(self) -> None:
        """Enforce policies until cancelled; they stay in the kernel. Raises PolicyError if the machine can never do it."""
        await nftables.check_machine(self._families)
        for informer in self._informers:
            await informer.wait_for_sync()
        pause, is_whole = _FIRST_PAUSE, True
        due = self._clock.monotonic() + self._check_seconds
        while True:
            self._changed.clear()
            try:
                await self._sync(is_whole=is_whole)
                if self._clock.monotonic() >= due:
                    await self._check()
                    due = self._clock.monotonic() + self._check_seconds
            except TransactionError as error:
                self._metrics.failures.inc()
                logger.error("network policies are not as they should be, next attempt in %.1f s: %s", pause, error)
                await self._clock.sleep(self._randomness.jitter(pause, 0.2))
                pause, is_whole = min(pause * 2, _LONGEST_PAUSE), True
                continue
            pause, is_whole = _FIRST_PAUSE, False
            await self._wait(due - self._clock.monotonic())

    async def _wait(self, seconds: float) -> None:
        """Return when something has changed, at the latest after some seconds."""
        timer = self._clock.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()

    async def _sync(self, *, is_whole: bool) -> None:
        """Bring changes, or everything, into the kernel. Raises TransactionError."""
        started, changed_at, self._changed_at = self._clock.monotonic(), self._changed_at, None
        self._state.update()
        changes = [(table, table.take_changes()) for table in self._state.tables]
        if is_whole:
            transaction = "".join(whole(table) for table in self._state.tables)
        else:
            transaction = "".join(partial(table.family, change) for table, change in changes if change)
        if transaction:
            try:
                await nftables.apply(transaction)
            except TransactionError:
                self._changed_at = changed_at
                raise
            ended = self._clock.monotonic()
            (self._metrics.whole if is_whole else self._metrics.partial).observe(ended - started)
            if changed_at is not None:
                self._metrics.delay.observe(ended - changed_at)
        self._synced = True
        self._log_problems()
        await self._check_bridges()

    async def _check(self) -> None:
        """Compare the kernel with what it should have, and put it right. Raises TransactionError."""
        self._bridges_checked.clear()
        for table in self._state.tables:
            different = await nftables.difference(table)
            if different:
                logger.warning("nftables table %s: %s; making it anew", table.family, different)
                self._metrics.repairs.inc()
                await nftables.apply(whole(table))

    async def _check_bridges(self) -> None:
        """Once after each check, as soon as the node has pods."""
        if len(self._bridges_checked) == len(self._state.tables):
            return
        for address in self._state.local_addresses():
            family = family_of(address)
            if family not in self._bridges_checked:
                self._bridges_checked.add(family)
                self._log_once(await judge_bridged(address))

    def _log_problems(self) -> None:
        problems = self._state.problems()
        self._metrics.problems.set(len(problems))
        for problem in problems:
            self._log_once(problem)

    def _log_once(self, message: str) -> None:
        if message and message not in self._logged:
            if len(self._logged) >= _MOST_PROBLEMS:
                self._logged.clear()
            self._logged.add(message)
            logger.warning("%s", message)

    def _follow(self, factory: InformerFactory) -> list[Informer[Any]]:
        """Bring all changes into the state."""
        pods, namespaces = factory.informer(core_v1.Pod), factory.informer(core_v1.Namespace)
        policies, nodes = factory.informer(networking_v1.NetworkPolicy), factory.informer(core_v1.Node)
        state, note = self._state, self._note
        pods.on_change(
            add=self._put_pod,
            update=lambda _, new: self._put_pod(new),
            delete=lambda old: note(state.remove_pod(old.metadata.namespace, old.metadata.name)),
        )
        namespaces.on_change(
            add=lambda new: note(state.put_namespace(new.metadata.name, new.metadata.labels)),
            update=lambda _, new: note(state.put_namespace(new.metadata.name, new.metadata.labels)),
            delete=lambda old: note(state.remove_namespace(old.metadata.name)),
        )
        policies.on_change(
            add=self._put_policy,
            update=lambda _, new: self._put_policy(new),
            delete=lambda old: note(state.remove_policy(old.metadata.namespace, old.metadata.name)),
        )
        nodes.on_change(add=self._put_node, update=lambda _, new: self._put_node(new))
        return [pods, namespaces, policies, nodes]

    def _put_pod(self, pod: core_v1.Pod) -> None:
        entry = pod_entry(pod, self._node_name)
        if entry is not None:
            self._note(self._state.put_pod(entry))
        else:
            self._note(self._state.remove_pod(pod.metadata.namespace, pod.metadata.name))

    def _put_policy(self, policy: networking_v1.NetworkPolicy) -> None:
        entry = policy_entry(policy)
        if entry is not None:
            self._note(self._state.put_policy(entry))
        else:
            namespace, name = policy.metadata.namespace, policy.metadata.name
            self._log_once(f"NetworkPolicy {namespace}/{name}: spec.podSelector cannot be read, so it selects nothing")
            self._note(self._state.remove_policy(namespace, name))

    def _put_node(self, node: core_v1.Node) -> None:
        if node.metadata.name == self._node_name:
            networks = tuple(node.spec.pod_cidrs) or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())
            self._note(self._state.set_pod_networks(networks))

    def _note(self, changed: bool) -> None:
        if changed:
            if self._changed_at is None:
                self._changed_at = self._clock.monotonic()
            self._changed.set()


async def remove_policies() -> None:
    """Remove the tables of network policies from the kernel: from then on everything is allowed. Raises PolicyError."""
    try:
        await nftables.remove()
    except TransactionError as error:
        raise PolicyError(f"the tables of network policies cannot be removed: {error}") from error
