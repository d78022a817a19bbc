"""In-tree volumes as their CSI drivers know them."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.csi_migration import AWS, AZURE_DISK, CINDER, GCE
from bayplan.api.types.core_v1 import PersistentVolume, Volume
from bayplan.api.types.storage_v1 import CSINode
from bayplan.scheduler.snapshot.migration import (
    TranslationError,
    Translations,
    handle_of,
    in_tree_plugin,
    is_attached_by_csi,
    is_migrated,
)

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
GKE_ZONE = "topology.gke.io/zone"


def volume(source: dict[str, Any], *terms: dict[str, list[str]], **labels: str) -> PersistentVolume:
    """A volume; each term maps label keys to allowed values."""
    expressions = [[{"key": key, "operator": "In", "values": values} for key, values in term.items()] for term in terms]
    required = {"nodeSelectorTerms": [{"matchExpressions": items} for items in expressions]}
    spec = {"capacity": {"storage": "1Gi"}, **source, **({"nodeAffinity": {"required": required}} if terms else {})}
    named = {key.replace("_", "."): value for key, value in labels.items()}
    return from_tree(PersistentVolume, {"metadata": {"name": "v", "labels": named}, "spec": spec})


def disk(*terms: dict[str, list[str]], zone: str = "", key: str = ZONE) -> PersistentVolume:
    made = volume({"gcePersistentDisk": {"pdName": "d"}}, *terms)
    if zone:
        made.metadata.labels[key] = zone
    return made


def csi_node(*migrated: str) -> CSINode:
    annotation = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)}
    return from_tree(CSINode, {"metadata": {"name": "a", "annotations": annotation}, "spec": {"drivers": []}})


@pytest.mark.parametrize(
    ("volume_id", "handle"),
    [
        ("vol-1", "vol-1"),
        ("anything", "anything"),
        ("aws://us-east-1a/vol-1", "vol-1"),
        ("aws:///vol-1", "vol-1"),
    ],
)
def test_a_disk_of_aws_has_one_handle_however_it_is_written(volume_id: str, handle: str) -> None:
    inline = from_tree(Volume, {"name": "v", "awsElasticBlockStore": {"volumeID": volume_id}})
    assert in_tree_plugin(inline) == AWS
    assert handle_of(inline, AWS) == handle


def test_a_disk_of_aws_that_is_no_volume_has_none() -> None:
    inline = from_tree(Volume, {"name": "v", "awsElasticBlockStore": {"volumeID": "aws://us-east-1a/disk-1"}})
    with pytest.raises(TranslationError) as caught:
        handle_of(inline, AWS)
    assert str(caught.value) == (
        "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://us-east-1a/disk-1)"
    )


@pytest.mark.parametrize(
    ("zone", "handle"),
    [
        ("", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ("us-a1-b", "projects/UNSPECIFIED/zones/us-a1-b/disks/d"),
        ("us-a1-b__us-a1-c", "projects/UNSPECIFIED/regions/us-a1/disks/d"),
    ],
)
def test_a_disk_of_google_is_named_with_its_zone_or_region(zone: str, handle: str) -> None:
    assert handle_of(disk(zone=zone), GCE) == handle
    assert handle_of(from_tree(Volume, {"name": "v", "gcePersistentDisk": {"pdName": "d"}}), GCE) == (
        "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
    )


@pytest.mark.parametrize(
    ("zone", "problem"),
    [
        ("a__b", "zone in unexpected format, expected: {locale}-{region}-{zone}, got: a"),
        ("us-a1-b__eu-b1-c", "multiple or no regions gotten from zones, got: map[eu-b1:{} us-a1:{}]"),
    ],
)
def test_zones_of_a_disk_have_to_make_one_region(zone: str, problem: str) -> None:
    with pytest.raises(TranslationError) as caught:
        handle_of(disk(zone=zone), GCE)
    assert str(caught.value) == f"failed to get region from zones: {problem}"


def test_disks_of_azure_have_to_be_managed() -> None:
    def azure(kind: str) -> Volume:
        return from_tree(Volume, {"name": "v", "azureDisk": {"diskName": "d", "diskURI": "/uri", "kind": kind}})

    assert handle_of(azure("Managed"), AZURE_DISK) == "/uri"
    with pytest.raises(TranslationError, match=r"^kind\(Shared\) is not supported in csi migration$"):
        handle_of(azure("Shared"), AZURE_DISK)


def test_a_node_says_which_plugins_it_has_migrated_but_some_are_never_looked_at() -> None:
    assert is_migrated(csi_node(GCE, CINDER), CINDER)
    assert not is_migrated(csi_node(GCE), CINDER)
    assert not is_migrated(None, GCE)
    vsphere = "kubernetes.io/vsphere-volume"
    assert not is_migrated(csi_node(vsphere), vsphere)
    assert is_attached_by_csi(csi_node(), GCE)
    assert not is_attached_by_csi(csi_node(), vsphere)
    assert not is_attached_by_csi(None, GCE)


def terms_of(made: PersistentVolume) -> list[dict[str, list[str]]]:
    affinity = Translations().seen_from(csi_node(GCE), made).spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
    return [{item.key: list(item.values) for item in term.match_expressions} for term in terms]


def test_the_zone_of_a_volume_is_that_of_its_driver() -> None:
    assert terms_of(disk()) == []
    assert terms_of(disk(zone="us-a1-b")) == [{GKE_ZONE: ["us-a1-b"]}]
    assert terms_of(disk(zone="us-a1-b", key=BETA_ZONE)) == [{GKE_ZONE: ["us-a1-b"]}]
    assert terms_of(disk(zone="us-a1-c__us-a1-b")) == [{GKE_ZONE: ["us-a1-b", "us-a1-c"]}]
    assert terms_of(disk({ZONE: ["z"]}, {"other": ["x"]})) == [{GKE_ZONE: ["z"]}, {"other": ["x"]}]
    assert terms_of(disk({"other": ["x"]}, zone="us-a1-b")) == [{"other": ["x"], GKE_ZONE: ["us-a1-b"]}]
    assert terms_of(disk({BETA_ZONE: ["z"], BETA_REGION: ["r"]})) == [
        {GKE_ZONE: ["z"], "topology.kubernetes.io/region": ["r"]}
    ]


def test_a_volume_stays_as_it_is_where_the_node_does_not_handle_it_through_csi() -> None:
    made = disk(zone="us-a1-b")
    translations = Translations()
    assert translations.seen_from(csi_node(AWS), made) is made
    assert translations.seen_from(csi_node(GCE), made) is translations.seen_from(csi_node(GCE), made)
    with pytest.raises(TranslationError, match=r"^could not translate pv: failed to get region from zones: zone in"):
        translations.seen_from(csi_node(GCE), disk(zone="a__b"))
