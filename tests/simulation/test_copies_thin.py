"""What a copy keeps of objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.codec import encode, from_tree
from bayplan.api.types import apps_v1, core_v1, meta_v1, resource_v1, storage_v1
from bayplan.controllers.workloads.revisions import data_of
from bayplan.simulation.snapshots.thinning import thin
from bayplan.testing.builders import container, deployment, node, pod, template
from tests.simulation.objects import set_of

_OPAQUE = [{"opaque": {"driver": "d", "parameters": {"token": "hush"}}}]


def test_nothing_that_may_be_secret_is_kept_of_a_pod() -> None:
    one = pod(
        "p",
        containers=(
            container(
                cpu="1",
                env=(core_v1.EnvVar(name="PASSWORD", value="hush"),),
                command=("run", "--token=hush"),
                args=("hush",),
                liveness_probe=core_v1.Probe(exec=core_v1.ExecAction(command=("hush",))),
            ),
        ),
        volumes=(core_v1.Volume(name="s", secret=core_v1.SecretVolumeSource(secret_name="hush")),),
        meta={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hush"}},
    )
    assert b"hush" not in encode(thin(one))
    assert thin(one).spec.containers[0].resources == one.spec.containers[0].resources


def test_no_annotation_of_a_claim_template_is_kept() -> None:
    hidden = meta_v1.ObjectMeta(name="data", annotations={"vault": "hush"})
    stateful = apps_v1.StatefulSet(metadata=meta_v1.ObjectMeta(name="db"))
    stateful.spec.volume_claim_templates = (core_v1.PersistentVolumeClaim(metadata=hidden),)
    assert b"hush" not in encode(thin(stateful))
    assert thin(stateful).spec.volume_claim_templates[0].metadata.name == "data"
    claim = core_v1.PersistentVolumeClaimTemplate(metadata=hidden)
    volume = core_v1.Volume(name="v", ephemeral=core_v1.EphemeralVolumeSource(volume_claim_template=claim))
    assert b"hush" not in encode(thin(pod("p", volumes=(volume,))))
    assert thin(pod("p", volumes=(volume,))).spec.volumes[0].ephemeral is not None


def test_what_an_attachment_says_of_its_volume_is_not_kept() -> None:
    csi = core_v1.CSIPersistentVolumeSource(driver="d", volume_handle="h", volume_attributes={"key": "hush"})
    inline = core_v1.PersistentVolumeSpec(csi=csi)
    one = storage_v1.VolumeAttachment(
        spec=storage_v1.VolumeAttachmentSpec(
            attacher="d", node_name="a", source=storage_v1.VolumeAttachmentSource(inline_volume_spec=inline)
        ),
        status=storage_v1.VolumeAttachmentStatus(
            attached=True,
            attachment_metadata={"key": "hush"},
            detach_error=storage_v1.VolumeError(message="hush"),
        ),
    )
    kept = thin(one)
    assert b"hush" not in encode(kept)
    assert (kept.spec.node_name, kept.status.attached) == ("a", True)
    assert kept.spec.source.inline_volume_spec.csi.volume_handle == "h"


@pytest.mark.parametrize(
    ("cls", "tree"),
    [
        (resource_v1.DeviceClass, {"spec": {"config": _OPAQUE}}),
        (resource_v1.ResourceClaim, {"spec": {"devices": {"config": _OPAQUE}}}),
        (resource_v1.ResourceClaim, {"status": {"allocation": {"devices": {"config": _OPAQUE}}}}),
        (resource_v1.ResourceClaim, {"status": {"devices": [{"driver": "d", "data": {"key": "hush"}}]}}),
        (resource_v1.ResourceClaimTemplate, {"spec": {"spec": {"devices": {"config": _OPAQUE}}}}),
        (resource_v1.ResourceClaimTemplate, {"spec": {"metadata": {"annotations": {"key": "hush"}}}}),
    ],
)
def test_parameters_of_devices_are_not_kept(cls: Any, tree: dict[str, Any]) -> None:
    one = from_tree(cls, {"metadata": {"name": "c"}, **tree})
    assert b"hush" in encode(one)
    assert b"hush" not in encode(thin(one))


def test_which_part_of_a_job_is_a_pods_is_kept() -> None:
    key = "batch.kubernetes.io/job-completion-index"
    assert thin(pod("p", meta={"annotations": {key: "3"}})).metadata.annotations == {key: "3"}


def test_the_original_is_left_as_it_is() -> None:
    one = pod("p", meta={"annotations": {"a": "b"}})
    before = encode(one)
    thin(one)
    assert encode(one) == before


def test_what_says_whether_a_pod_may_be_evicted_is_kept() -> None:
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    assert thin(pod("p", meta={"annotations": {key: "false", "other": "x"}})).metadata.annotations == {key: "false"}


def test_local_volumes_and_claims_are_kept() -> None:
    claim = core_v1.PersistentVolumeClaimVolumeSource(claim_name="c")
    volumes = (
        core_v1.Volume(name="a", empty_dir=core_v1.EmptyDirVolumeSource()),
        core_v1.Volume(name="b", persistent_volume_claim=claim),
        core_v1.Volume(name="c", config_map=core_v1.ConfigMapVolumeSource(name="x")),
    )
    assert [one.name for one in thin(pod("p", volumes=volumes)).spec.volumes] == ["a", "b"]


def test_templates_of_a_deployment_and_its_replica_set_stay_equal() -> None:
    secret = container(env=(core_v1.EnvVar(name="A", value="hush"),))
    made = deployment("web", pod_spec={"containers": (secret,)})
    replicas = set_of("web")
    replicas.spec.template = template({"app": "web"}, containers=(secret,))
    assert encode(thin(made).spec.template) == encode(thin(replicas).spec.template)


def test_a_revision_holds_the_thin_template() -> None:
    made = template({"app": "db"}, containers=(container(args=("hush",)),))
    revision = apps_v1.ControllerRevision(metadata=meta_v1.ObjectMeta(name="db-1"), data=data_of(made), revision=1)
    owner = apps_v1.StatefulSet(metadata=meta_v1.ObjectMeta(name="db"))
    owner.spec.template = made
    assert msgspec.json.encode(thin(revision).data, order="sorted") == msgspec.json.encode(
        data_of(thin(owner).spec.template), order="sorted"
    )


def test_images_and_room_of_nodes_are_kept() -> None:
    one = node("a", cpu="7")
    one.status.images = (core_v1.ContainerImage(names=("x:1",), size_bytes=5),)
    kept = thin(one)
    assert (kept.status.allocatable["cpu"], kept.status.images) == ("7", one.status.images)
