"""Pod specs that were found sound before. Pods mostly come in crowds that one template made: what holds for the first
of them holds for all, so the rules are applied once per form and not once per pod.

A form is the spec as JSON, in which the name of the volume that the server itself mounts for the service account's
token, different in each pod, is left out.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.codec import encode
from bayplan.api.trusted import is_trusted
from bayplan.api.types import core_v1

_MOST_FORMS: Final = 512
_LONGEST_FORM: Final = 8192
"""Bytes. Longer specs are rare, and remembering them would cost more memory than it saves time."""


class SoundForms:
    """Forms that broke no rule and gave no warning, whatever the pod's metadata were."""

    def __init__(self) -> None:
        self._forms: dict[bytes, None] = {}
        self._latest: core_v1.PodSpec | None = None
        self._form = b""
        """Of the latest spec that was asked for."""

    def knows(self, spec: core_v1.PodSpec) -> bool:
        """Whether a spec of this form was remembered. A pod that is bound has no crowd: it is not asked about, nor remembered."""
        if spec.node_name:
            return False
        self._latest, self._form = spec, form_of(spec)
        return self._form in self._forms

    def has_just_known(self, spec: core_v1.PodSpec) -> bool:
        """Whether this very spec is the one that was last asked for, and known."""
        return spec is self._latest and self._form in self._forms

    def remember(self, spec: core_v1.PodSpec) -> None:
        """A spec of this form breaks no rule and gives no warning, if it is the one that was last asked for.

        The oldest form goes when there are too many.
        """
        if spec is not self._latest or len(self._form) > _LONGEST_FORM:
            return
        if any(volume.ephemeral is not None for volume in spec.volumes):
            return  # the name of its claim is made of the pod's
        if len(self._forms) >= _MOST_FORMS:
            del self._forms[next(iter(self._forms))]
        self._forms[self._form] = None


def form_of(spec: core_v1.PodSpec) -> bytes:
    """What all pods of one template have in common."""
    form, volume = encode(spec), token_volume(spec)
    return form.replace(b'"%b"' % volume.encode(), b"0") if volume else form


def token_volume(spec: core_v1.PodSpec) -> str:
    """The name of the volume with the service account's token that the server added to a pod; "" if it added none."""
    volumes = spec.volumes
    return volumes[-1].name if volumes and is_trusted(volumes[-1].projected) else ""
