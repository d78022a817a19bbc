"""Keys of taints, tolerations and annotations in documents of Kubernetes 1.4 to 1.7, and what they are called today.

Kubernetes takes them as any other key, so that they mean nothing; Bayplan says so in a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bayplan.api.types import core_v1

ALPHA_KEYS: Final = {
    "node.alpha.kubernetes.io/notReady": "node.kubernetes.io/not-ready",
    "node.alpha.kubernetes.io/unreachable": "node.kubernetes.io/unreachable",
    "node.alpha.kubernetes.io/networkUnavailable": "node.kubernetes.io/network-unavailable",
    "node.alpha.kubernetes.io/memoryPressure": "node.kubernetes.io/memory-pressure",
    "node.alpha.kubernetes.io/diskPressure": "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/notReady": "node.kubernetes.io/not-ready",
    "node.kubernetes.io/networkUnavailable": "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/memoryPressure": "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/diskPressure": "node.kubernetes.io/disk-pressure",
}
"""Old key of taints and tolerations -> today's."""
ALPHA_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/affinity": 'non-functional in v1.6+; use the "affinity" field instead',
    "scheduler.alpha.kubernetes.io/tolerations": 'non-functional in v1.6+; use the "tolerations" field instead',
    "scheduler.alpha.kubernetes.io/taints": 'non-functional in v1.6+; use the "taints" field instead',
    "scheduler.alpha.kubernetes.io/name": 'non-functional in v1.6+; use the "schedulerName" field instead',
}
"""Old annotation of pods and nodes -> what is said of it, in the words that Kubernetes has for others."""


def key_warnings(path: str, items: Sequence[core_v1.Taint | core_v1.Toleration]) -> Iterator[str]:
    """A warning for each taint or toleration with an old key."""
    for index, item in enumerate(items):
        today = ALPHA_KEYS.get(item.key)
        if today is not None:
            yield f'{path}[{index}].key: {item.key} is an alpha key that has no effect; use "{today}" instead'
