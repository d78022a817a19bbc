"""In-tree volume plugins that live on as CSI drivers: their names, and how their volumes are called there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import PersistentVolume, Volume
    from bayplan.api.types.storage_v1 import CSINode

CSI_DRIVERS: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""In-tree plugin -> CSI driver."""

ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
CSI_ZONES: Final = {
    "kubernetes.io/aws-ebs": "topology.ebs.csi.aws.com/zone",
    "kubernetes.io/gce-pd": "topology.gke.io/zone",
    "kubernetes.io/azure-disk": "topology.disk.csi.azure.com/zone",
    "kubernetes.io/cinder": "topology.cinder.csi.openstack.org/zone",
    "kubernetes.io/vsphere-volume": "topology.csi.vmware.com/zone",
}
"""In-tree plugin -> the node label by which its CSI driver tells zones apart."""

MIGRATED_ANNOTATION: Final = "storage.alpha.kubernetes.io/migrated-plugins"


def inline_source(volume: Volume | PersistentVolume) -> tuple[str, str] | None:
    """In-tree plugin and volume handle of a migratable volume; None if it is none."""
    source: Any = getattr(volume, "spec", volume)
    if source.gce_persistent_disk is not None:
        return (
            "kubernetes.io/gce-pd",
            f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{source.gce_persistent_disk.pd_name}",
        )
    if source.aws_elastic_block_store is not None:
        return "kubernetes.io/aws-ebs", source.aws_elastic_block_store.volume_id.rsplit("/", 1)[-1]
    if source.azure_disk is not None:
        return "kubernetes.io/azure-disk", source.azure_disk.disk_uri
    if source.cinder is not None:
        return "kubernetes.io/cinder", source.cinder.volume_id
    if source.vsphere_volume is not None:
        return "kubernetes.io/vsphere-volume", source.vsphere_volume.volume_path
    if source.portworx_volume is not None:
        return "kubernetes.io/portworx-volume", source.portworx_volume.volume_id
    return None


def allows_zone(volume: PersistentVolume, labels: Mapping[str, str], csi_node: CSINode | None) -> bool:
    """Whether a node that handles an in-tree volume through CSI is in the volume's zone.

    Migration turns the zone label of the volume into node affinity for the driver's own zone label.
    """
    source = inline_source(volume)
    if source is None or source[0] not in CSI_ZONES or not is_migrated(csi_node, source[0]):
        return True
    zones = next((volume.metadata.labels[key] for key in ZONE_LABELS if key in volume.metadata.labels), None)
    return zones is None or labels.get(CSI_ZONES[source[0]]) in zones.split("__")


def is_migrated(csi_node: CSINode | None, plugin: str) -> bool:
    """Whether a node handles the volumes of an in-tree plugin through CSI."""
    if csi_node is None:
        return False
    return plugin in csi_node.metadata.annotations.get(MIGRATED_ANNOTATION, "").split(",")
