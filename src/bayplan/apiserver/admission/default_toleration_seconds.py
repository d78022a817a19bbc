"""DefaultTolerationSeconds: pods stay on a node that is not ready or unreachable for some time, five minutes by default, unless they say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bayplan.api.kinds import Kind
from bayplan.api.trusted import trust
from bayplan.api.types.core_v1 import Toleration
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.settings import ApiServerSettings

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_DEFAULT: Final = 300


def toleration_seconds(settings: ApiServerSettings) -> dict[str, int]:
    """What the server's flags say to the plugin: its configuration."""
    return {
        _NOT_READY: settings.default_not_ready_toleration_seconds,
        _UNREACHABLE: settings.default_unreachable_toleration_seconds,
    }


def _tolerations(seconds: Mapping[str, int]) -> tuple[Toleration, ...]:
    """Not ready first."""
    keys = (_NOT_READY, _UNREACHABLE)
    made = tuple(
        Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds[key]) for key in keys
    )
    return trust(made)


def _covers(toleration: Toleration, key: str) -> bool:
    return (toleration.key == key or not toleration.key) and toleration.effect in ("NoExecute", "")


class DefaultTolerationSeconds(AdmissionPlugin):
    """See the module."""

    name = "DefaultTolerationSeconds"
    keeps_defaults = True
    decided_by = ()

    def __init__(self) -> None:
        self._added = _tolerations({_NOT_READY: _DEFAULT, _UNREACHABLE: _DEFAULT})

    def configure(self, configuration: Mapping[str, Any]) -> None:
        """Seconds by the key of the taint, as the server's flags say."""
        self._added = _tolerations(configuration)

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation in (CREATE, UPDATE) and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Add the tolerations that are missing."""
        spec = request.obj.spec
        if not spec.tolerations:
            spec.tolerations = self._added
            return
        missing = [one for one in self._added if not any(_covers(given, one.key) for given in spec.tolerations)]
        if missing:
            spec.tolerations = (*spec.tolerations, *missing)
