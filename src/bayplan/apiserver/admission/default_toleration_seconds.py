"""DefaultTolerationSeconds: pods stay on a node that is not ready or unreachable for five minutes, unless they say otherwise."""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.api.trusted import trust
from bayplan.api.types.core_v1 import Toleration
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest

SECONDS = 300
_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_ADDED = trust(
    tuple(Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=SECONDS) for key in _KEYS)
)


def _covers(toleration: Toleration, key: str) -> bool:
    return (toleration.key == key or not toleration.key) and toleration.effect in ("NoExecute", "")


class DefaultTolerationSeconds(AdmissionPlugin):
    """See the module."""

    name = "DefaultTolerationSeconds"
    keeps_defaults = True
    decided_by = ()

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation in (CREATE, UPDATE) and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Add the tolerations that are missing."""
        spec = request.obj.spec
        if not spec.tolerations:
            spec.tolerations = _ADDED
            return
        missing = [key for key in _KEYS if not any(_covers(one, key) for one in spec.tolerations)]
        if missing:
            spec.tolerations = (*spec.tolerations, *(one for one in _ADDED if one.key in missing))
