"""Deployment: moves pods from the ReplicaSet of the old template to the one of the new, and keeps the history for going back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.selectors.labels import compile_selector
from bayplan.api.strategies.base import clone
from bayplan.api.types import apps_v1, core_v1
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.client.errors import TransportError
from bayplan.controllers.base import (
    Controller,
    adoption,
    condition_of,
    controller_of,
    held_or_free,
    index_by_controller,
    index_by_namespace,
    is_still_there,
    owner_reference,
    release,
)
from bayplan.controllers.workloads import deployment_rules as rules
from bayplan.controllers.write_memory import CHECK_SECONDS, WriteMemory
from bayplan.informers.cache import key_of


class DeploymentController(Controller):
    """See the module."""

    name = "deployment-controller"
    workers = 16

    def setup(self) -> None:
        self.deployments = self.informer(apps_v1.Deployment)
        self.sets = self.informer(apps_v1.ReplicaSet)
        self.pods = self.informer(core_v1.Pod)
        index_by_controller(self.sets)
        index_by_controller(self.pods)
        self._memory = WriteMemory(self.clock)
        self.sets.on_change(
            add=self._orphan_seen, update=lambda old, new: self._orphan_seen(new), delete=self._set_gone
        )
        index_by_namespace(self.deployments)
        self.watch_keys(self.deployments)
        self.watch_owned(self.sets, "Deployment")
        self.pods.on_change(delete=self._pod_deleted)

    def _orphan_seen(self, one: apps_v1.ReplicaSet) -> None:
        """Whose selector fits a ReplicaSet without owner adopts it."""
        if controller_of(one) is None:
            for deployment in self.deployments.cache.by_index("namespace", one.metadata.namespace):
                if compile_selector(deployment.spec.selector).matches(one.metadata.labels):
                    self.queue.add(key_of(deployment))

    def _set_gone(self, one: apps_v1.ReplicaSet) -> None:
        owner = controller_of(one)
        if owner is not None and owner.kind == "Deployment":
            self._memory.gone(f"{one.metadata.namespace}/{owner.name}", one)

    def _pod_deleted(self, pod: core_v1.Pod) -> None:
        """Recreate waits for the last old pod to go."""
        owner = controller_of(pod)
        if owner is None or owner.kind != "ReplicaSet":
            return
        owning = self.sets.cache.get(pod.metadata.namespace, owner.name)
        parent = controller_of(owning) if owning is not None else None
        if parent is not None and parent.kind == "Deployment":
            self.queue.add(f"{pod.metadata.namespace}/{parent.name}")

    async def reconcile(self, key: str) -> None:
        deployment: apps_v1.Deployment | None = self.deployments.cache.by_key(key)
        if deployment is None:
            self._memory.forget(key)
            return
        if not await self._memory.is_current(key, self.sets.cache, lambda: self._live_sets(deployment)):
            self.queue.add_after(key, CHECK_SECONDS)  # the event about the write comes sooner
            return
        try:
            await self._reconcile(key, deployment)
        except TransportError:
            self._memory.lost(key)
            raise
        except ApiError as error:
            if error.code != 409:
                raise
            self.queue.add_rate_limited(key)

    async def _live_sets(self, deployment: apps_v1.Deployment) -> list[apps_v1.ReplicaSet]:
        """The deployment's ReplicaSets as the server has them."""
        found = (await self.client.list(apps_v1.ReplicaSet, deployment.metadata.namespace)).items
        return [
            one for one in found if (owner := controller_of(one)) is not None and owner.uid == deployment.metadata.uid
        ]

    async def _reconcile(self, key: str, deployment: apps_v1.Deployment) -> None:
        sets = await self._claimed(deployment)
        new = rules.find_new(deployment, sets)
        if deployment.metadata.deletion_timestamp:
            await self._update_status(key, deployment, sets, new)
            return
        deployment = await self._show_pause(deployment)
        if deployment.spec.paused:
            await self._scale(deployment, sets, new)
        elif self._was_scaled(deployment, sets):
            if new is not None:
                deployment, new = await self._refresh(deployment, new, _highest_but(sets, new))
                sets = [new if one.metadata.uid == new.metadata.uid else one for one in sets]
            sets = await self._scale(deployment, sets, new)
        elif deployment.spec.strategy.type == "Recreate":
            deployment, sets, new = await self._recreate(deployment, sets, new)
        else:
            deployment, sets, new = await self._roll(deployment, sets, new)
        if deployment.spec.paused or rules.is_complete(deployment, deployment.status):
            await self._clean_up(
                deployment, [one for one in sets if new is None or one.metadata.uid != new.metadata.uid]
            )
        await self._update_status(key, deployment, sets, new)

    async def _claimed(self, deployment: apps_v1.Deployment) -> list[apps_v1.ReplicaSet]:
        """ReplicaSets that belong to the deployment: those it controls, and orphans that it adopts."""
        selector = compile_selector(deployment.spec.selector)
        found: list[apps_v1.ReplicaSet] = []
        fresh = False
        for one in held_or_free(self.sets, deployment):
            owner, matches = controller_of(one), selector.matches(one.metadata.labels)
            if owner is not None and owner.uid == deployment.metadata.uid:
                if matches:
                    found.append(one)
                elif not deployment.metadata.deletion_timestamp:
                    await self._patch_set(one, release(deployment, one))
            elif (
                owner is None
                and matches
                and not deployment.metadata.deletion_timestamp
                and not one.metadata.deletion_timestamp
            ):
                if not fresh and not await is_still_there(self.client, deployment):
                    return found
                fresh = True
                patch = adoption(owner_reference("apps/v1", "Deployment", deployment), one)
                found.append(await self._patch_set(one, patch))
        return found

    async def _patch_set(self, one: apps_v1.ReplicaSet, patch: dict[str, Any]) -> apps_v1.ReplicaSet:
        return await self.client.patch(
            apps_v1.ReplicaSet, one.metadata.name, one.metadata.namespace, patch, patch_type=STRATEGIC_PATCH
        )

    async def _show_pause(self, deployment: apps_v1.Deployment) -> apps_v1.Deployment:
        """The Progressing condition says when a deployment is paused and when it goes on."""
        if not rules.has_deadline(deployment):
            return deployment
        known = condition_of(deployment.status.conditions, "Progressing")
        if known is not None and known.reason == "ProgressDeadlineExceeded":
            return deployment
        shown = known is not None and known.reason == "DeploymentPaused"
        if deployment.spec.paused == shown:
            return deployment
        word = "paused" if deployment.spec.paused else "resumed"
        condition = rules.progressing(
            "Unknown", f"Deployment{word.capitalize()}", f"Deployment is {word}", self.clock.now()
        )
        changed = clone(deployment)
        changed.status.conditions = rules.with_latest(deployment.status.conditions, condition)
        return await self.client.update_status(changed)

    def _was_scaled(self, deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet]) -> bool:
        wanted = str(deployment.spec.replicas or 0)
        return any(one.spec.replicas and one.metadata.annotations.get(rules.DESIRED, wanted) != wanted for one in sets)

    async def _scale(
        self, deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet], new: apps_v1.ReplicaSet | None
    ) -> list[apps_v1.ReplicaSet]:
        """Follow a change of the wanted number, in or out of a roll-out."""
        active = [one for one in sets if one.spec.replicas]
        wanted = deployment.spec.replicas or 0
        target = rules.latest_or_only_active(sets, new)
        if target is None and new is not None and self._is_saturated(deployment, new):
            sizes = {one.metadata.name: 0 for one in active if one.metadata.uid != new.metadata.uid}
        elif target is not None:
            sizes = {target.metadata.name: wanted}
        elif deployment.spec.strategy.type == "RollingUpdate":
            sizes = rules.proportional_sizes(deployment, active)
        else:
            sizes = {}
        order = {name: place for place, name in enumerate(sizes)}
        resized = {
            one.metadata.name: await self._resize(deployment, one, sizes.get(one.metadata.name, one.spec.replicas or 0))
            for one in sorted(sets, key=lambda one: order.get(one.metadata.name, len(order)))
            if one.spec.replicas or one.metadata.name in sizes
        }
        return [resized.get(one.metadata.name, one) for one in sets]

    def _is_saturated(self, deployment: apps_v1.Deployment, new: apps_v1.ReplicaSet) -> bool:
        wanted = deployment.spec.replicas or 0
        return (
            new.spec.replicas == wanted
            and new.status.available_replicas == wanted
            and new.metadata.annotations.get(rules.DESIRED) == str(wanted)
        )

    async def _resize(self, deployment: apps_v1.Deployment, one: apps_v1.ReplicaSet, size: int) -> apps_v1.ReplicaSet:
        """Give a ReplicaSet its size and the annotations that later scaling needs."""
        wanted = deployment.spec.replicas or 0
        surge, _ = rules.bounds(deployment)
        annotations = {rules.DESIRED: str(wanted), rules.MAX: str(wanted + surge)}
        before = one.spec.replicas or 0
        if before == size and annotations.items() <= one.metadata.annotations.items():
            return one
        changed = clone(one)
        changed.spec.replicas = size
        changed.metadata.annotations = {**one.metadata.annotations, **annotations}
        result: apps_v1.ReplicaSet = await self.client.update(changed)
        self._memory.wrote(key_of(deployment), result)
        if before != size:
            direction = "up" if size > before else "down"
            message = f"Scaled {direction} replica set {one.metadata.name} from {before} to {size}"
            self.recorder.event(deployment, "Normal", "ScalingReplicaSet", message)
        return result

    async def _roll(
        self, deployment: apps_v1.Deployment, sets: list[apps_v1.ReplicaSet], new: apps_v1.ReplicaSet | None
    ) -> tuple[apps_v1.Deployment, list[apps_v1.ReplicaSet], apps_v1.ReplicaSet]:
        """One step of a rolling update: first up, then down."""
        deployment, new, sets = await self._ensure_new(deployment, sets, new)
        size = rules.new_size(deployment, sets, new)
        if size != (new.spec.replicas or 0):
            new = await self._resize(deployment, new, size)
            return deployment, [new if one.metadata.uid == new.metadata.uid else one for one in sets], new
        old = [one for one in sets if one.metadata.uid != new.metadata.uid and one.spec.replicas]
        sizes = rules.old_sizes(deployment, new, old)
        sets = [
            await self._resize(deployment, one, sizes[one.metadata.name]) if one.metadata.name in sizes else one
            for one in sets
        ]
        return deployment, sets, new

    async def _recreate(
        self, deployment: apps_v1.Deployment, sets: list[apps_v1.ReplicaSet], new: apps_v1.ReplicaSet | None
    ) -> tuple[apps_v1.Deployment, list[apps_v1.ReplicaSet], apps_v1.ReplicaSet | None]:
        """First everything old goes, then the new comes."""
        old = [one for one in sets if new is None or one.metadata.uid != new.metadata.uid]
        if any(one.spec.replicas for one in old):
            sets = [await self._resize(deployment, one, 0) if one in old and one.spec.replicas else one for one in sets]
            return deployment, sets, new
        old_pods = (pod for one in old for pod in self.pods.cache.by_index("controller", one.metadata.uid))
        if rules.may_run_old_pods(old, old_pods):
            return deployment, sets, new
        deployment, new, sets = await self._ensure_new(deployment, sets, new)
        new = await self._resize(deployment, new, deployment.spec.replicas or 0)
        return deployment, [new if one.metadata.uid == new.metadata.uid else one for one in sets], new

    async def _ensure_new(
        self, deployment: apps_v1.Deployment, sets: list[apps_v1.ReplicaSet], new: apps_v1.ReplicaSet | None
    ) -> tuple[apps_v1.Deployment, apps_v1.ReplicaSet, list[apps_v1.ReplicaSet]]:
        """The ReplicaSet of the current template, made or brought up to date, with the highest revision."""
        highest = _highest_but(sets, new)
        if new is None:
            deployment, created = await self._create_set(deployment, sets, str(highest + 1))
            return deployment, created, [*sets, created]
        deployment, changed = await self._refresh(deployment, new, highest)
        return deployment, changed, [changed if one.metadata.uid == new.metadata.uid else one for one in sets]

    async def _refresh(
        self, deployment: apps_v1.Deployment, new: apps_v1.ReplicaSet, highest: int
    ) -> tuple[apps_v1.Deployment, apps_v1.ReplicaSet]:
        annotations = {**new.metadata.annotations, **rules.inherited(deployment)}
        current = rules.revision_of(new)
        if current <= highest:
            annotations[rules.REVISION] = str(highest + 1)
            if current:
                annotations[rules.HISTORY] = rules.with_history(annotations.get(rules.HISTORY, ""), str(current))
        if annotations != new.metadata.annotations or new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
            changed = clone(new)
            changed.metadata.annotations = annotations
            changed.spec.min_ready_seconds = deployment.spec.min_ready_seconds
            new = await self.client.update(changed)
            self._memory.wrote(key_of(deployment), new)
        found = None
        if rules.has_deadline(deployment) and condition_of(deployment.status.conditions, "Progressing") is None:
            found = rules.progressing(
                "True", "FoundNewReplicaSet", f'Found new replica set "{new.metadata.name}"', self.clock.now()
            )
        return await self._record(deployment, new.metadata.annotations.get(rules.REVISION, ""), found), new

    async def _create_set(
        self, deployment: apps_v1.Deployment, sets: Sequence[apps_v1.ReplicaSet], revision: str
    ) -> tuple[apps_v1.Deployment, apps_v1.ReplicaSet]:
        new = rules.new_set(deployment, revision)
        new.spec.replicas = rules.new_size(deployment, [*sets, new], new)
        try:
            created = await self.client.create(new)
            self._memory.wrote(key_of(deployment), created)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return deployment, await self._on_name_taken(deployment, new)
            await self._tell_failure(
                deployment, f'Failed to create new replica set "{new.metadata.name}": {error.message}'
            )
            raise
        if created.spec.replicas:
            message = f"Scaled up replica set {created.metadata.name} from 0 to {created.spec.replicas}"
            self.recorder.event(deployment, "Normal", "ScalingReplicaSet", message)
        made = None
        if rules.has_deadline(deployment):
            made = rules.progressing(
                "True", "NewReplicaSetCreated", f'Created new replica set "{created.metadata.name}"', self.clock.now()
            )
        return await self._record(deployment, revision, made), created

    async def _tell_failure(self, deployment: apps_v1.Deployment, message: str) -> None:
        """A ReplicaSet that the server refuses shows in the deployment's condition and as an event."""
        self.recorder.event(deployment, "Warning", "ReplicaSetCreateError", message)
        if rules.has_deadline(deployment):
            failed = rules.progressing("False", "ReplicaSetCreateError", message, self.clock.now())
            changed = clone(deployment)
            changed.status.conditions = rules.with_latest(deployment.status.conditions, failed)
            if changed.status.conditions != deployment.status.conditions:
                await self.client.update_status(changed)

    async def _on_name_taken(self, deployment: apps_v1.Deployment, new: apps_v1.ReplicaSet) -> apps_v1.ReplicaSet:
        """The name is taken: by our own ReplicaSet that the cache does not show yet, or by another template with the same hash."""
        existing = await self.client.get(apps_v1.ReplicaSet, new.metadata.name, new.metadata.namespace)
        owner = controller_of(existing)
        if (
            owner is not None
            and owner.uid == deployment.metadata.uid
            and rules.same_template(existing.spec.template, deployment.spec.template)
        ):
            self._memory.wrote(key_of(deployment), existing)
            return existing
        changed = clone(deployment)
        changed.status.collision_count = (deployment.status.collision_count or 0) + 1
        await self.client.update_status(changed)
        raise RuntimeError(f"{new.metadata.name} belongs to another template; trying another name")

    async def _record(
        self, deployment: apps_v1.Deployment, revision: str, condition: apps_v1.DeploymentCondition | None
    ) -> apps_v1.Deployment:
        """Write the current revision, and a condition that has come up with it; returns the deployment as it is then.

        Both go through the status, which may carry annotations: the generation is for changes that users make.
        """
        is_current = not revision or deployment.metadata.annotations.get(rules.REVISION) == revision
        if is_current and condition is None:
            return deployment
        changed = clone(deployment)
        if not is_current:
            changed.metadata.annotations = {**deployment.metadata.annotations, rules.REVISION: revision}
        if condition is not None:
            changed.status.conditions = rules.with_latest(deployment.status.conditions, condition)
        return await self.client.update_status(changed)

    async def _clean_up(self, deployment: apps_v1.Deployment, old: Sequence[apps_v1.ReplicaSet]) -> None:
        """Forget history beyond the limit, oldest revision first."""
        for one in rules.unneeded(deployment, old):
            try:
                await self.client.delete(
                    apps_v1.ReplicaSet, one.metadata.name, one.metadata.namespace, uid=one.metadata.uid
                )
            except ApiError as error:
                if error.code != 404:
                    raise

    async def _update_status(
        self,
        key: str,
        deployment: apps_v1.Deployment,
        sets: Sequence[apps_v1.ReplicaSet],
        new: apps_v1.ReplicaSet | None,
    ) -> None:
        now = self.clock.now()
        status = rules.status_of(deployment, sets, new, now, deployment.status.collision_count)
        failures = [
            condition
            for one in sorted(sets, key=lambda one: one is not new)
            for condition in one.status.conditions
            if condition.type == "ReplicaFailure"
        ]
        status, wait = rules.with_progress(deployment, status, new, now)
        if failures:
            failed = apps_v1.DeploymentCondition(
                type="ReplicaFailure",
                status="True",
                reason=failures[0].reason,
                message=failures[0].message,
                last_update_time=failures[0].last_transition_time,
                last_transition_time=failures[0].last_transition_time,
            )
            status.conditions = rules.with_latest(status.conditions, failed)
        else:
            status.conditions = rules.without(status.conditions, "ReplicaFailure")
        if wait:
            self.queue.add_after(key, wait)
        if status != deployment.status:
            await self.client.update_status(msgspec.structs.replace(deployment, status=status))


def _highest_but(sets: Sequence[apps_v1.ReplicaSet], new: apps_v1.ReplicaSet | None) -> int:
    """The highest revision of all ReplicaSets but the new one; 0 if there are none."""
    return max(
        (rules.revision_of(one) for one in sets if new is None or one.metadata.uid != new.metadata.uid), default=0
    )
