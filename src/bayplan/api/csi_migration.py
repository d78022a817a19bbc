"""In-tree volume plugins that live on as CSI drivers."""

from __future__ import annotations

from typing import Final

AWS: Final = "kubernetes.io/aws-ebs"
GCE: Final = "kubernetes.io/gce-pd"
AZURE_DISK: Final = "kubernetes.io/azure-disk"
CINDER: Final = "kubernetes.io/cinder"
PORTWORX: Final = "kubernetes.io/portworx-volume"

CSI_DRIVERS: Final = {
    AWS: "ebs.csi.aws.com",
    GCE: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    PORTWORX: "pxd.portworx.com",
}
"""In-tree plugin -> CSI driver."""
