"""Claims, volumes, and claims of devices."""

from __future__ import annotations

from typing import Final

from tests.differential.controllers.builders import pod
from tests.differential.controllers.steps import Scenario, create, delete, reap, run

_CLAIM: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_VOLUME: Final = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/none"}}
SCENARIOS: Final = (
    Scenario(
        "volumes",
        [
            [
                create("PersistentVolume", "pv-a", spec={**_VOLUME, "storageClassName": "a"}),
                create(
                    "PersistentVolume",
                    "pv-b",
                    spec={**_VOLUME, "capacity": {"storage": "1Gi"}, "storageClassName": "a"},
                ),
            ],
            [create("PersistentVolumeClaim", "one", spec={**_CLAIM, "storageClassName": "a"})],
            [
                create("PersistentVolumeClaim", "two", spec={**_CLAIM, "storageClassName": "a"}),
                create("PersistentVolumeClaim", "three", spec={**_CLAIM, "storageClassName": "a"}),
            ],
            [pod("user", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}])],
            [run()],
            [delete("PersistentVolumeClaim", "one")],
            [delete("Pod", "user")],
            [reap()],
            [delete("PersistentVolumeClaim", "two")],
            [delete("PersistentVolume", "pv-a")],
        ],
    ),
    Scenario(
        "volumes-named",
        [
            [
                create(
                    "PersistentVolume",
                    "pv-c",
                    spec={
                        **_VOLUME,
                        "claimRef": {"namespace": "volumes-named", "name": "mine"},
                        "storageClassName": "",
                    },
                )
            ],
            [
                create("PersistentVolumeClaim", "mine", spec={**_CLAIM, "storageClassName": "", "volumeName": "pv-c"}),
                create("PersistentVolumeClaim", "other", spec={**_CLAIM, "storageClassName": "", "volumeName": "pv-c"}),
            ],
            [
                create(
                    "PersistentVolumeClaim",
                    "missing",
                    spec={**_CLAIM, "storageClassName": "", "volumeName": "nothing"},
                )
            ],
            [delete("PersistentVolume", "pv-c")],
            [delete("PersistentVolumeClaim", "mine")],
        ],
    ),
    Scenario(
        "volumes-provisioned",
        [
            [
                create("StorageClass", "fast-p", provisioner="example.com/none"),
                create(
                    "StorageClass",
                    "late-p",
                    provisioner="example.com/none",
                    volumeBindingMode="WaitForFirstConsumer",
                ),
                create("StorageClass", "old-p", provisioner="kubernetes.io/aws-ebs"),
            ],
            [
                create("PersistentVolumeClaim", each, spec={**_CLAIM, "storageClassName": f"{each}-p"})
                for each in ("fast", "late", "old", "missing")
            ],
            [create("PersistentVolumeClaim", "classless", spec=_CLAIM)],
            [pod("user", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "late"}}])],
        ],
    ),
    Scenario(
        "volumes-ephemeral",
        [
            [
                pod(
                    "user",
                    volumes=[
                        {
                            "name": "v",
                            "ephemeral": {
                                "volumeClaimTemplate": {
                                    "metadata": {"labels": {"a": "b"}},
                                    "spec": {**_CLAIM, "storageClassName": "none"},
                                }
                            },
                        }
                    ],
                ),
                create("PersistentVolumeClaim", "taken-v", spec=_CLAIM),
                pod("taken", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}}]),
            ],
            [run()],
            [delete("Pod", "user")],
            [reap()],
        ],
    ),
    Scenario(
        "claims-of-devices",
        [
            [
                create(
                    "ResourceClaimTemplate",
                    "device",
                    spec={
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "none"}}]}},
                    },
                )
            ],
            [
                pod("user", resourceClaims=[{"name": "d", "resourceClaimTemplateName": "device"}]),
                pod("other", resourceClaims=[{"name": "d", "resourceClaimTemplateName": "missing"}]),
            ],
            [delete("Pod", "user")],
            [reap()],
        ],
    ),
)
