"""Anonymized copies: nothing that identifies is left, and the scheduler decides the same."""

from __future__ import annotations

import pytest

from bayplan.api.codec import encode, from_tree
from bayplan.api.types import apps_v1, core_v1, meta_v1, resource_v1, storage_v1
from bayplan.cluster.storage.default_class import NAME
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import SAFE_VOLUMES
from bayplan.controllers.volumes.volume_binder import PROVISIONER
from bayplan.scheduler import evaluate
from bayplan.simulation.observer import workload_of
from bayplan.simulation.questions.consolidate_rules import local_volume
from bayplan.simulation.snapshots.anonymize import Anonymizer, anonymized
from bayplan.simulation.snapshots.revival import revived
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, LeftOut, to_bytes
from bayplan.testing.builders import container, deployment, node, owner, pod
from tests.simulation.objects import budget, copy_of, owned, random_cluster, running, set_of


def feasible(copy: ClusterSnapshot, asked: core_v1.Pod) -> tuple[set[str], list[str]]:
    decision = evaluate([one for one in copy.flat() if one is not asked], asked)
    fits = {name for name, code in zip(decision.names, decision.codes.tolist(), strict=False) if code == 0 and name}
    return fits, decision.best if decision.scheduled else []


@pytest.mark.parametrize("seed", range(60))
def test_decisions_are_the_same_under_the_new_names(seed: int) -> None:
    copy, asked = random_cluster(seed)
    copy.objects.setdefault("Pod", []).append(asked)
    names = Anonymizer(copy)
    other = names.result()
    fits, best = feasible(copy, asked)
    assert feasible(other, other.of("Pod")[-1]) == (
        {names.name(one) for one in fits},
        [names.name(one) for one in best],
    )


@pytest.mark.parametrize("seed", range(10))
def test_no_name_of_the_owner_is_left(seed: int) -> None:
    copy, asked = random_cluster(seed)
    copy.objects.setdefault("Pod", []).append(asked)
    text = b"\n".join(encode(one) for one in anonymized(copy).flat())
    for secret in (b"acme", b"shop", b"mail", b"node-uid"):
        assert secret not in text


def test_what_every_cluster_has_keeps_its_name() -> None:
    one = node("a", meta={"labels": {"topology.kubernetes.io/zone": "eu-1", "kubernetes.io/arch": "arm64"}})
    other = anonymized(copy_of(one, running("p", "a", namespace="kube-system")))
    assert other.of("Node")[0].metadata.labels == one.metadata.labels
    assert other.of("Pod")[0].metadata.namespace == "kube-system"


def test_what_every_started_copy_publishes_is_not_there_twice() -> None:
    service = core_v1.Service(metadata=meta_v1.ObjectMeta(name="kubernetes", namespace="default"))
    local = storage_v1.StorageClass(metadata=meta_v1.ObjectMeta(name=NAME), provisioner=PROVISIONER)
    objects = [obj for _, obj in revived(anonymized(copy_of(service, local)), 1_767_323_045.0)]
    assert not [obj for obj in objects if isinstance(obj, core_v1.Service)]
    assert [(obj.metadata.name, obj.provisioner) for obj in objects if isinstance(obj, storage_v1.StorageClass)] == [
        (NAME, PROVISIONER)
    ]


def test_owners_are_still_owners() -> None:
    replicas = set_of("acme-web")
    other = anonymized(copy_of(node("a"), replicas, owned(replicas, "acme-web-1", "a")))
    reference = other.of("Pod")[0].metadata.owner_references[0]
    found = other.of("ReplicaSet")[0].metadata
    assert (reference.name, reference.uid) == (found.name, found.uid)
    assert found.uid != "uid-rs-acme-web"
    assert other.of("Pod")[0].metadata.labels == other.of("ReplicaSet")[0].spec.selector.match_labels


def test_pods_and_claims_of_a_stateful_set_stay_called_after_it() -> None:
    claim = core_v1.PersistentVolumeClaim(metadata=meta_v1.ObjectMeta(name="acme-data"))
    made = apps_v1.StatefulSet(metadata=meta_v1.ObjectMeta(name="acme-db", namespace="default", uid="u"))
    made.spec.volume_claim_templates = (claim,)
    bound = core_v1.PersistentVolumeClaim(metadata=meta_v1.ObjectMeta(name="acme-data-acme-db-3", namespace="default"))
    member = running("acme-db-3", "a", meta={"owners": (owner(made, "StatefulSet"),)})
    other = anonymized(copy_of(node("a"), made, member, bound))
    name = other.of("StatefulSet")[0].metadata.name
    template = other.of("StatefulSet")[0].spec.volume_claim_templates[0].metadata.name
    assert other.of("Pod")[0].metadata.name == f"{name}-3"
    assert other.of("PersistentVolumeClaim")[0].metadata.name == f"{template}-{name}-3"


def test_replica_sets_stay_called_after_their_deployment() -> None:
    made = set_of("acme-web-5d9f")
    made.metadata.labels = {"pod-template-hash": "5d9f"}
    made.metadata.owner_references = (owner(deployment("acme-web"), "Deployment"),)
    member = owned(made, "acme-web-5d9f-x2k", "a", meta={"labels": {"pod-template-hash": "5d9f"}})
    other = anonymized(copy_of(node("a"), deployment("acme-web"), made, member))
    name = other.of("Deployment")[0].metadata.name
    assert "acme" not in name
    assert workload_of(other.of("Pod")[0]) == f"default/Deployment/{name}"


