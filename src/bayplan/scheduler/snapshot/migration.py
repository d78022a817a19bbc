"""In-tree volume plugins that live on as CSI drivers: their names, and what becomes of their volumes.

The rules are those of `k8s.io/csi-translation-lib`: a volume gets the handle that its CSI driver knows it by, and the
zone that it is labelled with becomes node affinity for the driver's own label.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from bayplan.api.csi_migration import AWS, AZURE_DISK, CINDER, GCE, PORTWORX
from bayplan.api.types.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, VolumeNodeAffinity
from bayplan.support.memory.memo import Memo

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import PersistentVolume, Volume
    from bayplan.api.types.storage_v1 import CSINode

MIGRATED: Final = frozenset((AWS, GCE, AZURE_DISK, CINDER, PORTWORX))
"""Plugins for which the scheduler knows that nodes attach their volumes through CSI."""

CSI_ZONES: Final = {
    AWS: "topology.ebs.csi.aws.com/zone",
    GCE: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
"""In-tree plugin -> the node label by which its CSI driver tells zones apart."""

STABLE: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
BETA: Final = ("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")

MIGRATED_ANNOTATION: Final = "storage.alpha.kubernetes.io/migrated-plugins"
UNKNOWN: Final = "UNSPECIFIED"

_SOURCES: Final = {
    GCE: "gce_persistent_disk",
    AWS: "aws_elastic_block_store",
    AZURE_DISK: "azure_disk",
    CINDER: "cinder",
    "kubernetes.io/azure-file": "azure_file",
    "kubernetes.io/vsphere-volume": "vsphere_volume",
    PORTWORX: "portworx_volume",
}
_HANDLES: Final = {AZURE_DISK: "disk_uri", CINDER: "volume_id", PORTWORX: "volume_id"}


class TranslationError(Exception):
    """A volume is not what its CSI driver could work with."""


def in_tree_plugin(volume: Volume | PersistentVolume) -> str | None:
    """The in-tree plugin of a volume that has become a CSI driver; None if there is none."""
    source: Any = getattr(volume, "spec", volume)
    return next((plugin for plugin, field in _SOURCES.items() if getattr(source, field) is not None), None)


def is_attached_by_csi(csi_node: CSINode | None, plugin: str) -> bool:
    """Whether the volumes of an in-tree plugin count as attached through CSI on a node."""
    return csi_node is not None and plugin in MIGRATED


def is_migrated(csi_node: CSINode | None, plugin: str) -> bool:
    """Whether a node says that it handles the volumes of an in-tree plugin through CSI."""
    if csi_node is None or plugin not in MIGRATED:
        return False
    return plugin in csi_node.metadata.annotations.get(MIGRATED_ANNOTATION, "").split(",")


def handle_of(volume: Volume | PersistentVolume, plugin: str) -> str:
    """The name of an in-tree volume for its CSI driver. Raises TranslationError."""
    owner: Any = volume
    spec = getattr(owner, "spec", owner)
    source = getattr(spec, _SOURCES[plugin])
    if plugin == GCE:
        return _gce_handle(source.pd_name, {} if spec is owner else owner.metadata.labels)
    if plugin == AWS:
        return _aws_handle(source.volume_id)
    if plugin == AZURE_DISK and source.kind is not None and source.kind.lower() != "managed":
        raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
    return str(getattr(source, _HANDLES[plugin]))


def _gce_handle(name: str, labels: dict[str, str]) -> str:
    zones = (labels.get(BETA[0]) or labels.get(STABLE[0]) or "").split("__")
    if len(zones) == 1:
        return f"projects/{UNKNOWN}/zones/{zones[0] or UNKNOWN}/disks/{name}"
    try:
        region = _gce_region(zones)
    except TranslationError as error:
        raise TranslationError(f"failed to get region from zones: {error}") from None
    return f"projects/{UNKNOWN}/regions/{region}/disks/{name}"


def _gce_region(zones: list[str]) -> str:
    regions: dict[str, None] = {}
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            expected = "{locale}-{region}-{zone}"
            raise TranslationError(f"zone in unexpected format, expected: {expected}, got: {zone}")
        regions["-".join(parts[:2])] = None
    if len(regions) != 1:
        names = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(f"multiple or no regions gotten from zones, got: map[{names}]")
    return next(iter(regions))


def _aws_handle(volume_id: str) -> str:
    """`aws://zone/vol-x`, `aws:///vol-x` and `vol-x` are one volume."""
    if not volume_id.startswith("aws://"):
        return volume_id
    name = urlsplit(volume_id).path.strip("/")
    if not re.fullmatch(r"vol-[^/]*", name):
        raise TranslationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return name


_VOLUME_BYTES: Final = 2000
"""Of a volume and what was made of it."""


class Translations:
    """Volumes as nodes see them that handle them through CSI; each is worked out once for as long as it stays the same."""

    def __init__(self) -> None:
        self._known: Memo[int, tuple[PersistentVolume, PersistentVolume]] = Memo(
            "migrated_volumes", most_bytes=32 << 20
        )
        """By identity of the volume, which is kept so that no other can take its place."""

    def seen_from(self, csi_node: CSINode | None, volume: PersistentVolume) -> PersistentVolume:
        """A bound volume with the node affinity that it has on a node. Raises TranslationError."""
        plugin = in_tree_plugin(volume)
        if plugin is None or not is_migrated(csi_node, plugin):
            return volume
        known = self._known.get(id(volume))
        if known is not None:
            return known[1]
        try:
            handle_of(volume, plugin)
        except TranslationError as error:
            raise TranslationError(f"could not translate pv: {error}") from error
        key = CSI_ZONES.get(plugin)
        result = volume if key is None else _with_zone_of_driver(volume, key)
        self._known.put(id(volume), (volume, result), _VOLUME_BYTES)
        return result


def _with_zone_of_driver(volume: PersistentVolume, driver_key: str) -> PersistentVolume:
    """Affinity to a zone becomes affinity to the driver's zone; without any, the label of the volume does."""
    affinity = volume.spec.node_affinity
    terms = (
        list(affinity.required.node_selector_terms) if affinity is not None and affinity.required is not None else []
    )
    zone, region = _labels_in_use(terms, volume.metadata.labels)
    renamed = {}
    if any(item.key == zone and item.values for term in terms for item in term.match_expressions):
        renamed[zone] = driver_key
    elif zone in volume.metadata.labels:
        zones = sorted({part.strip() for part in volume.metadata.labels[zone].split("__")} - {""})
        if zones:
            added = NodeSelectorRequirement(key=driver_key, operator="In", values=tuple(zones))
            terms = [
                replace(term, match_expressions=(*term.match_expressions, added))
                for term in terms or [NodeSelectorTerm()]
            ]
    if region == BETA[1]:
        renamed[region] = STABLE[1]
    if not terms:
        return volume
    required = NodeSelector(node_selector_terms=tuple(_renamed(term, renamed) for term in terms))
    return replace(volume, spec=replace(volume.spec, node_affinity=VolumeNodeAffinity(required=required)))


def _renamed(term: NodeSelectorTerm, names: dict[str, str]) -> NodeSelectorTerm:
    expressions = tuple(replace(item, key=names.get(item.key, item.key)) for item in term.match_expressions)
    return replace(term, match_expressions=expressions)


def _labels_in_use(terms: list[NodeSelectorTerm], labels: dict[str, str]) -> tuple[str, str]:
    """The labels for zone and region that a volume uses, in its affinity or else its labels: the stable ones or the beta ones."""
    keys = {item.key for term in terms for item in term.match_expressions}
    for place in (keys, labels):
        for pair in (STABLE, BETA):
            if pair[0] in place:
                return pair
    return STABLE
