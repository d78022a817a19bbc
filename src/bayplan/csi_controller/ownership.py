"""Which claims and volumes an instance takes that runs on one node, among instances on all nodes. Pure.

Claims with a selected node belong to the instance there. For claims that are bound at once, every instance whose node would do waits for a time by chance and
then selects its node, unless another one was faster: a claim has one resourceVersion, so one of them wins. An instance whose node has no room gives the claim
back, and waits longer the next time.

Source of the behaviour: external-provisioner "Deployment on each node".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from bayplan.api.types import core_v1, storage_v1
from bayplan.csi_controller.provision_rules import DELAYED, SELECTED_NODE
from bayplan.csi_controller.settings import CsiControllerSettings
from bayplan.csi_controller.topology import allows, is_accessible


class Owner(Enum):
    """Whose a claim is."""

    OURS = "this instance's"
    OTHERS = "not this instance's"
    OPEN = "nobody's yet: this instance may take it"


def owner_of(
    claim: core_v1.PersistentVolumeClaim,
    storage_class: storage_v1.StorageClass,
    settings: CsiControllerSettings,
    segments: Mapping[str, str],
) -> Owner:
    """Whose claim it is to make a volume for."""
    if not settings.node_deployment:
        return Owner.OURS
    selected = claim.metadata.annotations.get(SELECTED_NODE, "")
    if selected:
        return Owner.OURS if selected == settings.node_name else Owner.OTHERS
    if storage_class.volume_binding_mode == DELAYED or not settings.immediate_binding:
        return Owner.OTHERS
    return Owner.OPEN if allows(storage_class.allowed_topologies, segments) else Owner.OTHERS


def is_here(volume: core_v1.PersistentVolume, settings: CsiControllerSettings, segments: Mapping[str, str]) -> bool:
    """Whether a volume is this instance's."""
    return not settings.node_deployment or is_accessible(volume.spec.node_affinity, segments)