def test_which_volumes_may_be_lost_is_still_said() -> None:
    volumes = tuple(core_v1.Volume(name=f"acme-{one}", empty_dir=core_v1.EmptyDirVolumeSource()) for one in "ab")
    made = pod("p", volumes=volumes, meta={"annotations": {SAFE_VOLUMES: "acme-a, acme-b"}})
    assert local_volume(made) == ""
    other = anonymized(copy_of(made)).of("Pod")[0]
    assert local_volume(other) == ""
    assert b"acme" not in encode(other)


def test_simulated_pods_behave_as_before() -> None:
    annotations = {
        "bayplan.dev/start-seconds": "lognormal(4,0.5)",
        "bayplan.dev/exit-code.acme": "1@20%",
        "bayplan.dev/memory-usage": "50Mi@0s 600Mi@10m",
        "bayplan.dev/vertical-recommendation": '{"acme": {}}',
    }
    made = pod("p", containers=(container(name="acme"),), meta={"annotations": annotations})
    other = anonymized(copy_of(made)).of("Pod")[0]
    name = other.spec.containers[0].name
    assert other.metadata.annotations == {
        "bayplan.dev/start-seconds": "lognormal(4,0.5)",
        f"bayplan.dev/exit-code.{name}": "1@20%",
        "bayplan.dev/memory-usage": "50Mi@0s 600Mi@10m",
    }


def test_words_of_others_are_renamed_alike_wherever_they_stand() -> None:
    gate = core_v1.PodReadinessGate(condition_type="acme.example/up")
    condition = core_v1.PodCondition(type="acme.example/up", status="True")
    ready = core_v1.PodCondition(type="Ready", status="True")
    made = pod("p", readiness_gates=(gate,), status=core_v1.PodStatus(conditions=(ready, condition)))
    made.metadata.finalizers = ("acme.example/watch", "kubernetes.io/pvc-protection")
    other = anonymized(copy_of(made)).of("Pod")[0]
    assert b"acme" not in encode(other)
    assert [one.type for one in other.status.conditions] == ["Ready", other.spec.readiness_gates[0].condition_type]
    assert other.metadata.finalizers[1] == "kubernetes.io/pvc-protection"


def test_keys_that_somebody_chose_are_renamed() -> None:
    budget_ = budget("b", 1, {"app": "x"})
    budget_.status.disrupted_pods = {"acme-1": "2026-01-02T03:04:05Z"}
    made = core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="m"), data={"key": "acme", "acme.conf": "acme = 1"})
    other = anonymized(copy_of(budget_, made, running("acme-1", "a")))
    assert b"acme" not in b"".join(encode(one) for one in other.flat())
    assert list(other.of("PodDisruptionBudget")[0].status.disrupted_pods) == [other.of("Pod")[0].metadata.name]


def test_files_that_could_not_be_read_are_not_named() -> None:
    copy = copy_of(node("a"))
    copy.left_out = [LeftOut("/home/acme/dump/x.yaml", "broken"), LeftOut("Pod in namespace acme", "forbidden")]
    assert [(one.what, one.why) for one in anonymized(copy).left_out] == [
        ("a file", "not readable"),
        ("Pod", "not readable"),
    ]


def test_equal_copies_are_anonymized_equally() -> None:
    assert to_bytes(anonymized(random_cluster(5)[0])) == to_bytes(anonymized(random_cluster(5)[0]))


def test_addresses_and_free_texts_are_left_out() -> None:
    one = pod("p", status=core_v1.PodStatus(message="from acme", pod_ip="10.1.2.3", host_ip="10.9.9.9"))
    text = encode(anonymized(copy_of(one)).of("Pod")[0])
    assert b"acme" not in text
    assert b"10." not in text


def test_devices_are_still_found() -> None:
    tree = {
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "acme-slice"},
        "spec": {
            "driver": "gpu.acme.example",
            "nodeName": "acme-node",
            "pool": {"name": "acme-node", "generation": 1, "resourceSliceCount": 1},
            "sharedCounters": [{"name": "acme-set", "counters": {"memory": {"value": "80Gi"}}}],
            "devices": [
                {
                    "name": "acme-gpu",
                    "attributes": {"model": {"string": "a100"}},
                    "consumesCounters": [{"counterSet": "acme-set", "counters": {"memory": {"value": "40Gi"}}}],
                }
            ],
        },
    }
    made = from_tree(resource_v1.ResourceSlice, tree)
    status = {
        "devices": {
            "results": [{"request": "big/one", "driver": "gpu.acme.example", "pool": "acme-node", "device": "acme-gpu"}]
        }
    }
    claim = from_tree(
        resource_v1.ResourceClaim,
        {
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {
                "devices": {
                    "requests": [{"name": "big", "firstAvailable": [{"name": "one", "deviceClassName": "acme"}]}]
                }
            },
            "status": {"allocation": status},
        },
    )
    one = node("acme-node")
    other = anonymized(copy_of(one, made, claim))
    spec, kept = other.of("ResourceSlice")[0].spec, other.of("ResourceClaim")[0]
    device = spec.devices[0]
    result = kept.status.allocation.devices.results[0]
    request = kept.spec.devices.requests[0]
    assert spec.node_name == spec.pool.name == result.pool == other.of("Node")[0].metadata.name
    assert (device.name, device.attributes["model"].string) == (result.device, "a100")
    assert device.consumes_counters[0].counter_set == spec.shared_counters[0].name
    assert result.request == f"{request.name}/{request.first_available[0].name}"
    assert spec.driver == result.driver == "gpu.acme.example"


def test_roles_that_somebody_made_up_are_renamed_and_the_control_plane_is_not() -> None:
    labels = {"node-role.kubernetes.io/acme-db": "", "node-role.kubernetes.io/control-plane": ""}
    found = anonymized(copy_of(node("a", meta={"labels": labels}))).of("Node")[0].metadata.labels
    assert "node-role.kubernetes.io/control-plane" in found
    assert not any("acme" in key for key in found)
