"""ResourceClaims of pods: generated from templates, reserved for pods that run already, given back when their pods have ended. Decisions are in
`resource_claim_rules`.

Pods without claims cost one look at an empty tuple. Claims are followed from when the controllers run, not before.
"""

from __future__ import annotations

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, resource_v1
from bayplan.controllers.base import Controller, controller_of
from bayplan.controllers.volumes import resource_claim_rules as rules
from bayplan.informers.cache import key_of

_POD, _CLAIM = "pod:", "claim:"
_MANAGER = "ResourceClaimController"
"""Whose the names of generated claims are in pods' statuses."""


class ResourceClaimController(Controller):
    """See the module. Keys are `pod:namespace/name` and `claim:namespace/name`."""

    name = "resourceclaim-controller"
    event_source = "resource_claim"

    def setup(self) -> None:
        self.pods = self.informer(core_v1.Pod)
        self._made: dict[tuple[str, str], resource_v1.ResourceClaim] = {}
        """(pod uid, entry) -> a claim that was generated and may not be in the cache yet."""

    async def run_background(self) -> None:
        self.claims = self.informer(resource_v1.ResourceClaim)
        self.claims.add_index("owner", lambda claim: (one.uid,) if (one := controller_of(claim)) is not None else ())
        self.claims.on_change(
            add=self._claim_seen, update=lambda old, new: self._claim_seen(new), delete=self._claim_gone
        )
        self.templates = self.informer(resource_v1.ResourceClaimTemplate)
        self.templates.on_change(add=self._template_added)
        self.pods.add_index("claims", _claims_of)
        self.pods.on_change(add=self._pod_seen, update=lambda old, new: self._pod_seen(new), delete=self._pod_gone)

    def _pod_seen(self, pod: core_v1.Pod) -> None:
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return
        if rules.is_done(pod):
            self._pod_gone(pod)
        elif not pod.metadata.deletion_timestamp:
            self.queue.add(_POD + key_of(pod))

    def _pod_gone(self, pod: core_v1.Pod) -> None:
        for key in _claims_of(pod):
            self.queue.add(_CLAIM + key)
        for entry in pod.spec.resource_claims:
            self._made.pop((pod.metadata.uid, entry.name), None)

    def _claim_seen(self, claim: resource_v1.ResourceClaim) -> None:
        self.queue.add(_CLAIM + key_of(claim))
        owner = controller_of(claim)
        entry = claim.metadata.annotations.get(rules.POD_CLAIM, "")
        if owner is not None:
            self._made.pop((owner.uid, entry), None)
        self._touch_users(claim)

    def _claim_gone(self, claim: resource_v1.ResourceClaim) -> None:
        self._touch_users(claim)

    def _touch_users(self, claim: resource_v1.ResourceClaim) -> None:
        for pod in self.pods.cache.by_index("claims", key_of(claim)):
            self._pod_seen(pod)

    def _template_added(self, template: resource_v1.ResourceClaimTemplate) -> None:
        for pod in self.pods.cache:
            if pod.metadata.namespace == template.metadata.namespace and any(
                entry.resource_claim_template_name == template.metadata.name for entry in pod.spec.resource_claims
            ):
                self._pod_seen(pod)

    async def reconcile(self, key: str) -> None:
        await self.claims.wait_for_sync()
        kind, _, name = key.partition(":")
        try:
            if kind == "pod":
                await self._sync_pod(name)
            else:
                await self._sync_claim(name)
        except ApiError as error:
            if error.code != 409:
                raise
            self.queue.add_rate_limited(key)

    # Pods

    async def _sync_pod(self, key: str) -> None:
        pod: core_v1.Pod | None = self.pods.cache.by_key(key)
        if pod is None or pod.metadata.deletion_timestamp or rules.is_done(pod):
            return
        where = pod.metadata.namespace
        if not rules.needs_work(pod, lambda name: self.claims.cache.get(where, name)):
            return
        named: dict[str, str] = {}
        for entry in pod.spec.resource_claims:
            if not entry.resource_claim_template_name:
                continue
            try:
                claim = await self._provide(pod, entry)
            except (ApiError, LookupError) as error:
                text = f"PodResourceClaim {entry.name}: {error.args[0] if isinstance(error, LookupError) else error}"
                self.recorder.event(pod, "Warning", "FailedResourceClaimCreation", text)
                raise
            if claim.metadata.name != rules.recorded_name(pod, entry.name):
                named[entry.name] = claim.metadata.name
        if named:
            known = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
            statuses = [
                {"name": entry, **({"resourceClaimName": name} if name else {})}
                for entry, name in {**known, **named}.items()
            ]
            status = {"resourceClaimStatuses": statuses}
            pod = await self.client.apply(
                core_v1.Pod, pod.metadata.name, where, {"status": status}, manager=_MANAGER, subresource="status"
            )
        if pod.spec.node_name:
            await self._reserve(pod)

    async def _provide(self, pod: core_v1.Pod, entry: core_v1.PodResourceClaim) -> resource_v1.ResourceClaim:
        """The claim of an entry with a template, generated if there is none. Raises ApiError, LookupError."""
        where, uid = pod.metadata.namespace, pod.metadata.uid
        recorded = rules.recorded_name(pod, entry.name)
        if recorded is not None:
            known: resource_v1.ResourceClaim | None = self.claims.cache.get(where, recorded)
            if known is not None and rules.is_owned_by(known, pod):
                return known
        found = self._made.get((uid, entry.name)) or rules.generated_for(
            pod, entry.name, self.claims.cache.by_index("owner", uid)
        )
        if found is not None:
            return found
        template_name = entry.resource_claim_template_name or ""
        try:
            template = await self.client.get(resource_v1.ResourceClaimTemplate, template_name, where)
        except ApiError as error:
            if error.code != 404:
                raise
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            raise LookupError(f'resource claim template "{template_name}": {missing}') from error
        try:
            made = await self.client.create(rules.claim_for(pod, entry.name, template))
        except ApiError as error:
            raise LookupError(f"create ResourceClaim : {error.message}") from error
        if self.claims.cache.get(where, made.metadata.name) is None:
            self._made[uid, entry.name] = made
        return made

    async def _reserve(self, pod: core_v1.Pod) -> None:
        """A pod that got its node without the scheduler's help reserves its allocated claims."""
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_name or rules.recorded_name(pod, entry.name)
            claim = self.claims.cache.get(pod.metadata.namespace, name) if name else None
            if claim is not None and claim.status.allocation is not None and not rules.reserved_for(claim, pod):
                await self.client.update_status(rules.with_reservation(claim, pod))

    # Claims

    async def _sync_claim(self, key: str) -> None:
        claim: resource_v1.ResourceClaim | None = self.claims.cache.by_key(key)
        if claim is None:
            return
        kept = [one for one in claim.status.reserved_for if await self._is_in_use(claim, one)]
        plan = rules.clean_up(claim, kept, self._owner(claim))
        if plan.status is not None:
            claim = await self.client.update_status(msgspec.structs.replace(claim, status=plan.status))
        if plan.drop_finalizer:
            left = tuple(one for one in claim.metadata.finalizers if one != rules.FINALIZER)
            metadata = msgspec.structs.replace(claim.metadata, finalizers=left)
            claim = await self.client.update(msgspec.structs.replace(claim, metadata=metadata))
        if plan.delete:
            try:
                await self.client.delete(
                    resource_v1.ResourceClaim, claim.metadata.name, claim.metadata.namespace, uid=claim.metadata.uid
                )
            except ApiError as error:
                if error.code != 404:
                    raise

    def _owner(self, claim: resource_v1.ResourceClaim) -> core_v1.Pod | None:
        owner = controller_of(claim)
        if owner is None or owner.kind != "Pod":
            return None
        pod: core_v1.Pod | None = self.pods.cache.get(claim.metadata.namespace, owner.name)
        return pod if pod is not None and pod.metadata.uid == owner.uid else None

    async def _is_in_use(
        self, claim: resource_v1.ResourceClaim, consumer: resource_v1.ResourceClaimConsumerReference
    ) -> bool:
        """Whether a consumer is there and not done; a pod that the cache lacks is asked for at the server. Other consumers than pods stay."""
        if consumer.api_group or consumer.resource != "pods":
            return True
        where = claim.metadata.namespace
        pod: core_v1.Pod | None = self.pods.cache.get(where, consumer.name)
        if pod is None or pod.metadata.uid != consumer.uid:
            try:
                pod = await self.client.get(core_v1.Pod, consumer.name, where)
            except ApiError as error:
                if error.code != 404:
                    raise
                return False
        return pod.metadata.uid == consumer.uid and not rules.is_done(pod)


def _claims_of(pod: core_v1.Pod) -> tuple[str, ...]:
    """Keys of the claims that a pod uses."""
    extended = pod.status.extended_resource_claim_status
    if not pod.spec.resource_claims and extended is None:
        return ()
    where = pod.metadata.namespace
    names = [one.resource_claim_name for one in pod.spec.resource_claims]
    names.extend(one.resource_claim_name for one in pod.status.resource_claim_statuses)
    if extended is not None:
        names.append(extended.resource_claim_name)
    return tuple(f"{where}/{name}" for name in dict.fromkeys(names) if name)
