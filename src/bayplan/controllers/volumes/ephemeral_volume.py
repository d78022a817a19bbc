"""Ephemeral volumes: a pod that asks for one gets a claim made from the template in its spec, called `POD-VOLUME` and owned by the pod, so that it goes with it.

Source of the behaviour: kube-controller-manager's ephemeral-volume-controller (KEP-1698). Pods never change their volumes, so only new pods and lost claims
matter.
"""

from __future__ import annotations

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.controllers.base import Controller, controller_of, owner_reference
from bayplan.informers.cache import key_of


class ForeignClaim(RuntimeError):
    """A claim of the name that is needed belongs to somebody else."""


def templates_of(pod: core_v1.Pod) -> list[tuple[str, core_v1.PersistentVolumeClaimTemplate]]:
    """(volume name, template) of the pod's ephemeral volumes."""
    return [
        (volume.name, volume.ephemeral.volume_claim_template)
        for volume in pod.spec.volumes
        if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None
    ]


def claim_name(pod: core_v1.Pod, volume_name: str) -> str:
    """Name of the claim behind an ephemeral volume."""
    return f"{pod.metadata.name}-{volume_name}"


def claim_for(
    pod: core_v1.Pod, volume_name: str, template: core_v1.PersistentVolumeClaimTemplate
) -> core_v1.PersistentVolumeClaim:
    """The claim as it has to be made."""
    metadata = meta_v1.ObjectMeta(
        name=claim_name(pod, volume_name),
        namespace=pod.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(owner_reference("v1", "Pod", pod),),
    )
    return core_v1.PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def is_for(pod: core_v1.Pod, claim: core_v1.PersistentVolumeClaim) -> bool:
    """Whether the claim was made for this pod, and not for an earlier one of its name or by somebody else."""
    owner = controller_of(claim)
    return owner is not None and owner.uid == pod.metadata.uid


class EphemeralVolumeController(Controller):
    """See the module."""

    name = "ephemeral-volume-controller"
    event_source = "ephemeral_volume"

    def setup(self) -> None:
        self.pods = self.informer(core_v1.Pod)
        self.claims = self.informer(core_v1.PersistentVolumeClaim)
        self.pods.on_change(add=self._pod_added)
        self.claims.on_change(delete=self._claim_gone)

    def _pod_added(self, pod: core_v1.Pod) -> None:
        if not pod.metadata.deletion_timestamp and any(volume.ephemeral is not None for volume in pod.spec.volumes):
            self.queue.add(key_of(pod))

    def _claim_gone(self, claim: core_v1.PersistentVolumeClaim) -> None:
        owner = controller_of(claim)
        if owner is not None and owner.kind == "Pod":
            self.queue.add(f"{claim.metadata.namespace}/{owner.name}")
            return
        for pod in self.pods.cache:  # a claim of somebody else that stood in the way; happens hardly ever
            if pod.metadata.namespace == claim.metadata.namespace and any(
                claim_name(pod, name) == claim.metadata.name for name, _ in templates_of(pod)
            ):
                self.queue.add(key_of(pod))

    async def reconcile(self, key: str) -> None:
        pod: core_v1.Pod | None = self.pods.cache.by_key(key)
        if pod is None or pod.metadata.deletion_timestamp:
            return
        for name, template in templates_of(pod):
            try:
                await self._provide(pod, name, template)
            except (ApiError, ForeignClaim) as error:
                self.recorder.event(pod, "Warning", "FailedBinding", f"ephemeral volume {name}: {error}")
                raise

    async def _provide(
        self, pod: core_v1.Pod, volume_name: str, template: core_v1.PersistentVolumeClaimTemplate
    ) -> None:
        """Make the claim of a volume unless it is there. Raises ApiError, ForeignClaim."""
        where, name = pod.metadata.namespace, claim_name(pod, volume_name)
        claim = self.claims.cache.get(where, name)
        if claim is None:
            try:
                await self.client.create(claim_for(pod, volume_name, template))
            except ApiError as error:
                if error.status.reason != "AlreadyExists":
                    raise
                claim = await self.client.get(core_v1.PersistentVolumeClaim, name, where)
        if claim is not None and not is_for(pod, claim):
            text = f"PVC {where}/{name} was not created for pod {where}/{pod.metadata.name} (pod is not owner)"
            raise ForeignClaim(text)
