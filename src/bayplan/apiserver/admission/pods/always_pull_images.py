"""AlwaysPullImages: images are pulled with the pod's own credentials each time, so that nobody uses what others were allowed to pull."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bayplan.api.errors import forbidden_error, unsupported
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest

_FIELDS = (
    ("init_containers", "initContainers"),
    ("containers", "containers"),
    ("ephemeral_containers", "ephemeralContainers"),
)


class AlwaysPullImages(AdmissionPlugin):
    """See the module."""

    name = "AlwaysPullImages"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        if kind.kind != "Pod" or kind.group or operation not in (CREATE, UPDATE):
            return False
        return subresource in ("", "ephemeralcontainers")

    def admit(self, request: AdmissionRequest) -> None:
        """Set the pull policies."""
        if not _has_new_images(request):
            return
        spec = request.obj.spec
        for attribute, _ in _FIELDS:
            containers = getattr(spec, attribute)
            pulled = tuple(msgspec.structs.replace(one, image_pull_policy="Always") for one in containers)
            setattr(spec, attribute, pulled)
        spec.volumes = tuple(
            msgspec.structs.replace(one, image=msgspec.structs.replace(one.image, pull_policy="Always"))
            if one.image is not None
            else one
            for one in spec.volumes
        )

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse what set another policy afterwards."""
        if not _has_new_images(request):
            return
        problems = [
            str(unsupported(path, policy, ("Always",)))
            for path, policy in _policies(request.obj.spec)
            if policy != "Always"
        ]
        if problems:
            detail = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise forbidden_error("pods", "", request.name, detail)


def _policies(spec: Any) -> Iterator[tuple[str, str]]:
    for attribute, field in _FIELDS:
        for index, container in enumerate(getattr(spec, attribute)):
            yield f"spec.{field}[{index}].imagePullPolicy", container.image_pull_policy
    for index, volume in enumerate(spec.volumes):
        if volume.image is not None:
            yield f"spec.volumes[{index}].image.pullPolicy", volume.image.pull_policy


def _has_new_images(request: AdmissionRequest) -> bool:
    """Whether the request brings images; an update that does not is left alone, or old pods could not even be deleted."""
    if request.old is None:
        return True
    return bool(_images(request.obj.spec) - _images(request.old.spec))


def _images(spec: Any) -> set[str]:
    return {container.image for attribute, _ in _FIELDS for container in getattr(spec, attribute)}
