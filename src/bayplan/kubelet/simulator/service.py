"""The service that plays all simulated nodes over one client."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from bayplan.api.errors import ApiError
from bayplan.api.nodes import SIMULATED
from bayplan.api.types import coordination_v1, core_v1
from bayplan.api.types.scalars import Quantity
from bayplan.client import Client
from bayplan.client.events import EventRecorder
from bayplan.informers import InformerFactory
from bayplan.informers.cache import key_of
from bayplan.kubelet.simulator.admission import NodeAdmission
from bayplan.kubelet.simulator.nodes.addresses import Addresses
from bayplan.kubelet.simulator.nodes.groups import is_new, seconds_to_ready
from bayplan.kubelet.simulator.nodes.node_reports import NodeReports
from bayplan.kubelet.simulator.nodes.objects import (
    LEASE_NAMESPACE,
    hosts_of,
    is_erased,
    is_lost,
    is_silent,
    node_name,
    offer,
    pod_network,
)
from bayplan.kubelet.simulator.nodes.pressure import MemoryWatch
from bayplan.kubelet.simulator.nodes.registration import AT_ONCE, Registration, batches
from bayplan.kubelet.simulator.pod_player import PodPlayer
from bayplan.kubelet.simulator.resizing import Resizing
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.tasks import Supervisor
from bayplan.workqueue.queue import WorkQueue

if TYPE_CHECKING:
    from bayplan.kubelet.simulator.stages.stage_player import StagePlayer
    from bayplan.kubelet.simulator.stages.stages import Stage

logger = logging.getLogger(__name__)
T = TypeVar("T")

_WORKERS = 64
_MOST_SLICES = 40
"""Into how many parts a period is divided, at most, in which leases are renewed."""
_NODE = "node "
"""What keys of nodes begin with; those of pods are `namespace/name`."""
_LAST_SIGN = "last sign of "
"""What keys of nodes that fall silent begin with."""
_STAGED = "stages of "
"""What keys of nodes begin with whose stages are looked at."""
_OFFER = "offer of "
"""What keys of nodes begin with that have got or lost resources."""


class NodeSimulator:
    """Creates its nodes, keeps their leases, and leads every pod that is bound to one of them through its life."""

    def __init__(self, client: Client, settings: SimulatorSettings, *, clock: Clock, randomness: Randomness) -> None:
        self.client = client
        self.settings = settings
        self.clock = clock
        self.randomness = randomness
        self.informers = InformerFactory(client, clock, randomness)
        self.nodes = self.informers.informer(core_v1.Node)
        self.pods = self.informers.informer(core_v1.Pod)
        self.pods.add_index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
        self.leases = self.informers.informer(coordination_v1.Lease, LEASE_NAMESPACE)
        self.queue: WorkQueue[str] = WorkQueue("node-simulator", clock=clock)
        self._index = {node_name(settings, index): index for index in range(settings.nodes)}
        self._own = frozenset(self._index)
        """Nodes of the shape that the settings give."""
        self._addresses: dict[str, Addresses] = {}
        self._offers: dict[str, dict[str, Quantity | None]] = {}
        """Resources of nodes that are not allocatable yet, with their amounts; None for those that are gone."""
        self.recorder = EventRecorder(client, "kubelet", clock, randomness)
        self._resizing = Resizing()
        self._admission = NodeAdmission(lambda name: self.nodes.cache.get("", name))
        self._reports = NodeReports(
            client, settings, nodes=self.nodes, leases=self.leases, clock=clock, recorder=self.recorder
        )
        self._registration = Registration(
            client,
            settings,
            nodes=self.nodes,
            leases=self.leases,
            clock=clock,
            randomness=randomness,
            reports=self._reports,
        )
        staged = {kind: tuple(one for one in settings.stages if one.kind == kind) for kind in ("Pod", "Node")}
        self._player: StagePlayer | PodPlayer = (
            self._stage_player(staged["Pod"]) if staged["Pod"] else self._pod_player()
        )
        self._node_player = self._stage_player(staged["Node"]) if staged["Node"] else None
        self._memory = self._memory_watch(self._player) if isinstance(self._player, PodPlayer) else None

    async def run(self) -> None:
        """Play until cancelled."""
        async with Supervisor("node-simulator") as tasks:
            self.informers.start()
            try:
                await self.informers.wait_for_sync()
                await self._registration.register(self._index)
                self.pods.on_change(add=self._touch, update=self._changed, delete=self._gone)
                self.nodes.on_change(add=self._node_added, update=self._node_changed, delete=self._node_gone)
                tasks.spawn("leases", self._keep_leases())
                tasks.spawn("events", self.recorder.run())
                if self._memory is not None:
                    tasks.spawn("memory", self._memory.run())
                for number_ in range(_WORKERS):
                    tasks.spawn(f"worker {number_}", self.queue.serve(self._process))
                await asyncio.Event().wait()
            finally:
                self.queue.shut_down()
                await self.informers.stop()

    def _stage_player(self, stages: Sequence[Stage]) -> StagePlayer:
        """Who leads objects through stages."""
        from bayplan.kubelet.simulator.stages.stage_player import StagePlayer

        return StagePlayer(
            self.client,
            stages,
            clock=self.clock,
            randomness=self.randomness,
            recorder=self.recorder,
            host_ip=self._host_ip,
            pod_ip=self._pod_ip,
        )

    def _pod_player(self) -> PodPlayer:
        """Who leads pods through their usual life."""
        return PodPlayer(
            self.client,
            self.settings,
            clock=self.clock,
            randomness=self.randomness,
            recorder=self.recorder,
            admission=self._admission,
            node=lambda name: self.nodes.cache.get("", name),
            others=self._others,
            host_ip=self._host_ip,
            pod_ip=self._pod_ip,
        )

    def _memory_watch(self, player: PodPlayer) -> MemoryWatch:
        """Who evicts pods of nodes that run out of memory."""

        def node(name: str) -> core_v1.Node | None:
            found = self.nodes.cache.get("", name)
            return found if found is not None and not is_silent(found) else None

        return MemoryWatch(
            self.clock,
            node=node,
            pods=lambda name: self.pods.cache.by_index("node", name),
            evict=player.evict,
            reports=self._reports,
        )

    # Nodes

    def plays(self, name: str) -> bool:
        """Whether a node is one of ours: created here, or marked as simulated by somebody else."""
        if name in self._index:
            return True
        node = self.nodes.cache.get("", name)
        if node is None or SIMULATED not in node.metadata.annotations:
            return False
        self._index[name] = max(self._index.values(), default=-1) + 1
        return True

    def is_silent(self, name: str) -> bool:
        """Whether a node is to be without contact."""
        node = self.nodes.cache.get("", name)
        return node is not None and is_silent(node)

    def _node_added(self, node: core_v1.Node) -> None:
        """A node that somebody made for us to play reports itself, when its time has come."""
        if node.metadata.name not in self._own and SIMULATED in node.metadata.annotations:
            self.queue.add(_NODE + node.metadata.name)
        self._stage(node)

    def _stage(self, node: core_v1.Node) -> None:
        """A node may have come to another stage."""
        if self._node_player is not None and self.plays(node.metadata.name):
            self.queue.add(_STAGED + node.metadata.name)

    async def _advance_node(self, name: str) -> None:
        """Carry out what the stages say of a node. Raises StageError, ApiError, TransportError."""
        node = self.nodes.cache.get("", name)
        if node is None or self._node_player is None or is_silent(node):
            return
        wait = await self._node_player.advance(node)
        if wait is not None:
            self.queue.add_after(_STAGED + name, wait)

    def _node_gone(self, node: core_v1.Node) -> None:
        if self._node_player is not None:
            self._node_player.forget(node)
        self._offers.pop(node.metadata.name, None)
        self._forget_node(node.metadata.name)

    def _forget_node(self, name: str) -> None:
        """A node that is gone is forgotten once its pods have gone too."""
        if name not in self._own and not self.pods.cache.by_index("node", name):
            self._index.pop(name, None)
            self._addresses.pop(name, None)
            self._reports.images.forget(name)

    def _node_changed(self, old: core_v1.Node, new: core_v1.Node) -> None:
        """A node that is back, or was taken for lost or wiped though it lives, reports itself."""
        if old.status.allocatable != new.status.allocatable:
            self._retry_resizes(new.metadata.name)
        if (offered := offer(old, new)) and self.plays(new.metadata.name):
            self._offers[new.metadata.name] = {**self._offers.get(new.metadata.name, {}), **offered}
            self.queue.add(_OFFER + new.metadata.name)
        back = is_silent(old) and not is_silent(new)
        if is_silent(new) and not is_silent(old):
            self.queue.add(_LAST_SIGN + new.metadata.name)
        elif back or ((is_lost(new) or is_erased(new)) and not is_silent(new)):
            self.queue.add(_NODE + new.metadata.name)
        self._stage(new)

    async def _make_allocatable(self, name: str) -> None:
        """Tell of resources that a node has got or lost. Raises ApiError, TransportError."""
        if self.is_silent(name) or not (offered := self._offers.get(name)):
            return
        patch = {"status": {"allocatable": offered}}
        await self.client.patch(core_v1.Node, name, "", patch, subresource="status")
        if self._offers.get(name) is offered:  # else more has come meanwhile
            del self._offers[name]

    async def _return(self, name: str) -> None:
        """A node reports that it is well, and its pods go on."""
        node = self.nodes.cache.get("", name)
        if node is None or is_silent(node) or not self.plays(name):
            return
        now = self.clock.now()
        if (left := seconds_to_ready(node, now)) > 0:
            self.queue.add_after(_NODE + name, left)
            return
        await self._reports.renew(name, now)
        if is_lost(node) or is_new(node) or is_erased(node):
            await self._registration.revive(node, self._index[name], now)
        await self._make_allocatable(name)
        for pod in self.pods.cache.by_index("node", name):
            self._touch(pod)

    def _addresses_on(self, name: str) -> Addresses:
        """The addresses of a node's network."""
        node = self.nodes.cache.get("", name)
        try:
            return Addresses(*hosts_of(node.spec.pod_cidr if node is not None else ""))
        except ValueError:  # no network, or one of the other family
            return Addresses(pod_network(self._index[name]))

    async def _keep_leases(self) -> None:
        """Renew every lease once per period, in slices, so that the renewals of a slice share one commit."""
        seconds = self.settings.renewal_seconds
        slots = min(max(int(seconds), 1), _MOST_SLICES)
        due = self.clock.monotonic()
        for slot in itertools.cycle(range(slots)):
            due = max(due + seconds / slots, self.clock.monotonic())  # what renewing takes does not add to the period
            await self.clock.sleep(due - self.clock.monotonic())
            now = self.clock.now()
            names = [
                name for name, index in tuple(self._index.items()) if index % slots == slot and not self.is_silent(name)
            ]
            await asyncio.gather(*(self._reports.renew_all(batch, now) for batch in batches(names, AT_ONCE)))
            for batch in batches(names, AT_ONCE):
                await asyncio.gather(*(self._reports.try_to_report_images(name) for name in batch))

    # Pods

    def _touch(self, pod: core_v1.Pod) -> None:
        if pod.spec.node_name and self.plays(pod.spec.node_name):
            if pod.status.pod_ip and not pod.spec.host_network:
                self._pod_ip(pod)
            self._admission.see(pod)
            self._resizing.see(pod)
            self._reports.images.see(pod)
            if self._memory is not None:
                self._memory.see(pod)
            self.queue.add(key_of(pod))

    def _changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        self._retry_resizes(new.spec.node_name, but=key_of(new))
        self._touch(new)

    def _retry_resizes(self, node: str, but: str = "") -> None:
        for key in self._resizing.waiting(node, but):
            self.queue.add(key)

    def _gone(self, pod: core_v1.Pod) -> None:
        self._player.forget(pod)
        self._admission.forget(pod)
        self._resizing.forget(pod)
        self._retry_resizes(pod.spec.node_name)
        if pod.spec.node_name in self._addresses:
            self._addresses[pod.spec.node_name].release(pod.metadata.uid)
        if pod.spec.node_name and self.nodes.cache.get("", pod.spec.node_name) is None:
            self._forget_node(pod.spec.node_name)

    def _others(self, pod: core_v1.Pod) -> Iterator[core_v1.Pod]:
        """The other pods of a pod's node."""
        for other in self.pods.cache.by_index("node", pod.spec.node_name):
            if other.metadata.uid != pod.metadata.uid:
                yield other

    def _of_node(self, name: str) -> Addresses:
        addresses = self._addresses.get(name)
        if addresses is None:
            addresses = self._addresses[name] = self._addresses_on(name)
        return addresses

    async def _process(self, key: str) -> None:
        try:
            if key.startswith(_NODE):
                await self._return(key.removeprefix(_NODE))
            elif key.startswith(_OFFER):
                await self._make_allocatable(key.removeprefix(_OFFER))
            elif key.startswith(_STAGED):
                await self._advance_node(key.removeprefix(_STAGED))
            elif key.startswith(_LAST_SIGN):
                await self._reports.say_last(key.removeprefix(_LAST_SIGN))
            else:
                await self._advance(key)
            self.queue.forget(key)
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
            elif error.code != 404:
                logger.warning("%s: %s", key, error)
                self.queue.add_rate_limited(key)
        except Exception as error:  # whatever is wrong with one, the others go on
            logger.warning("%s: %s: %s", key, type(error).__name__, error)
            self.queue.add_rate_limited(key)
        finally:
            self.queue.done(key)

    async def _advance(self, key: str) -> None:
        pod = self.pods.cache.by_key(key)
        if pod is None or not pod.spec.node_name or self.is_silent(pod.spec.node_name):
            return
        wait = await self._player.advance(pod)
        if wait is not None:
            self.queue.add_after(key, wait)

    def _pod_ip(self, pod: core_v1.Pod) -> str:
        """The address of a pod in its node's network, its own from now on. Raises LookupError if none is left."""
        return self._of_node(pod.spec.node_name).take(pod.metadata.uid, pod.status.pod_ip)

    def _host_ip(self, name: str) -> str:
        node = self.nodes.cache.get("", name)
        addresses = node.status.addresses if node is not None else ()
        return next((one.address for one in addresses if one.type == "InternalIP"), "")
