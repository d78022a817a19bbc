"""Kubernetes' feature gates that the kubelet follows; it behaves as with the default of all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bayplan.api.declared_features import DECLARED

RESOURCE_HEALTH: Final = "ResourceHealthStatus"
"""Whether statuses of containers say how their devices are."""
RESOURCE_HEALTH_MESSAGE: Final = "ResourceHealthStatusMessage"
"""Whether they have the drivers' messages too."""
CPU_QUOTA: Final = "DisableCPUQuotaWithExclusiveCPUs"
CPU_ALPHA_OPTIONS: Final = "CPUManagerPolicyAlphaOptions"
CPU_BETA_OPTIONS: Final = "CPUManagerPolicyBetaOptions"

FOLLOWED: Final = frozenset(
    (RESOURCE_HEALTH, RESOURCE_HEALTH_MESSAGE, CPU_QUOTA, CPU_ALPHA_OPTIONS, CPU_BETA_OPTIONS, *DECLARED)
)
"""Gates that have an effect. Those of `DECLARED` say whether the node declares the feature."""
_ON: Final = frozenset((RESOURCE_HEALTH, RESOURCE_HEALTH_MESSAGE, CPU_QUOTA, CPU_BETA_OPTIONS, *DECLARED))
_NEEDED: Final = {RESOURCE_HEALTH_MESSAGE: (RESOURCE_HEALTH,)}


def is_enabled(gates: Mapping[str, bool], name: str) -> bool:
    """Whether a gate that has an effect is on. gates: those that are set."""
    return gates.get(name, name in _ON)


def missing_features(gates: Mapping[str, bool]) -> list[tuple[str, tuple[str, ...]]]:
    """The gates that are on while others are off that they need, with these."""
    found = []
    for name, needed in _NEEDED.items():
        missing = tuple(each for each in needed if not is_enabled(gates, each))
        if missing and is_enabled(gates, name):
            found.append((name, missing))
    return found
