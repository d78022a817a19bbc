"""Volumes of pods: sources, paths, and which volumes containers may refer to."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.strategies.core.pods import STRATEGY
from tests.api.validation.pods import pod, problems

ISCSI = {"targetPortal": "10.0.0.1:3260", "lun": 0}
IQN = "iqn.2001-04.com.example:storage.disk1"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"iscsi": {**ISCSI, "iqn": IQN}}, []),
        ({"iscsi": {**ISCSI, "iqn": "iqn.bad"}}, ["spec.volumes[0].iscsi.iqn INVALID"]),
        ({"iscsi": {**ISCSI, "iqn": "eui.0123456789ABCDEF"}}, []),
        ({"iscsi": {**ISCSI, "iqn": "naa.1"}}, ["spec.volumes[0].iscsi.iqn INVALID"]),
        (
            {"iscsi": {**ISCSI, "iqn": IQN, "initiatorName": "other"}},
            ["spec.volumes[0].iscsi.initiatorname INVALID"],
        ),
        (
            {"iscsi": {"targetPortal": "x" * 70, "iqn": IQN, "initiatorName": IQN}},
            ["spec.volumes[0].name INVALID"],
        ),
        ({"gcePersistentDisk": {}}, ["spec.volumes[0].persistentDisk.pdName REQUIRED"]),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "x", "kind": "Managed"}},
            ["spec.volumes[0].azureDisk.diskURI NOT_SUPPORTED"],
        ),
        ({"storageos": {"volumeName": "No"}}, ["spec.volumes[0].storageos.volumeName INVALID"]),
        (
            {"flexVolume": {"driver": "d", "options": {"kubernetes.io": "x"}}},
            ["spec.volumes[0].flexVolume.options[kubernetes.io] INVALID"],
        ),
        ({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "A"}}}, ["spec.volumes[0].csi.name INVALID"]),
        ({"emptyDir": {}, "cephfs": {"monitors": ["a"]}}, ["spec.volumes[0].cephFS FORBIDDEN"]),
        ({"emptyDir": {}, "downwardAPI": {}}, ["spec.volumes[0].downwarAPI FORBIDDEN"]),
        ({"image": {"reference": ""}}, ["spec.volumes[0].image.reference REQUIRED"]),
        (
            {
                "downwardAPI": {
                    "items": [
                        {"path": "a", "fieldRef": {"fieldPath": "metadata.name"}, "resourceFieldRef": {"resource": "x"}}
                    ]
                }
            },
            ["spec.volumes[0].downwardAPI INVALID"],
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
                        {"configMap": {"name": "b", "items": [{"key": "k", "path": "p"}]}},
                    ]
                }
            },
            ["spec.volumes[0].projected INVALID"],
        ),
        (
            {"projected": {"sources": [{"secret": {"name": "a"}, "configMap": {"name": "b"}}]}},
            ["spec.volumes[0].projected.sources[0] FORBIDDEN"],
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": ""}}]}},
            ["spec.volumes[0].projected.path REQUIRED"],
        ),
        ({"projected": {"sources": [{}]}}, []),
        (
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "metadata": {"name": "x"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                }
            },
            ["spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name FORBIDDEN"],
        ),
    ],
)
def test_sources_follow_their_rules(source: dict[str, Any], expected: list[str]) -> None:
    assert problems(pod({"volumes": [{"name": "v", **source}]})) == expected


def test_a_wrong_volume_is_none_that_a_container_can_mount() -> None:
    spec = {"volumes": [{"name": "v", "hostPath": {"path": "a/../b"}}]}
    assert problems(pod(spec, volumeMounts=[{"name": "v", "mountPath": "/a"}])) == [
        "spec.volumes[0].hostPath.path INVALID",
        "spec.containers[0].volumeMounts[0].name NOT_FOUND",
    ]


def test_a_claim_made_for_the_pod_is_not_referred_to() -> None:
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [
        {"name": "a", "ephemeral": {"volumeClaimTemplate": claim}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "p-a"}},
    ]
    assert problems(pod({"volumes": volumes})) == ["spec.volumes[1].persistentVolumeClaim.claimName INVALID"]


def test_projections_that_are_off_by_default_are_dropped() -> None:
    sources = [{"clusterTrustBundle": {"name": "x", "path": "ca"}}]
    made = pod({"volumes": [{"name": "v", "projected": {"sources": sources}}]})
    assert problems(made) == []
    assert STRATEGY.warnings(made, None) == ['volume "v" (Projected) has no sources provided']


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}]}},
            ['volume "v" (ConfigMap "m"): overlapping paths: "x/y" with "x"'],
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "s", "items": [{"key": "a", "path": "t"}]}},
                        {"serviceAccountToken": {"path": "t/"}},
                    ]
                }
            },
            ['volume "v" (Projected): overlapping paths: "t" (ServiceAccountToken) with "t" (Secret "s")'],
        ),
        ({"configMap": {"name": "m", "items": [{"key": "a", "path": "x"}, {"key": "b", "path": "xy"}]}}, []),
    ],
)
def test_paths_that_hide_one_another_are_warned_of(source: dict[str, Any], expected: list[str]) -> None:
    assert STRATEGY.warnings(pod({"volumes": [{"name": "v", **source}]}), None) == expected
