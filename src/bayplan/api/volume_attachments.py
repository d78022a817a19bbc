"""Names on which controllers of storage drivers (CSI) and kubelets agree: of attached volumes, and an annotation. Pure functions.

Source of the behaviour: Kubernetes' CSI volume plugin.
"""

from __future__ import annotations

import hashlib
from typing import Final

from bayplan.api.types import storage_v1

UNIQUE_PREFIX: Final = "kubernetes.io/csi/"
NODE_EXPANSION_NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
"""On a claim whose volume grows without its nodes."""


def attachment_name(driver: str, handle: str, node_name: str) -> str:
    """Name of the VolumeAttachment of a volume and a node."""
    return "csi-" + hashlib.sha256(f"{handle}{driver}{node_name}".encode()).hexdigest()


def unique_name(driver: str, handle: str) -> str:
    """The name under which a node's status lists a volume."""
    return f"{UNIQUE_PREFIX}{driver}^{handle}"


def needs_attach(driver: storage_v1.CSIDriver | None) -> bool:
    """Whether volumes of a driver are attached before they are mounted; yes, if it does not say."""
    return driver is None or driver.spec.attach_required is not False
