"""DaemonSet: a pod on every node that fits. What is decided is in `daemonset_rules`; this is the shell that watches and writes."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from bayplan.api.types import apps_v1, core_v1
from bayplan.controllers.pods import POD_LABEL, is_available, is_ready, ready_since
from bayplan.controllers.workloads import daemonset_rules as rules
from bayplan.controllers.workloads.daemonset_rules import Plan
from bayplan.controllers.workloads.pod_owner import PodOwner, claim
from bayplan.controllers.workloads.revisions import RevisionKeeper, outdated, twins_of
from bayplan.informers.cache import key_of

BURST = 250
"""Pods created or deleted in one go."""
_GENERATION = "deprecated.daemonset.template.generation"
_GENERATION_LABEL = "pod-template-generation"


class DaemonSetController(PodOwner):
    """See the module."""

    name = "daemonset-controller"
    owner_type = apps_v1.DaemonSet
    api_version, kind = "apps/v1", "DaemonSet"

    def setup(self) -> None:
        super().setup()
        self.nodes = self.informer(core_v1.Node)
        self.nodes.on_change(add=self._every_set, update=self._node_changed, delete=self._every_set)
        self.revisions = RevisionKeeper(self, self.api_version, self.kind, POD_LABEL)
        self._failures: dict[tuple[str, str], tuple[int, float, str]] = {}
        """How often pods of a set (by uid) have failed on a node, when one was last replaced (Unix seconds), and its uid."""

    def _every_set(self, node: core_v1.Node) -> None:
        for one in self.owners.cache:
            self.queue.add(key_of(one))

    def _node_changed(self, old: core_v1.Node, new: core_v1.Node) -> None:
        if old.metadata.labels == new.metadata.labels and old.spec.taints == new.spec.taints:
            return
        for one in self.owners.cache:
            if rules.fits(one.spec.template, old) != rules.fits(one.spec.template, new):
                self.queue.add(key_of(one))

    async def reconcile(self, key: str) -> None:
        one: apps_v1.DaemonSet | None = self.owners.cache.by_key(key)
        if one is None:
            self.forget(key)
            return
        if one.metadata.deletion_timestamp:
            return
        ready_to_act = await self.may_act(key, one)
        selector = self.selector_of(one)
        claimed = claim(one, selector, self.candidates(one))
        await self.take(one, claimed)
        history = await self.revisions.of(one, selector)
        labels = one.spec.template.metadata.labels
        update, collisions = await self.revisions.settle(one, labels, history, one.status.collision_count)
        digest = _pod_label(update)
        twins = twins_of(update, history)
        if await self._relabel(claimed.owned, {_pod_label(each) for each in twins}, digest):
            return  # pods come back with their labels; until then they would look outdated
        await self.revisions.forget(twins)
        now = self.clock.now()
        places = rules.layout(one, self.nodes.cache, claimed.owned)
        problem = ""
        if ready_to_act:
            plan = self._patient(key, one, rules.plan(one, places, digest, now), now)
            problem = await self._act(key, one, plan, digest)
            if not problem and not plan.create and not plan.delete and one.spec.update_strategy.type != "OnDelete":
                problem = await self._act(key, one, rules.update(one, places, digest, now), digest)
        status = rules.status_of(one, places, digest, now)
        status.collision_count = collisions
        await self.update_status(one, status)
        live = {update.metadata.name}
        history = [each for each in history if each not in twins]
        live |= {
            each.metadata.name
            for each in history
            if any(rules.is_updated(pod, _pod_label(each)) for pod in claimed.owned)
        }
        await self.revisions.forget(outdated(history, live, one.spec.revision_history_limit))
        if problem:
            raise RuntimeError(problem)
        self._look_again(key, one, claimed.owned, now)

    async def _relabel(self, pods: Iterable[core_v1.Pod], old: Container[str], digest: str) -> bool:
        """Let pods of revisions that are one with the newest say so. Returns whether there were any.

        Kubernetes gives pods of all other revisions this label too, and so never updates them.
        """
        labelled = ((pod, pod.metadata.labels.get(POD_LABEL, digest)) for pod in pods)
        wrong = [pod for pod, label in labelled if label != digest and label in old]
        for pod in wrong:
            await self.patch_pod(pod, {"metadata": {"uid": pod.metadata.uid, "labels": {POD_LABEL: digest}}})
        return bool(wrong)

    def _patient(self, key: str, one: apps_v1.DaemonSet, plan: Plan, now: float) -> Plan:
        """The plan without failed pods whose replacement has to wait because those before failed, too."""
        waiting = set()
        for pod in plan.failed:
            place = (one.metadata.uid, rules.node_of(pod))
            count, last, uid = self._failures.get(place, (0, 0.0, ""))
            if uid == pod.metadata.uid:
                continue
            left = last + rules.failure_back_off(count) - now
            if left > 0:
                waiting.add(pod.metadata.uid)
                self.queue.add_after(key, left)
            else:
                again = now - last < 2 * rules.LONGEST_BACK_OFF
                self._failures[place] = (count + 1 if again else 1, now, pod.metadata.uid)
        if not waiting:
            return plan
        return Plan(
            plan.create,
            tuple(pod for pod in plan.delete if pod.metadata.uid not in waiting),
            tuple(pod for pod in plan.failed if pod.metadata.uid not in waiting),
        )

    def _look_again(self, key: str, one: apps_v1.DaemonSet, pods: tuple[core_v1.Pod, ...], now: float) -> None:
        """Pods become available by the mere passing of time."""
        seconds = one.spec.min_ready_seconds
        waits = [
            ready_since(pod) + seconds - now for pod in pods if is_ready(pod) and not is_available(pod, seconds, now)
        ]
        if waits:
            self.queue.add_after(key, max(min(waits), 0.0) + 0.001)

    async def _act(self, key: str, one: apps_v1.DaemonSet, plan: Plan, digest: str) -> str:
        """Carry a plan out. Returns why not all of it could be, or ""."""
        for pod in plan.failed:
            self._tell_failed(one, pod)
        await self.delete_pods(key, one, plan.delete[:BURST])
        pods = [self._new_pod(one, node, digest) for node in plan.create[:BURST]]
        return (await self.create_pods(key, one, pods)).problem

    def _tell_failed(self, one: apps_v1.DaemonSet, pod: core_v1.Pod) -> None:
        failed = pod.status.phase == "Failed"
        kind, reason = ("Warning", "FailedDaemonPod") if failed else ("Normal", "SucceededDaemonPod")
        word, goal = ("failed", "try to kill it") if failed else ("succeeded", "delete it")
        where = f"{pod.metadata.namespace}/{pod.metadata.name} on node {pod.spec.node_name}"
        self.recorder.event(one, kind, reason, f"Found {word} daemon pod {where}, will {goal}")

    def _new_pod(self, one: apps_v1.DaemonSet, node: str, digest: str) -> core_v1.Pod:
        pod = self.pod_of(one, one.spec.template)
        labels: dict[str, Any] = {**pod.metadata.labels, POD_LABEL: digest}
        if generation := one.metadata.annotations.get(_GENERATION):
            labels[_GENERATION_LABEL] = generation
        pod.metadata.labels = labels
        pod.spec.tolerations = rules.daemon_tolerations(pod.spec)
        pod.spec.affinity = rules.placed_on(pod.spec, node)
        return pod


def _pod_label(revision: apps_v1.ControllerRevision) -> str:
    """What pods of a revision are labelled with. One that was made by hand may have no label; its name serves then."""
    return revision.metadata.labels.get(POD_LABEL, revision.metadata.name)
