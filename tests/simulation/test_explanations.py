"""Why pods do not run, workloads have no pods, claims are not bound and nodes take no pods: each case with answer, cause and advice."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bayplan.api.types import apps_v1, batch_v1, core_v1, storage_v1
from bayplan.simulation.explanations.base import Explanation
from bayplan.simulation.explanations.question import explain, kind_explained
from bayplan.simulation.explanations.refusals import advice_on
from bayplan.simulation.explanations.summary import wrong_in
from bayplan.simulation.snapshots.planner import QuestionError
from bayplan.testing.builders import (
    deployment,
    metadata,
    namespace,
    node,
    owner,
    pod,
    replica_set,
    selector,
    taint,
    template,
)
from tests.simulation.objects import copy_of, owned, running, set_of


def why(kind: str, name: str, *objects: Any) -> Explanation:
    return explain(copy_of(*objects), kind, name)


def event(kind: str, name: str, reason: str, message: str, *, time: str = "2026-01-02T03:04:05Z") -> core_v1.Event:
    return core_v1.Event(
        metadata=metadata(f"{name}.{reason}.{time}", "default"),
        involved_object=core_v1.ObjectReference(kind=kind, namespace="default", name=name),
        reason=reason,
        message=message,
        last_timestamp=time,
    )


def condition(type_: str, status: str, reason: str = "", message: str = "") -> core_v1.NodeCondition:
    return core_v1.NodeCondition(type=type_, status=status, reason=reason, message=message)


def waiting(reason: str, message: str = "", *, restarts: int = 0, last: Any = None) -> core_v1.PodStatus:
    return core_v1.PodStatus(
        phase="Pending",
        container_statuses=(
            core_v1.ContainerStatus(
                name="main",
                state=core_v1.ContainerState(waiting=core_v1.ContainerStateWaiting(reason=reason, message=message)),
                last_state=core_v1.ContainerState(terminated=last),
                restart_count=restarts,
            ),
        ),
    )


def terminated(code: int, reason: str = "Error") -> core_v1.ContainerStateTerminated:
    return core_v1.ContainerStateTerminated(exit_code=code, reason=reason)


class TestPods:
    def test_a_pod_that_runs(self) -> None:
        found = why("Pod", "p", node("a"), running("p", "a"))
        assert (found.answer, found.good, found.because) == ("runs on a", True, [])

    def test_a_pod_that_is_bound_to_an_unknown_node(self) -> None:
        found = why("Pod", "p", node("a"), running("p", "b"))
        assert (found.answer, found.good) == ("does not run: it is bound to node b, which does not exist", False)
        assert "delete it" in found.advice[0]

    def test_without_nodes_in_a_file_nothing_is_said_of_them(self) -> None:
        assert why("Pod", "p", running("p", "b")).good

    @pytest.mark.parametrize(
        ("status", "said"),
        [
            (
                waiting("ImagePullBackOff", "Back-off"),
                "image app:1 of container main cannot be had: ImagePullBackOff: Back-off",
            ),
            (
                waiting("CreateContainerConfigError", 'configmap "x" not found'),
                'container main cannot be set up: configmap "x" not found',
            ),
            (
                waiting("CrashLoopBackOff", restarts=4, last=terminated(3)),
                "container main ends again and again (4 restarts): the last time it ended with exit code 3",
            ),
            (
                waiting("CrashLoopBackOff", restarts=1, last=terminated(137, "OOMKilled")),
                "container main ends again and again (1 restarts): the last time it ended with exit code 137 (OOMKilled)",
            ),
            (
                waiting("RunContainerError", "exec: no such file"),
                "container main waits: RunContainerError: exec: no such file",
            ),
        ],
    )
    def test_a_container_that_waits(self, status: core_v1.PodStatus, said: str) -> None:
        found = why("Pod", "p", node("a"), replace(running("p", "a"), status=status))
        assert (found.answer, found.good, found.because) == ("is bound to a and does not run", False, [said])

    def test_the_registry_is_quoted_rather_than_the_back_off(self) -> None:
        events = [
            event("Pod", "p", "Failed", "Failed to pull image: not found"),
            event("Pod", "p", "Failed", "Error: ErrImagePull", time="2026-01-02T03:04:06Z"),
        ]
        found = why("Pod", "p", node("a"), *events, replace(running("p", "a"), status=waiting("ImagePullBackOff")))
        assert found.because[0].endswith("ImagePullBackOff: Failed to pull image: not found")

    def test_a_volume_that_cannot_be_mounted(self) -> None:
        mount = event("Pod", "p", "FailedMount", 'MountVolume.SetUp failed: configmap "x" not found')
        found = why("Pod", "p", node("a"), mount, replace(running("p", "a"), status=waiting("ContainerCreating")))
        assert (found.answer, found.because) == ("is bound to a and has not started yet", [mount.message])

    @pytest.mark.parametrize("simulated", [False, True])
    @pytest.mark.parametrize("reason", ["CreateContainerConfigError", "FailedMount"])
    def test_what_a_program_would_have_made_may_be_done_without_on_simulated_nodes(
        self, reason: str, *, simulated: bool
    ) -> None:
        home = node("a")
        if simulated:
            home.metadata.annotations = {"bayplan.dev/simulated": "true"}
        is_mount = reason == "FailedMount"
        mount = [event("Pod", "p", reason, 'secret "x" not found')] if is_mount else []
        status = waiting("ContainerCreating") if is_mount else waiting(reason, 'secret "x" not found')
        advice = why("Pod", "p", home, *mount, replace(running("p", "a"), status=status)).advice
        assert any("bayplan.dev/missing-config: ignore" in one for one in advice) == simulated

    def test_where_events_are_missing_they_are_missed(self) -> None:
        asked = replace(running("p", "a"), status=waiting("ContainerCreating"))
        assert why("Pod", "p", node("a"), asked).advice == [
            "look at its events, of which there are none here: kubectl describe pod p -n default"
        ]
        assert not why("Pod", "p", node("a"), event("Pod", "other", "Scheduled", "x"), asked).advice

    def test_a_pod_that_is_not_ready(self) -> None:
        ready = core_v1.PodCondition(type="Ready", status="False")
        container = core_v1.ContainerStatus(
            name="main", state=core_v1.ContainerState(running=core_v1.ContainerStateRunning())
        )
        status = core_v1.PodStatus(phase="Running", conditions=(ready,), container_statuses=(container,))
        unhealthy = event("Pod", "p", "Unhealthy", "Readiness probe failed: 503")
        found = why("Pod", "p", node("a"), unhealthy, replace(running("p", "a"), status=status))
        assert found.answer == "runs on a and is not ready"
        assert found.because == ["container main is not ready: Readiness probe failed: 503"]

    def test_a_pod_that_was_restarted_and_runs_again(self) -> None:
        state = core_v1.ContainerState(running=core_v1.ContainerStateRunning())
        last = core_v1.ContainerState(terminated=terminated(3))
        container = core_v1.ContainerStatus(name="main", state=state, last_state=last, restart_count=2, ready=True)
        status = core_v1.PodStatus(phase="Running", container_statuses=(container,))
        found = why("Pod", "p", node("a"), replace(running("p", "a"), status=status))
        assert (found.answer, found.good) == ("runs on a", True)
        assert found.because == ["container main was restarted (2 restarts): the last time it ended with exit code 3"]

    def test_a_pod_on_a_node_that_is_not_ready(self) -> None:
        silent = node("a")
        silent.status.conditions = (condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting"),)
        found = why("Pod", "p", silent, running("p", "a"))
        assert (found.answer, found.because) == (
            "is bound to a, which is not ready",
            ["NodeStatusUnknown: Kubelet stopped posting"],
        )

    def test_a_pod_that_its_node_refused(self) -> None:
        status = core_v1.PodStatus(phase="Failed", reason="OutOfcpu", message="not enough cpu")
        found = why("Pod", "p", node("a"), replace(running("p", "a"), status=status))
        assert (found.answer, found.because) == ("has failed on a", ["OutOfcpu: not enough cpu"])
        assert "leave nodeName to the scheduler" in found.advice[-1]

    def test_a_pending_pod_names_the_class_that_its_claim_lacks(self) -> None:
        source = core_v1.PersistentVolumeClaimVolumeSource(claim_name="data")
        asked = pod("p", volumes=(core_v1.Volume(name="v", persistent_volume_claim=source),))
        found = why("Pod", "p", node("a"), claim("data", "fast"), asked)
        assert found.because == ["its claim data is not bound: its storage class fast does not exist"]
        assert why("Pod", "p", node("a"), asked).because == ["its claim data does not exist"]


def claim(name: str, storage_class: str | None, **fields: Any) -> core_v1.PersistentVolumeClaim:
    resources = core_v1.VolumeResourceRequirements(requests={"storage": "2Gi"})
    spec = core_v1.PersistentVolumeClaimSpec(
        access_modes=("ReadWriteOnce",), storage_class_name=storage_class, resources=resources, **fields
    )
    return core_v1.PersistentVolumeClaim(
        metadata=metadata(name, "default"), spec=spec, status=core_v1.PersistentVolumeClaimStatus(phase="Pending")
    )


def storage_class(
    name: str, *, waits: bool = False, default: bool = False, provisioner: str = "csi.example.com"
) -> Any:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return storage_v1.StorageClass(
        metadata=metadata(name, annotations=annotations),
        provisioner=provisioner,
        volume_binding_mode="WaitForFirstConsumer" if waits else "Immediate",
    )


def volume(name: str, size: str = "2Gi", *, storage_class_name: str = "") -> core_v1.PersistentVolume:
    spec = core_v1.PersistentVolumeSpec(
        capacity={"storage": size}, access_modes=("ReadWriteOnce",), storage_class_name=storage_class_name
    )
    return core_v1.PersistentVolume(metadata=metadata(name), spec=spec)


def taken_volume(name: str, holder: str) -> core_v1.PersistentVolume:
    found = volume(name, storage_class_name="std")
    found.spec.claim_ref = core_v1.ObjectReference(namespace="default", name=holder)
    return found


class TestClaims:
    @pytest.mark.parametrize(
        ("asked", "others", "said"),
        [
            (claim("c", None), (), "it names no storage class, and no storage class is the default"),
            (claim("c", "fast"), (storage_class("slow"),), "its storage class fast does not exist"),
            (
                claim("c", None),
                (storage_class("std", waits=True, default=True),),
                "its storage class std waits for the first pod that uses it (WaitForFirstConsumer), and no pod does",
            ),
            (
                claim("c", "std"),
                (storage_class("std"),),
                "provisioner csi.example.com of storage class std has made no volume yet",
            ),
            (
                claim("c", ""),
                (),
                "it wants no provisioned volume (storageClassName is empty), and there is no volume for it",
            ),
            (
                claim("c", "local"),
                (
                    storage_class("local", provisioner="kubernetes.io/no-provisioner"),
                    volume("v", "1Gi", storage_class_name="local"),
                ),
                "its storage class local makes no volumes, and none of 1 free volumes fits: it is smaller (1Gi) than what is asked for (2Gi)",
            ),
            (
                claim("c", "std", volume_name="v"),
                (storage_class("std"),),
                "it asks for volume v (spec.volumeName), which does not exist",
            ),
            (
                claim("c", "std", volume_name="v"),
                (storage_class("std"), volume("v", storage_class_name="std")),
                "it asks for volume v, which is about to be bound",
            ),
            (
                claim("c", "std", volume_name="v"),
                (storage_class("std"), taken_volume("v", "other")),
                "it asks for volume v, which belongs to claim default/other",
            ),
        ],
    )
    def test_a_claim_that_is_not_bound(self, asked: Any, others: tuple[Any, ...], said: str) -> None:
        found = why("PersistentVolumeClaim", "c", asked, *others)
        assert (found.answer, found.good, found.because) == ("is not bound", False, [said])

    def test_the_provisioner_is_quoted(self) -> None:
        failed = event("PersistentVolumeClaim", "c", "ProvisioningFailed", "no space left")
        found = why("PersistentVolumeClaim", "c", claim("c", "std"), storage_class("std"), failed)
        assert found.because[0] == "no space left"

    def test_a_claim_that_is_bound(self) -> None:
        bound = replace(claim("c", "std", volume_name="v"), status=core_v1.PersistentVolumeClaimStatus(phase="Bound"))
        found = why("PersistentVolumeClaim", "c", bound)
        assert (found.answer, found.good) == ("is bound to volume v", True)


class TestNodes:
    def test_a_node_that_takes_pods(self) -> None:
        found = why("Node", "a", node("a", cpu="4"), running("p", "a", cpu="1"))
        assert (found.answer, found.good) == ("takes pods", True)
        assert found.because[0].startswith("it has 1 pod, which ask for 25% of cpu")

    @pytest.mark.parametrize(
        ("change", "answer"),
        [
            ({"unschedulable": True}, "takes no pods: it is cordoned"),
            ({"taints": (taint("only", "NoSchedule"),)}, "takes only pods that tolerate its taints"),
            ({"cpu": "1"}, "is full: its cpu are asked for"),
        ],
    )
    def test_a_node_that_does_not(self, change: dict[str, Any], answer: str) -> None:
        found = why("Node", "a", node("a", **change), running("p", "a", cpu="1"))
        assert (found.answer, found.good) == (answer, False)
        assert found.advice

    @pytest.mark.parametrize("kind", ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"])
    def test_a_node_under_pressure(self, kind: str) -> None:
        pressed = node("a")
        pressed.status.conditions = (condition("Ready", "True"), condition(kind, "True", "Because", "of it"))
        found = why("Node", "a", pressed)
        assert (found.answer, found.because[0]) == (f"takes no pods: it has {kind}", f"it has {kind}: Because: of it")

    def test_all_that_is_wrong_is_said(self) -> None:
        broken = node("a", unschedulable=True)
        broken.status.conditions = (condition("Ready", "False", "KubeletNotReady", "no network"),)
        found = why("Node", "a", broken)
        assert found.answer == "takes no pods: it is not ready and is cordoned"


def job(name: str = "j", *, status: Any = None, **spec: Any) -> batch_v1.Job:
    spec = {"template": template({"app": "j"}), **spec}
    return batch_v1.Job(
        metadata=metadata(name, "default", uid=f"uid-{name}"),
        spec=batch_v1.JobSpec(**spec),
        status=status or batch_v1.JobStatus(),
    )


class TestWorkloads:
    def test_pods_that_the_server_refuses(self) -> None:
        refused = 'pods "web-x" is forbidden: exceeded quota: team, requested: pods=1'
        failure = apps_v1.ReplicaSetCondition(type="ReplicaFailure", status="True", message=refused)
        web = set_of("web", 2)
        web.status = apps_v1.ReplicaSetStatus(conditions=(failure,))
        found = why("ReplicaSet", "web", web)
        assert (found.answer, found.good) == ("has none of 2 pods", False)
        assert found.because == [f"the API server refuses its pods: {refused}"]
        assert found.advice == ["raise ResourceQuota team or free some of it: kubectl describe quota team -n default"]

    def test_an_event_tells_of_the_refusal_too(self) -> None:
        told = event("ReplicaSet", "web", "FailedCreate", "Error creating: no such thing")
        assert why("ReplicaSet", "web", set_of("web"), told).because == [
            "the API server refuses its pods: no such thing"
        ]

    def test_a_quota_that_allows_none_is_named_where_nothing_was_recorded(self) -> None:
        quota = core_v1.ResourceQuota(
            metadata=metadata("team", "default"), spec=core_v1.ResourceQuotaSpec(hard={"pods": "0"})
        )
        found = why("ReplicaSet", "web", set_of("web"), quota)
        assert found.because == ["ResourceQuota default/team allows no further pod: pods: 0 of 0 used, 1 more each"]

    def test_a_selector_that_misses_its_own_template(self) -> None:
        web = set_of("web")
        web.spec.selector = selector({"app": "other"})
        assert why("ReplicaSet", "web", web).because == ["its selector does not match the labels of its own template"]

    def test_a_namespace_that_goes(self) -> None:
        gone = namespace("default")
        gone.metadata.deletion_timestamp = "2026-01-02T03:04:05Z"
        found = why("ReplicaSet", "web", set_of("web"), gone)
        assert (found.answer, found.because) == ("gets no pods", ["its namespace default is being deleted"])

    def test_pods_that_do_not_run_are_told_of_once_for_each_reason(self) -> None:
        web = set_of("web", 3)
        pods = [replace(owned(web, f"web-{one}", "a"), status=waiting("ErrImagePull", "gone")) for one in "123"]
        found = why("ReplicaSet", "web", web, node("a"), *pods)
        assert found.answer == "has 3 of 3 pods, of which none are ready"
        assert [one.partition(" is ")[0] for one in found.because] == [
            "pod web-1",
            "2 more pods of it do not run either",
        ]

    def test_pods_that_are_pending_are_told_of_in_the_words_of_the_scheduler(self) -> None:
        web = set_of("web")
        asked = replace(owned(web, "web-1", "", cpu="9"), status=core_v1.PodStatus(phase="Pending"))
        found = why("ReplicaSet", "web", web, node("a"), asked)
        assert found.because[0].startswith("pod web-1 is pending: 0/1 nodes are available: 1 Insufficient cpu.")
        assert found.advice == ["bayplan explain web-1 -n default --fix"]

    def test_a_paused_deployment(self) -> None:
        paused = deployment("web", 1, meta={"uid": "u"})
        paused.spec.paused = True
        found = why("Deployment", "web", paused)
        assert found.answer == "has no pods: it was paused before its first replica set was made"
        assert found.advice == ["kubectl rollout resume deployment web -n default"]

    def test_a_deployment_that_wants_none(self) -> None:
        found = why("Deployment", "web", deployment("web", 0, meta={"uid": "u"}))
        assert (found.answer, found.good) == ("wants no pods: spec.replicas is 0", True)

    def test_a_deployment_has_the_pods_of_its_replica_sets(self) -> None:
        web = deployment("web", 1, meta={"uid": "u"})
        replicas = set_of("web")
        replicas.metadata.owner_references = (owner(web, "Deployment"),)
        found = why("Deployment", "web", web, replicas, node("a"), owned(replicas, "web-1", "a"))
        assert (found.answer, found.good) == ("has its 1 pod, and all are ready", True)

    def test_a_stateful_set_waits_for_an_earlier_pod(self) -> None:
        db = apps_v1.StatefulSet(
            metadata=metadata("db", "default", uid="u"),
            spec=apps_v1.StatefulSetSpec(
                replicas=3, selector=selector({"app": "db"}), template=template({"app": "db"})
            ),
        )
        meta = {"owners": (owner(db, "StatefulSet"),)}
        first = replace(running("db-0", "a", meta=meta), status=waiting("ErrImagePull", "gone"))
        found = why("StatefulSet", "db", db, node("a"), first)
        assert found.answer == "has 1 of 3 pods: it waits for db-0"
        db.spec.pod_management_policy = "Parallel"
        assert why("StatefulSet", "db", db, node("a"), first).answer == "has 1 of 3 pods, of which none are ready"

    def test_a_daemon_set_that_matches_no_node(self) -> None:
        made = template({"app": "agent"})
        made.spec.node_selector = {"disk": "ssd"}
        agent = apps_v1.DaemonSet(
            metadata=metadata("agent", "default", uid="u"),
            spec=apps_v1.DaemonSetSpec(selector=selector({"app": "agent"}), template=made),
        )
        found = why("DaemonSet", "agent", agent, node("a"), node("b"))
        assert (found.answer, found.because) == (
            "has no pods: none of 2 nodes matches",
            ["2 nodes without the label disk=ssd: a, b"],
        )

    @pytest.mark.parametrize(
        ("one", "answer", "good"),
        [
            (job(suspend=True), "has no pods: it is suspended (spec.suspend)", False),
            (
                job(managed_by="kueue.example.com/x"),
                "is left to the controller kueue.example.com/x (spec.managedBy)",
                False,
            ),
            (job(parallelism=0), "has no pods: spec.parallelism is 0", False),
            (
                job(
                    status=batch_v1.JobStatus(
                        succeeded=2, conditions=(batch_v1.JobCondition(type="Complete", status="True"),)
                    )
                ),
                "is complete: 2 pods ended well",
                True,
            ),
            (
                job(status=batch_v1.JobStatus(conditions=(batch_v1.JobCondition(type="Failed", status="True"),))),
                "has failed",
                False,
            ),
        ],
    )
    def test_a_job(self, one: batch_v1.Job, answer: str, good: bool) -> None:
        found = why("Job", "j", one)
        assert (found.answer, found.good) == (answer, good)

    def test_a_cron_job_that_is_suspended(self) -> None:
        one = batch_v1.CronJob(
            metadata=metadata("c", "default"), spec=batch_v1.CronJobSpec(schedule="0 * * * *", suspend=True)
        )
        assert why("CronJob", "c", one).answer == "makes no jobs: it is suspended (spec.suspend)"


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("failed quota: team: must specify cpu for: c", "let every container say what ResourceQuota team counts"),
        ('violates PodSecurity "restricted:latest": x', "let the template meet the level restricted:latest"),
        ("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", "ValidatingAdmissionPolicy p"),
        ("maximum cpu usage per Container is 1, but limit is 2", "kubectl describe limits -n shop"),
        (
            'error looking up service account shop/x: serviceaccount "x" not found',
            "create the ServiceAccount x in namespace shop",
        ),
        ("no PriorityClass with name high was found", "create the PriorityClass high"),
        ('admission webhook "w.example.com" denied the request: no', "webhook w.example.com"),
        ('failed calling webhook "w.example.com": refused', "it cannot be called"),
    ],
)
def test_a_refusal_has_its_advice(message: str, advice: str) -> None:
    assert advice in advice_on(message, "shop")


def test_a_message_that_speaks_for_itself_has_none() -> None:
    assert advice_on("something else", "shop") == ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("deploy", "Deployment"),
        ("sts", "StatefulSet"),
        ("pvc", "PersistentVolumeClaim"),
        ("no", "Node"),
        ("default", ""),
        ("secret", ""),
    ],
)
def test_kinds_are_named_as_for_kubectl(name: str, kind: str) -> None:
    assert kind_explained(name) == kind


def test_what_is_not_there_is_looked_for() -> None:
    elsewhere = deployment("web", 1, meta={"uid": "u"})
    elsewhere.metadata.namespace = "shop"
    with pytest.raises(
        QuestionError, match="there is no Deployment web in namespace default; there is one in namespace shop"
    ):
        why("Deployment", "web", elsewhere)
    with pytest.raises(QuestionError, match=r"there is no Node node-a; did you mean node-1\?"):
        why("Node", "node-a", node("node-1"))


def test_what_is_wrong_names_owners_and_the_schedulers_reason() -> None:
    web = deployment("web", 1, meta={"uid": "u"})
    replicas = replica_set("web-1", 1, meta={"uid": "r", "owners": (owner(web, "Deployment"),)})
    lone = pod("lone", cpu="800", meta={"uid": "p"})
    found = list(wrong_in(copy_of(node("node-1"), web, replicas, lone, claim("c", "fast"))))
    assert [(each.kind, each.name) for each in found] == [
        ("Deployment", "default/web"),
        ("Pod", "default/lone"),
        ("PersistentVolumeClaim", "default/c"),
    ]
    assert "Insufficient cpu" in found[1].because[0]


def test_a_pod_whose_rule_has_ceased_to_hold_has_to_leave() -> None:
    term = core_v1.PodAffinityTerm(label_selector=selector({"app": "db"}), topology_key="kubernetes.io/hostname")
    rules = core_v1.PodAffinity(required_during_scheduling_required_during_execution=(term,))
    web = running("web", "n1", affinity=core_v1.Affinity(pod_affinity=rules))
    refused = event("Pod", "web", "FailedPodAffinityEviction", "Not evicted: the budget forbids it")
    found = why("Pod", "web", node("n1"), web, refused)
    assert not found.good
    assert found.answer == "runs on n1, and has to leave"
    assert found.because == [
        "its rule podAffinity.requiredDuringSchedulingRequiredDuringExecution[0] has ceased to hold: "
        "no pod that it means is left in kubernetes.io/hostname=n1",
        "Not evicted: the budget forbids it",
    ]
    near = running("db", "n1")
    near.metadata.labels = {"app": "db"}
    assert why("Pod", "web", node("n1"), web, near).good
