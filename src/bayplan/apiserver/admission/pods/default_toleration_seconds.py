"""DefaultTolerationSeconds: pods stay on a node that is not ready or unreachable for some time, five minutes by default, unless they say otherwise."""

from __future__ import annotations

import functools
from typing import Final

from bayplan.api.kinds import Kind
from bayplan.api.trusted import trust
from bayplan.api.types.core_v1 import Toleration
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.settings import ApiServerSettings

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"


@functools.lru_cache(maxsize=16)
def _tolerations(not_ready: int, unreachable: int) -> tuple[Toleration, ...]:
    """The tolerations that are added, from their seconds."""
    seconds = {_NOT_READY: not_ready, _UNREACHABLE: unreachable}
    return trust(
        tuple(
            Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=value)
            for key, value in seconds.items()
        )
    )


def _default_tolerations(settings: ApiServerSettings) -> tuple[Toleration, ...]:
    return _tolerations(settings.default_not_ready_toleration_seconds, settings.default_unreachable_toleration_seconds)


def _covers(toleration: Toleration, key: str) -> bool:
    return (toleration.key == key or not toleration.key) and toleration.effect in ("NoExecute", "")


class DefaultTolerationSeconds(AdmissionPlugin):
    """See the module."""

    name = "DefaultTolerationSeconds"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation in (CREATE, UPDATE) and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Add the tolerations that are missing."""
        spec, added = request.obj.spec, _default_tolerations(request.call.context.settings)
        if not spec.tolerations:
            spec.tolerations = added
            return
        missing = [one for one in added if not any(_covers(given, one.key) for given in spec.tolerations)]
        if missing:
            spec.tolerations = (*spec.tolerations, *missing)
