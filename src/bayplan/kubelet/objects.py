"""What a kubelet reads of the API for its pods: config maps, secrets, tokens, claims, trust bundles (pkg/kubelet/configmap, secret, token, clustertrustbundle)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.errors import KubeletError


class ObjectError(KubeletError):
    """An object that a pod needs could not be read; the text is Kubernetes'."""


class ObjectNotFoundError(ObjectError):
    """It does not exist."""


OLDEST_SECONDS: Final = 24 * 3600.0
"""No token is used longer than that after it was issued."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token with the Unix times between which it is good."""

    text: str
    issued: float
    expires: float

    def is_due(self, now: float, jitter: float) -> bool:
        """Whether it is time for the next: after four fifths of its life, or a day."""
        fifth = (self.expires - self.issued) / 5
        return now > self.issued + OLDEST_SECONDS - jitter or now > self.expires - fifth - jitter


class ConfigSource(Protocol):
    """Reads config maps and secrets."""

    async def config_map(self, namespace: str, name: str) -> core_v1.ConfigMap:
        """A config map. Raises ObjectNotFoundError, ObjectError."""

    async def secret(self, namespace: str, name: str) -> core_v1.Secret:
        """A secret. Raises ObjectNotFoundError, ObjectError."""


class ClaimSource(Protocol):
    """Reads claims and the volumes that they are bound to."""

    async def claim(self, namespace: str, name: str) -> core_v1.PersistentVolumeClaim:
        """A claim as the API server has it now. Raises ObjectNotFoundError, ObjectError."""

    async def volume(self, name: str) -> core_v1.PersistentVolume:
        """A persistent volume as the API server has it now. Raises ObjectNotFoundError, ObjectError."""


class ObjectSource(ConfigSource, ClaimSource, Protocol):
    """Reads the objects that pods of this node refer to.

    Config maps and secrets are followed while pods that use them are registered, since a node may only list and watch single objects.
    """

    def register(self, pod: core_v1.Pod) -> None:
        """A pod is here (or has changed): follow what it refers to."""

    def unregister(self, pod_uid: str) -> None:
        """A pod has gone: follow what only it referred to no longer, and forget its tokens."""

    def on_change(self, changed: Callable[[str], None]) -> None:
        """Call `changed(pod uid)` when something has changed that a registered pod refers to."""

    async def change_claim_status(self, claim: core_v1.PersistentVolumeClaim, status: Mapping[str, Any]) -> None:
        """Merge something into the status of a claim that nobody else has changed meanwhile. Raises ObjectError."""

    async def token(self, pod: core_v1.Pod, audience: str, seconds: int | None) -> Token:
        """A token of the pod's service account, bound to the pod, renewed in time. Raises ObjectError."""

    async def trust_anchors(
        self, *, name: str | None, signer: str | None, selector: meta_v1.LabelSelector | None, optional: bool
    ) -> bytes:
        """PEM certificates of one ClusterTrustBundle, or of all of a signer that match the selector. Raises ObjectError."""

    async def pod_certificate(self, pod: core_v1.Pod, volume: str, index: int) -> tuple[bytes, bytes]:
        """(private key, certificate chain), both PEM, for a podCertificate source of a projected volume. Raises ObjectError."""
