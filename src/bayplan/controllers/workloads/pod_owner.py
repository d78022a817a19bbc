"""What controllers share whose objects own pods: finding, claiming, creating and deleting them.

A pod belongs to the object that its controlling owner reference names. Orphans that the selector matches are adopted, pods that it no longer matches are let go.

    pods of the namespace -> claim(owner, selector, pods) -> Claim(owned, adopt, release) -> PodOwner.take -> writes

Source of the behaviour: Kubernetes' PodControllerRefManager, RealPodControl and slow-start batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.selectors.labels import LabelSelector, compile_selector
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1, meta_v1
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.client.errors import TransportError
from bayplan.controllers.base import (
    Controller,
    adoption,
    controller_of,
    held_or_free,
    index_by_controller,
    index_by_namespace,
    is_still_there,
    owner_reference,
    release,
)
from bayplan.controllers.expectations import Expectations
from bayplan.informers.cache import key_of

_UNSURE_SECONDS = 5.0
"""Between two looks at the server while the cache does not show all that was written."""


_MANY = 20
"""Pods from which on a larger owner waits longer."""
_REST, _LEAST_REST, _LONGEST_REST = 0.0001, 0.03, 1.0
"""Seconds per pod that changes of the pods of an owner wait to be looked at together, the least and the most: pods of one owner
mostly change together, and each look at them may cost a write of its status."""


class Creation(NamedTuple):
    """What became of pods that were to be created."""

    made: int
    problem: str
    """Why it did not go well; empty if it did."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whose pods are whose."""

    owned: tuple[core_v1.Pod, ...] = ()
    """Pods of the owner after adoption and release, whatever their state."""
    adopt: tuple[core_v1.Pod, ...] = ()
    release: tuple[core_v1.Pod, ...] = ()


def claim(
    owner: Any,
    selector: LabelSelector,
    pods: Iterable[core_v1.Pod],
    *,
    fits: Callable[[core_v1.Pod], bool] | None = None,
    adoptable: Callable[[core_v1.Pod], bool] | None = None,
) -> Claim:
    """Which pods an owner has, takes and lets go. An owner that is being deleted changes nothing.

    fits: a further demand on its pods besides the selector. adoptable: a further demand on those that it takes.
    """
    uid, deleting = owner.metadata.uid, bool(owner.metadata.deletion_timestamp)
    owned, adopt, released = [], [], []
    for pod in pods:
        metadata = pod.metadata
        reference = controller_of(pod) if metadata.owner_references else None
        if reference is not None and reference.uid != uid:
            continue
        matches = selector.matches(metadata.labels) and (fits is None or fits(pod))
        if reference is not None:
            if matches:
                owned.append(pod)
            elif not deleting and not metadata.deletion_timestamp:
                released.append(pod)
        elif matches and not deleting and not metadata.deletion_timestamp and (adoptable is None or adoptable(pod)):
            adopt.append(pod)
            owned.append(pod)
    return Claim(tuple(owned), tuple(adopt), tuple(released))


