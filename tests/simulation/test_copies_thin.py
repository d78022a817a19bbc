"""What a copy keeps of objects."""

from __future__ import annotations

import msgspec

from bayplan.api.codec import encode
from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.controllers.revisions import data_of
from bayplan.simulation.copies_thin import thin
from bayplan.testing.builders import container, deployment, node, pod, template
from tests.simulation.objects import set_of


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
