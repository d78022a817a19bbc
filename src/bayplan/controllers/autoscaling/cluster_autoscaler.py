"""Nodes for pods that find no place, and no nodes for nobody: cluster autoscaling over groups of nodes.

Every scan: pods that wait -> `cluster_autoscaler_plan.growth` -> a group grows; nodes hardly used -> `removable` -> after a while drained and removed. A node that
is drained is a key of the queue; it carries a taint, so that a restart finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.nodes import GROUP_LABEL, is_ready_node
from bayplan.api.types import apps_v1, core_v1, policy_v1
from bayplan.client.errors import ClientError
from bayplan.controllers.autoscaling.cluster_autoscaler_expanders import PRIORITY, PRIORITY_MAP, choose
from bayplan.controllers.autoscaling.cluster_autoscaler_plan import Growth, Limits, Removable, View, growth, removable
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import (
    CANDIDATE,
    TO_BE_DELETED,
    Drain,
    MakeSandbox,
    NodeGroup,
    NodeGroupError,
    NodeProvider,
    Option,
    as_if_ready,
    bound,
    daemon_pod,
    has_taint,
    is_coming,
    is_pending,
    needs_moving,
    obstacle,
    why_not,
)
from bayplan.controllers.autoscaling.cluster_autoscaler_status import NAME, NAMESPACE, StatusWriter, status_of
from bayplan.controllers.base import Controller, ControllerContext
from bayplan.controllers.pods import has_ended
from bayplan.informers import Informer
from bayplan.support.timestamps import parse_rfc3339

logger = logging.getLogger(__name__)

_STATUS = core_v1.ObjectReference(kind="ConfigMap", api_version="v1", namespace=NAMESPACE, name=NAME)
"""What events about groups are about, as upstream."""
_UNSEEN_PATIENCE = 30.0
"""Seconds in which a node that was made must show."""
_GROUP_PAUSE = 300.0
"""Seconds in which a group is not asked again after it failed."""
_AT_ONCE, _SOFT_AT_ONCE = 10, 10
"""Empty nodes that go in one scan, and nodes that are marked as candidates."""
_DRAIN_PAUSE = 1.0
"""Seconds between two looks at a node that is being drained."""


class ClusterAutoscalerController(Controller):
    """See the module."""

    name = "cluster-autoscaler"
    workers = 4

    def __init__(
        self,
        context: ControllerContext,
        *,
        provider: NodeProvider,
        sandbox: MakeSandbox,
        kinds: Mapping[str, type[Any]],
    ) -> None:
        """`kinds`: what sandboxes want to know besides nodes and pods."""
        self.provider = provider
        self._sandbox = sandbox
        self._kinds = kinds
        super().__init__(context)

    def setup(self) -> None:
        self.nodes = self.informer(core_v1.Node)
        self.pods = self.informer(core_v1.Pod)
        self.pods.add_index("bound", lambda pod: (pod.spec.node_name,))
        self.daemons = self.informer(apps_v1.DaemonSet)
        self.budgets = self.informer(policy_v1.PodDisruptionBudget)
        self._others: dict[str, Informer[Any]] = {name: self.informer(cls) for name, cls in self._kinds.items()}
        self._expanders = self.context.settings.autoscaler_expanders
        priorities = PRIORITY in self._expanders
        self._config_maps: Informer[Any] | None = self.informer(core_v1.ConfigMap) if priorities else None
        """Where the priorities of groups are; None if nobody asks for them."""
        self._groups = {one.name: one for one in self.provider.groups}
        self._status = StatusWriter(self.client)
        self._made: dict[str, float] = {}
        """Nodes that were made and do not show yet -> monotonic time when that was."""
        self._unneeded: dict[str, float] = {}
        """Nodes that can go -> monotonic time since when."""
        self._unwell: dict[str, float] = {}
        """Nodes of groups that are not ready -> monotonic time since when."""
        self._draining: dict[str, float] = {}
        """Nodes that are being drained -> monotonic time at which that is given up."""
        self._paused: dict[str, float] = {}
        """Groups that failed -> monotonic time until which they are left alone."""
        self._told: dict[str, str] = {}
        """Uid of a pod that nothing helps -> what was said about it."""
        self._no_removal_before = 0.0
        """Monotonic time."""

    async def run_background(self) -> None:
        while True:
            await self.clock.sleep(self.context.settings.autoscaler_scan_interval)
            try:
                await self.scan()
            except (ApiError, ClientError, NodeGroupError) as error:
                logger.warning("cluster autoscaler: %s", error)

    def group_of(self, node: core_v1.Node) -> NodeGroup | None:
        """The group of a node; None for nodes that are nobody's business."""
        return self._groups.get(node.metadata.labels.get(GROUP_LABEL, ""))

    async def scan(self) -> None:
        """One look at everything. Raises ApiError, ClientError, NodeGroupError."""
        moment = self.clock.monotonic()
        self._made = {
            name: time
            for name, time in self._made.items()
            if self.nodes.cache.get("", name) is None and moment - time < _UNSEEN_PATIENCE
        }
        if self._made:
            return
        for node in self.nodes.cache:
            if has_taint(node, TO_BE_DELETED) and node.metadata.name not in self._draining and self.group_of(node):
                await self._set_taint(node, TO_BE_DELETED, "NoSchedule", wanted=False)
        view = self._view()
        plan = await self._grow(view, moment)
        if plan.best is None and self.context.settings.autoscaler_scale_down:
            pods = {name: (*held, *plan.expected.get(name, ())) for name, held in view.pods.items()}
            await self._shrink(replace(view, pods=pods), moment)
        growing = () if plan.best is None else (plan.best.group.name,)
        await self._status.write(status_of(view, self.group_of, self._unneeded, growing), self.clock.now())

    def _view(self) -> View:
        settings, now = self.context.settings, self.clock.now()
        nodes, sizes = {}, dict.fromkeys(self._groups, 0)
        for node in self.nodes.cache:
            group, leaving = self.group_of(node), has_taint(node, TO_BE_DELETED)
            created = parse_rfc3339(node.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
            coming = group is not None and is_coming(node) and now - created < settings.autoscaler_provision_time
            if group is not None and not leaving:
                sizes[group.name] += 1
            if not leaving and (is_ready_node(node) or coming):
                nodes[node.metadata.name] = as_if_ready(node)
        pods = {name: [pod for pod in self.pods.cache.by_index("bound", name) if not has_ended(pod)] for name in nodes}
        oldest = now - settings.autoscaler_new_pod_delay
        pending = [
            pod
            for pod in self.pods.cache.by_index("bound", "")
            if is_pending(pod, settings.autoscaler_priority_cutoff)
            and parse_rfc3339(pod.metadata.creation_timestamp or "") <= oldest
        ]
        others = {kind: informer.cache for kind, informer in self._others.items()}
        for pod in self.pods.cache.by_index("bound", ""):
            if pod.status.nominated_node_name in pods and not pod.metadata.deletion_timestamp:
                pods[pod.status.nominated_node_name].append(bound(pod, pod.status.nominated_node_name))
        daemons = [daemon_pod(one) for one in self.daemons.cache if not one.metadata.deletion_timestamp]
        groups = tuple(self._groups.values())
        return View(nodes, pods, pending, groups, sizes, others, self._sandbox, daemons)

    # More nodes

    async def _grow(self, view: View, moment: float) -> Growth:
        """Make nodes for pods that wait."""
        self._paused = {name: until for name, until in self._paused.items() if until > moment}
        unavailable = dict.fromkeys(self._paused, "in backoff after failed scale-up")
        plan = growth(view, unavailable, self._choose)
        self._tell(plan)
        best = plan.best
        if best is None:
            return plan
        group, before = best.group, view.sizes[best.group.name]
        try:
            made = await self.provider.grow(group.name, best.nodes)
        except NodeGroupError as error:
            self._paused[group.name] = moment + _GROUP_PAUSE
            self.recorder.event(
                _STATUS, "Warning", "FailedToScaleUpGroup", f"Scale-up failed for group {group.name}: {error}"
            )
            return plan
        self._made.update(dict.fromkeys(made, moment))
        after = before + len(made)
        self._no_removal_before = moment + self.context.settings.autoscaler_delay_after_add
        text = f"Scale-up: group {group.name} size set to {after} instead of {before} (max: {group.maximum})"
        self.recorder.event(_STATUS, "Normal", "ScaledUpGroup", text)
        text = f"pod triggered scale-up: [{{{group.name} {before}->{after} (max: {group.maximum})}}]"
        for pod in best.pods:
            self.recorder.event(pod, "Normal", "TriggeredScaleUp", text)
        return plan

    def _choose(self, options: Sequence[Option]) -> Option | None:
        config = None
        if self._config_maps is not None:
            config = self._config_maps.cache.get(NAMESPACE, PRIORITY_MAP)
            if config is None:
                logger.warning(
                    "cluster autoscaler: no group grows: ConfigMap %s/%s is missing", NAMESPACE, PRIORITY_MAP
                )
        choice = choose(options, self._expanders, config, self.context.randomness.choice)
        for reason, message in choice.warnings:
            self.recorder.event(config, "Warning", reason, message)
        return choice.best

    def _tell(self, plan: Growth) -> None:
        """Say of each pod that no group helps why that is, when that is new."""
        waiting = {pod.metadata.uid: pod for pod in plan.waiting}
        self._told = {uid: text for uid, text in self._told.items() if uid in plan.refused}
        for uid, reasons in plan.refused.items():
            text = why_not(reasons)
            if self._told.get(uid) != text:
                self._told[uid] = text
                self.recorder.event(waiting[uid], "Normal", "NotTriggerScaleUp", text)

    # Fewer nodes

    async def _shrink(self, view: View, moment: float) -> None:
        settings = self.context.settings
        rules = Drain(settings.autoscaler_skip_system_pods, settings.autoscaler_skip_local_storage)
        limits = Limits(settings.autoscaler_utilization_threshold, rules)
        found, kept = removable(
            view, self.group_of, tuple(self.budgets.cache), limits, self._unneeded, self.clock.now()
        )
        for name, reason in kept.items():
            logger.debug("node %s stays: %s", name, reason)
        self._unneeded = {one.node.metadata.name: self._unneeded.get(one.node.metadata.name, moment) for one in found}
        await self._mark_candidates(view)
        if moment < self._no_removal_before:
            return
        due = [
            one for one in found if moment - self._unneeded[one.node.metadata.name] >= settings.autoscaler_unneeded_time
        ]
        empty = [one for one in due if not one.to_move][:_AT_ONCE]
        if not empty and not self._draining:
            empty = due[:1]
        for one in (*empty, *self._unready(view, rules, moment)):
            await self._start_drain(one, moment)

    def _unready(self, view: View, rules: Drain, moment: float) -> list[Removable]:
        """Nodes of groups that have been unwell for so long that they go, down to the minimum. Their pods need no place first: they do not run."""
        now, sizes = self.clock.now(), dict(view.sizes)
        unwell = {
            node.metadata.name: node
            for node in self.nodes.cache
            if self.group_of(node) and node.metadata.name not in view.nodes and not has_taint(node, TO_BE_DELETED)
        }
        self._unwell = {name: self._unwell.get(name, moment) for name in unwell}
        found = []
        for name, node in unwell.items():
            group = self.group_of(node)
            if group is None or moment - self._unwell[name] < self.context.settings.autoscaler_unready_time:
                continue
            pods = [pod for pod in self.pods.cache.by_index("bound", name) if needs_moving(pod, now)]
            held = any(obstacle(pod, self.budgets.cache, rules, now) for pod in pods)
            if not held and sizes[group.name] > group.minimum:
                sizes[group.name] -= 1
                found.append(Removable(node, group, 0.0, tuple(pods), ()))
        return found

    async def _mark_candidates(self, view: View) -> None:
        """Nodes that may go soon get a taint that new pods avoid if they can."""
        changes = 0
        for name in view.nodes:
            node = self.nodes.cache.get("", name)
            if node is None or self.group_of(node) is None:
                continue
            wanted = name in self._unneeded
            if has_taint(node, CANDIDATE) != wanted and changes < _SOFT_AT_ONCE:
                changes += 1
                await self._set_taint(node, CANDIDATE, "PreferNoSchedule", wanted=wanted)

    async def _start_drain(self, one: Removable, moment: float) -> None:
        name = one.node.metadata.name
        node = self.nodes.cache.get("", name)
        if node is None or not await self._set_taint(node, TO_BE_DELETED, "NoSchedule", wanted=True):
            return
        self._unneeded.pop(name, None)
        self._draining[name] = moment + self.context.settings.autoscaler_eviction_time
        if one.to_move:
            pods = ",".join(pod.metadata.name for pod in one.to_move)
            text = f"Scale-down: removing node {name}, utilization: {one.utilization:g}, pods to reschedule: {pods}"
            self.recorder.event(_STATUS, "Normal", "ScaleDown", text)
        else:
            self.recorder.event(_STATUS, "Normal", "ScaleDownEmpty", f'Scale-down: removing empty node "{name}"')
        self.recorder.event(node, "Normal", "ScaleDown", "marked the node as toBeDeleted/unschedulable")
        self.queue.add_after(name, _DRAIN_PAUSE)  # the scheduler may just have chosen it

    async def reconcile(self, key: str) -> None:
        """One step of draining a node."""
        node, until = self.nodes.cache.get("", key), self._draining.get(key)
        if until is None:
            return
        if node is None:
            del self._draining[key]
            return
        now = self.clock.now()
        left = [pod for pod in self.pods.cache.by_index("bound", key) if needs_moving(pod, now)]
        if not left:
            await self._remove(node)
            return
        if self.clock.monotonic() >= until:
            del self._draining[key]
            self._no_removal_before = self.clock.monotonic() + self.context.settings.autoscaler_delay_after_failure
            self.recorder.event(node, "Warning", "ScaleDownFailed", "failed to drain the node, aborting ScaleDown")
            await self._set_taint(node, TO_BE_DELETED, "NoSchedule", wanted=False)
            return
        for pod in left:
            await self._evict(pod)
        self.queue.add_after(key, _DRAIN_PAUSE)

    async def _evict(self, pod: core_v1.Pod) -> None:
        """Ask for a pod's eviction; a budget may refuse, then it is asked again."""
        if pod.metadata.deletion_timestamp:
            return
        try:
            await self.client.evict(pod.metadata.namespace, pod.metadata.name)
        except ApiError as error:
            if error.code not in (404, 409, 429):
                raise
            return
        self.recorder.event(pod, "Normal", "ScaleDown", "deleting pod for node scale down")

    async def _remove(self, node: core_v1.Node) -> None:
        name = node.metadata.name
        try:
            await self.provider.remove(node)
        except NodeGroupError as error:
            self.recorder.event(node, "Warning", "ScaleDownFailed", f"failed to delete node: {error}")
            raise
        self._draining.pop(name, None)
        pause = self.clock.monotonic() + self.context.settings.autoscaler_delay_after_delete
        self._no_removal_before = max(self._no_removal_before, pause)
        self.recorder.event(node, "Normal", "ScaleDown", "node removed by cluster autoscaler")

    async def _set_taint(self, node: core_v1.Node, key: str, effect: str, *, wanted: bool) -> bool:
        """Give a node a taint with the time as value, or take it away. False if the node has changed meanwhile or is gone."""
        if has_taint(node, key) == wanted:
            return True
        taints = [one for one in node.spec.taints if one.key != key]
        if wanted:
            taints.append(core_v1.Taint(key=key, value=str(int(self.clock.now())), effect=effect))
        patch = {
            "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        }
        try:
            await self.client.patch(core_v1.Node, node.metadata.name, "", patch)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return False
        return True