class PodOwner(Controller):
    """Base of controllers whose objects own pods."""

    owner_type: ClassVar[type[Any]]
    api_version: ClassVar[str]
    kind: ClassVar[str]

    def setup(self) -> None:
        self.owners = self.informer(self.owner_type)
        self.pods = self.informer(core_v1.Pod)
        index_by_controller(self.pods)
        index_by_namespace(self.owners)
        self.expectations = Expectations(self.clock)
        self._sizes: dict[str, int] = {}
        """How many pods there were at the last look at an owner, of those that have many."""
        self._unsure: dict[str, float] = {}
        """Key of an owner of whose pods some may have been created or deleted though the answer was lost -> monotonic time of the next look."""
        self.owners.on_change(
            add=lambda owner: self.queue.add(key_of(owner)),
            update=self._owner_changed,
            delete=lambda owner: self.queue.add(key_of(owner)),
        )
        self.pods.on_change(add=self._pod_added, update=self._pod_changed, delete=self._pod_deleted)

    def forget(self, key: str) -> None:
        """An owner is gone."""
        self.expectations.forget(key)
        self._sizes.pop(key, None)
        self._unsure.pop(key, None)

    def selector_of(self, owner: Any) -> LabelSelector:
        """Which pods an owner wants."""
        return compile_selector(owner.spec.selector)

    def candidates(self, owner: Any) -> list[core_v1.Pod]:
        """Pods that are the owner's, and orphans of its namespace."""
        found = held_or_free(self.pods, owner)
        if len(found) > _MANY:
            self._sizes[key_of(owner)] = len(found)
        else:
            self._sizes.pop(key_of(owner), None)
        return found

    def owner_key(self, pod: core_v1.Pod) -> str:
        """The key of the pod's owner if it is of this kind, or ""."""
        owner = controller_of(pod)
        return f"{pod.metadata.namespace}/{owner.name}" if owner is not None and owner.kind == self.kind else ""

    def _owner_changed(self, old: Any, new: Any) -> None:
        """A change of the status is mostly the controller's own."""
        before, after = old.metadata, new.metadata
        same = before.uid == after.uid and before.generation == after.generation and before.labels == after.labels
        only_status = same and (before.annotations, before.deletion_timestamp) == (
            after.annotations,
            after.deletion_timestamp,
        )
        self.touch(key_of(new), at_once=not only_status)

    def pod_changed(self, key: str, old: core_v1.Pod, new: core_v1.Pod) -> None:
        """A pod of the owner with this key has changed."""
        self.touch(key)

    def touch(self, key: str, *, at_once: bool = False) -> None:
        """Have a look at an owner because of one of its pods, soon: together with what happens to its other pods, unless something waits for it."""
        if at_once:
            self.queue.add(key)
        else:
            rest = self._sizes.get(key, 0) * _REST
            self.queue.add_after(key, min(max(rest, _LEAST_REST), _LONGEST_REST))

    def _pod_added(self, pod: core_v1.Pod) -> None:
        if not pod.metadata.owner_references:
            self._touch_matching(pod)
        elif key := self.owner_key(pod):
            waited = not self.expectations.satisfied(key)
            if pod.metadata.deletion_timestamp:
                self.expectations.deletion_observed(key, pod.metadata.uid)
            self.expectations.creation_observed(key)
            self.touch(key, at_once=waited and self.expectations.satisfied(key))
        elif controller_of(pod) is None:
            self._touch_matching(pod)

    def _touch_matching(self, pod: core_v1.Pod) -> None:
        """An orphan may be adopted by whoever selects it."""
        for one in self.owners.cache.by_index("namespace", pod.metadata.namespace):
            if self.selector_of(one).matches(pod.metadata.labels):
                self.queue.add(key_of(one))

    def _pod_changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        if not old.metadata.owner_references and not new.metadata.owner_references:
            if old.metadata.labels != new.metadata.labels:
                self._touch_matching(new)
            return
        before, after = self.owner_key(old), self.owner_key(new)
        if new.metadata.deletion_timestamp and after and not self.expectations.satisfied(after):
            self.expectations.deletion_observed(after, new.metadata.uid)
            if self.expectations.satisfied(after):
                self.touch(after, at_once=True)
        if before and before != after:
            self.queue.add(before)
        if after:
            self.pod_changed(after, old, new)
        elif controller_of(new) is None and (old.metadata.labels != new.metadata.labels or before):
            self._touch_matching(new)

    def _pod_deleted(self, pod: core_v1.Pod) -> None:
        if key := self.owner_key(pod):
            waited = not self.expectations.satisfied(key)
            self.expectations.deletion_observed(key, pod.metadata.uid)
            self.touch(key, at_once=waited and self.expectations.satisfied(key))

    async def take(self, owner: Any, claimed: Claim) -> None:
        """Take in orphans that match, let go of pods that no longer do. Raises RuntimeError if the owner is not there any more."""
        if claimed.adopt and not await is_still_there(self.client, owner):
            raise RuntimeError(f"the cache is behind: the {self.kind} is gone or about to go")
        reference = owner_reference(self.api_version, self.kind, owner)
        for pod in claimed.adopt:
            await self.patch_pod(pod, adoption(reference, pod))
        for pod in claimed.release:
            await self.patch_pod(pod, release(owner, pod))

    async def patch_pod(self, pod: core_v1.Pod, patch: dict[str, Any]) -> None:
        """Write a strategic merge patch of a pod, which may be gone or another one by now."""
        try:
            await self.client.patch(
                core_v1.Pod, pod.metadata.name, pod.metadata.namespace, patch, patch_type=STRATEGIC_PATCH
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def pod_of(self, owner: Any, template: core_v1.PodTemplateSpec) -> core_v1.Pod:
        """A new pod of a template, with a generated name."""
        copied: core_v1.PodTemplateSpec = clone(template)
        metadata = copied.metadata
        return core_v1.Pod(
            metadata=meta_v1.ObjectMeta(
                generate_name=f"{owner.metadata.name}-",
                namespace=owner.metadata.namespace,
                labels=metadata.labels,
                annotations=metadata.annotations,
                finalizers=metadata.finalizers,
                owner_references=(owner_reference(self.api_version, self.kind, owner),),
            ),
            spec=copied.spec,
        )

    async def may_act(self, key: str, owner: Any) -> bool:
        """Whether all that was created and deleted has been seen. After lost answers the server is asked what became of it; until all is seen again and again.

        Raises ApiError, TransportError.
        """
        due = self._unsure.get(key)
        if due is not None and self.clock.monotonic() >= due:
            await self._make_sure(key, owner)
        if self.expectations.satisfied(key):
            self._unsure.pop(key, None)
            return True
        return False

    async def _make_sure(self, key: str, owner: Any) -> None:
        """Expect what the server has and the cache does not show yet, and nothing else."""
        metadata = owner.metadata
        found = (await self.client.list(core_v1.Pod, metadata.namespace)).items
        mine = [pod for pod in found if (one := controller_of(pod)) is not None and one.uid == metadata.uid]
        cached = {pod.metadata.uid for pod in self.pods.cache.by_index("controller", metadata.uid)}
        unseen = sum(pod.metadata.uid not in cached for pod in mine)
        self.expectations.correct(
            key, unseen, {pod.metadata.uid for pod in mine if not pod.metadata.deletion_timestamp}
        )
        self._doubt(key)

    def _doubt(self, key: str, pause: float = _UNSURE_SECONDS) -> None:
        self._unsure[key] = self.clock.monotonic() + pause
        self.queue.add_after(key, pause + 0.001)

    async def create_pods(self, key: str, owner: Any, pods: Iterable[core_v1.Pod]) -> Creation:
        """Create pods, few at first and more while it goes well. What is not started is not made.

        That the namespace is going away is no failure, but nothing more is tried.
        """
        made, batch, rest = 0, 1, iter(pods)
        while chosen := list(islice(rest, batch)):
            self.expectations.expect_creations(key, len(chosen))
            failures = [
                error for error in await asyncio.gather(*(self._create(key, owner, pod) for pod in chosen)) if error
            ]
            made += len(chosen) - len(failures)
            if failures:
                return Creation(made, "" if is_terminating_namespace(failures[0]) else str(failures[0]))
            batch *= 2
        return Creation(made, "")

    async def _create(self, key: str, owner: Any, new: core_v1.Pod) -> ApiError | TransportError | None:
        try:
            pod = await self.client.create(new)
        except TransportError as error:
            self._doubt(key, 0.0)  # nobody knows whether it is there
            return error
        except ApiError as error:
            self.expectations.creation_observed(key)
            if not is_terminating_namespace(error):
                self.recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            return error
        self.recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        return None

    async def delete_pods(self, key: str, owner: Any, pods: Sequence[core_v1.Pod]) -> None:
        """Delete pods at once. Raises ApiError, TransportError."""
        if pods:
            self.expectations.expect_deletions(key, {pod.metadata.uid for pod in pods})
            results = await asyncio.gather(*(self._delete(key, owner, pod) for pod in pods), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    async def _delete(self, key: str, owner: Any, pod: core_v1.Pod) -> None:
        try:
            await self.client.delete(core_v1.Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except TransportError:
            self._doubt(key, 0.0)
            raise
        except ApiError as error:
            self.expectations.deletion_observed(key, pod.metadata.uid)
            if error.code not in (404, 409):
                self.recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error.message}")
                raise
            return
        self.recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

    async def update_status(self, owner: Any, status: Any) -> bool:
        """Write a status if it differs; whether there is nothing left to write. After a conflict the key comes again."""
        if status == owner.status:
            return True
        try:
            await self.client.update_status(msgspec.structs.replace(owner, status=status))
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(key_of(owner))
            return False
        return True


def is_terminating_namespace(error: Exception) -> bool:
    """Whether a write was refused because the namespace is going away: nothing to complain about."""
    details = error.status.details if isinstance(error, ApiError) else None
    return details is not None and any(cause.reason == "NamespaceTerminating" for cause in details.causes)
