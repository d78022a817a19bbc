"""StatefulSet: pods with names, volumes and an order. What is decided is in `statefulset_rules`; this is the shell that watches and writes."""

from __future__ import annotations

import asyncio
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.types import apps_v1, core_v1
from bayplan.controllers.pods import POD_LABEL
from bayplan.controllers.workloads import statefulset_claims as claims
from bayplan.controllers.workloads import statefulset_rules as rules
from bayplan.controllers.workloads.pod_owner import PodOwner, claim, is_terminating_namespace
from bayplan.controllers.workloads.revisions import RevisionKeeper, outdated, template_in
from bayplan.controllers.workloads.statefulset_rules import Names, Plan


class StatefulSetController(PodOwner):
    """See the module."""

    name = "statefulset-controller"
    owner_type = apps_v1.StatefulSet
    api_version, kind = "apps/v1", "StatefulSet"

    def setup(self) -> None:
        super().setup()
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.revisions = RevisionKeeper(self, self.api_version, self.kind)

    def touch(self, key: str, *, at_once: bool = False) -> None:
        """See PodOwner. Where pods are made in order, each waits for the one before it."""
        one: apps_v1.StatefulSet | None = self.owners.cache.by_key(key)
        in_order = one is not None and one.spec.pod_management_policy != "Parallel"
        super().touch(key, at_once=at_once or in_order)

    async def reconcile(self, key: str) -> None:
        one: apps_v1.StatefulSet | None = self.owners.cache.by_key(key)
        if one is None:
            self.forget(key)
            return
        selector, name = self.selector_of(one), one.metadata.name
        claimed = claim(
            one, selector, self.candidates(one), fits=lambda pod: rules.ordinal_of(name, pod.metadata.name) >= 0
        )
        if not one.metadata.deletion_timestamp:
            await self.take(one, claimed)
        history = await self.revisions.of(one, selector)
        labels = one.spec.template.metadata.labels
        collisions = one.status.collision_count
        if one.metadata.deletion_timestamp:
            update = next((each for each in history if each.metadata.name == one.status.update_revision), None)
            if update is None:
                return
        else:
            update, collisions = await self.revisions.settle(one, labels, history, collisions)
        current = next((each for each in history if each.metadata.name == one.status.current_revision), update)
        templates = {each.metadata.name: template_in(each) for each in (current, update)}
        names = Names(current.metadata.name, update.metadata.name)
        plan = rules.plan(one, names, claimed.owned, self.clock.now())
        plan.status.collision_count = collisions or 0
        problem = await self._act(one, plan, templates, {pod.metadata.name: pod for pod in claimed.owned})
        await self.update_status(one, plan.status)
        if problem:
            raise RuntimeError(problem)
        live = {*names, *(rules.revision_in(pod) for pod in claimed.owned)}
        ordered = sorted(history, key=lambda each: each.revision)
        await self.revisions.forget(outdated(ordered, live, one.spec.revision_history_limit))
        if plan.again is not None:
            self.queue.add_after(key, plan.again)

    async def _act(
        self,
        one: apps_v1.StatefulSet,
        plan: Plan,
        templates: dict[str, core_v1.PodTemplateSpec],
        pods: dict[str, core_v1.Pod],
    ) -> str:
        """Carry a plan out. Returns why not all of it could be, or ""."""
        problems = [await self._repair(one, pod) for pod in plan.repair]
        for name in plan.condemned:
            await self._own_claims(one, pods[name], condemned=True)
        problems += await asyncio.gather(
            *(self._create_member(one, ordinal, revision, templates[revision]) for ordinal, revision in plan.create)
        )
        for pod in plan.delete:
            await self._delete_member(one, pod)
        return next((problem for problem in problems if problem), "")

    async def _repair(self, one: apps_v1.StatefulSet, pod: core_v1.Pod) -> str:
        """Bring labels that tell a pod's identity, and claims, back to what they should be. Returns why a pod still waits for its claims, or ""."""
        metadata = pod.metadata
        wanted = rules.identity_labels(one, metadata.name)
        if not wanted.items() <= metadata.labels.items():
            patch: dict[str, Any] = {"metadata": {"uid": metadata.uid, "labels": dict(wanted)}}
            await self.client.patch(core_v1.Pod, metadata.name, metadata.namespace, patch)
        if metadata.deletion_timestamp:
            return ""
        problem = await self._create_claims(one, metadata.name)
        await self._own_claims(one, pod, condemned=False)
        return problem if pod.status.phase == "Pending" else ""

    def _found_claims(self, one: apps_v1.StatefulSet, pod_name: str) -> list[core_v1.PersistentVolumeClaim]:
        """The claims of a pod that exist."""
        names = (claims.claim_name(template, pod_name) for template in one.spec.volume_claim_templates)
        found = (self.claims.cache.get(one.metadata.namespace, name) for name in names)
        return [each for each in found if each is not None]

    async def _create_claims(self, one: apps_v1.StatefulSet, pod_name: str) -> str:
        """Make the claims of a pod that are missing. Returns what is wrong with those that exist, or "". Raises ApiError."""
        found = {each.metadata.name: each for each in self._found_claims(one, pod_name)}
        going = [name for name, each in found.items() if each.metadata.deletion_timestamp]
        for new in claims.claims_of(one, pod_name):
            name = new.metadata.name
            if name in found:
                continue
            where = f"Pod {pod_name} in StatefulSet {one.metadata.name}"
            try:
                await self.client.create(new)
            except ApiError as error:
                if error.code == 409 and error.status.reason == "AlreadyExists":
                    continue
                text = f"Create Claim {name} for {where} failed error: {error.message}"
                self.recorder.event(one, "Warning", "FailedCreate", text)
                raise
            self.recorder.event(one, "Normal", "SuccessfulCreate", f"Create Claim {name} {where} success")
        return f"pvc {going[0]} is being deleted" if going else ""

    async def _own_claims(self, one: apps_v1.StatefulSet, pod: core_v1.Pod, *, condemned: bool) -> None:
        """Let the claims of a pod go with whom the retention policy says."""
        for found in self._found_claims(one, pod.metadata.name):
            owners = claims.claim_owners(one, found, pod, condemned=condemned)
            if owners == found.metadata.owner_references:
                continue
            name = found.metadata.name
            if claims.has_conflict(one, found, pod):
                text = (
                    f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller,"
                    " the retention policy is ignored for this claim"
                )
                self.recorder.event(one, "Warning", "ConflictingController", text)
            metadata = {
                "uid": found.metadata.uid,
                "resourceVersion": found.metadata.resource_version,
                "ownerReferences": owners,
            }
            await self.client.patch(
                core_v1.PersistentVolumeClaim, name, found.metadata.namespace, {"metadata": metadata}
            )

    async def _create_member(
        self, one: apps_v1.StatefulSet, ordinal: int, revision: str, template: core_v1.PodTemplateSpec
    ) -> str:
        name = f"{one.metadata.name}-{ordinal}"
        pod = self.pod_of(one, template)
        rules.with_identity(one, pod, name)
        if any(claims.blocks_creation(one, found, pod) for found in self._found_claims(one, name)):
            return f"the claims of an earlier pod {name} are not gone yet"
        pod.metadata.labels[POD_LABEL] = revision
        where = f"Pod {name} in StatefulSet {one.metadata.name}"
        try:
            if problem := await self._create_claims(one, name):
                return problem
            await self.client.create(pod)
        except ApiError as error:
            if error.status.reason == "AlreadyExists":
                return ""
            if not is_terminating_namespace(error):
                text = f"Create {where} failed error: {error.message}"
                self.recorder.event(one, "Warning", "FailedCreate", text)
            return error.message
        self.recorder.event(one, "Normal", "SuccessfulCreate", f"Create {where} successful")
        return ""

    async def _delete_member(self, one: apps_v1.StatefulSet, pod: core_v1.Pod) -> None:
        metadata = pod.metadata
        where = f"Pod {metadata.name} in StatefulSet {one.metadata.name}"
        try:
            await self.client.delete(core_v1.Pod, metadata.name, metadata.namespace, uid=metadata.uid)
        except ApiError as error:
            if error.code not in (404, 409):
                text = f"Delete {where} failed error: {error.message}"
                self.recorder.event(one, "Warning", "FailedDelete", text)
                raise
            return
        self.recorder.event(one, "Normal", "SuccessfulDelete", f"Delete {where} successful")
