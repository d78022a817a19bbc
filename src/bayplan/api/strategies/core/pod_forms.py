"""Pod specs that were found valid before. Most pods are made from templates: what holds for the first
of them holds for all, so the rules are applied once per form and not once per pod.

A form is the spec as JSON, in which the name of the volume that the server itself mounts for the service account's
token, different in each pod, is left out.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.codec import encode
from bayplan.api.trusted import is_trusted
from bayplan.api.types import core_v1
from bayplan.support.memory.memo import Memo

_MOST_BYTES: Final = 4 << 20
_LONGEST_FORM: Final = 8192
"""Bytes. Longer specs are rare, and remembering them would cost more memory than it saves time."""


class ValidForms:
    """Forms that broke no rule and gave no warning, whatever the pod's metadata were."""

    def __init__(self) -> None:
        self._forms: Memo[bytes, bool] = Memo("valid_pod_specs", most_bytes=_MOST_BYTES)
        self._latest: core_v1.PodSpec | None = None
        self._form = b""
        """Of the latest spec that was asked for."""
        self._is_known = False

    def knows(self, spec: core_v1.PodSpec) -> bool:
        """Whether a spec of this form was remembered. Specs with a node are seldom alike: they are neither looked up nor remembered."""
        if spec.node_name:
            return False
        self._latest, self._form = spec, form_of(spec)
        self._is_known = self._forms.get(self._form) is not None
        return self._is_known

    def has_just_known(self, spec: core_v1.PodSpec) -> bool:
        """Whether this very spec is the one that was last asked for, and known."""
        return spec is self._latest and self._is_known

    def remember(self, spec: core_v1.PodSpec) -> None:
        """A spec of this form breaks no rule and gives no warning, if it is the one that was last asked for."""
        if spec is not self._latest or len(self._form) > _LONGEST_FORM:
            return
        if any(volume.ephemeral is not None for volume in spec.volumes):
            return  # the name of its claim is made of the pod's
        self._forms.put(self._form, value=True, size=len(self._form))
        self._is_known = True


def form_of(spec: core_v1.PodSpec) -> bytes:
    """What all pods of one template have in common."""
    form, volume = encode(spec), token_volume(spec)
    return form.replace(b'"%b"' % volume.encode(), b"0") if volume else form


def token_volume(spec: core_v1.PodSpec) -> str:
    """The name of the volume with the service account's token that the server added to a pod; "" if it added none."""
    volumes = spec.volumes
    return volumes[-1].name if volumes and is_trusted(volumes[-1].projected) else ""
