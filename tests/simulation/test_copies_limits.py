"""Copies with what says how many pods there may be: limit ranges, quotas and autoscalers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.api.codec import encode, from_tree
from bayplan.api.types import autoscaling_v2, core_v1
from bayplan.cli.main import main
from bayplan.cluster.manifests.apply import apply_manifests
from bayplan.simulation.actions import Apply, Scale
from bayplan.simulation.fixes.search import fixes_for
from bayplan.simulation.questions.what_if import Outcome, simulate
from bayplan.simulation.readers.live import read_live
from bayplan.simulation.readers.reading import read
from bayplan.simulation.replay.compare import workload_of_copy
from bayplan.simulation.snapshots.anonymize import anonymized
from bayplan.simulation.snapshots.planner import pod_named
from bayplan.simulation.snapshots.snapshot import ClusterSnapshot, to_bytes
from bayplan.simulation.snapshots.snapshot import from_tree as object_of
from bayplan.simulation.snapshots.thinning import thin
from bayplan.simulation.uncreated_pods import UncreatedPods
from bayplan.testing.cluster import running_cluster
from tests.simulation.test_what_if import copy_of, node, workload


def limit_range(**amounts: Any) -> dict[str, Any]:
    item = {"type": "Container", "defaultRequest": amounts, "default": amounts}
    metadata = {"name": "usual", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}


def quota(name: str = "team", **hard: str) -> dict[str, Any]:
    spec = {"hard": {key.replace("_", "."): value for key, value in hard.items()}}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def autoscaler(target: str, least: int, most: int, *, wanted: int = 50, seen: int | None = None) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": wanted}}
    current = {"name": "cpu", "current": {"averageUtilization": seen, "averageValue": "100m"}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": target, "namespace": "default"},
        "spec": {
            "scaleTargetRef": reference,
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": metric}],
        },
        "status": {"currentMetrics": [{"type": "Resource", "resource": current}] if seen is not None else []},
    }


def plain(name: str, replicas: int) -> dict[str, Any]:
    """A workload whose pods say nothing of what they need."""
    made = workload(name, replicas)
    del made["spec"]["template"]["spec"]["containers"][0]["resources"]
    return made


def applied(copy: ClusterSnapshot, *objects: dict[str, Any], **how: Any) -> Outcome:
    return simulate(copy, [Apply(tuple((Path("new.yaml"), obj) for obj in objects))], **how)


class TestQuotas:
    def test_pods_beyond_a_quota_are_missing_and_it_is_said_why(self, tmp_path: Path) -> None:
        copy = copy_of(tmp_path, node("a", "z"), quota(pods="3"), workload("web", 2))
        outcome = applied(copy, workload("db", 4))
        (missing,) = outcome.missing
        assert (missing.workload, missing.pods, missing.new) == ("default/Deployment/db", 3, True)
        assert "exceeded quota: team, requested: pods=1, used: pods=3, limited: pods=3" in missing.reason
        assert (outcome.good, outcome.pending, outcome.after) == (False, (), {"a": 3})

    def test_what_was_missing_before_is_not_new(self, tmp_path: Path) -> None:
        copy = copy_of(tmp_path, node("a", "z"), quota(pods="2"), workload("web", 3))
        outcome = applied(copy, quota("other", services="9"))
        assert [(one.workload, one.pods, one.new) for one in outcome.missing] == [("default/Deployment/web", 1, False)]
        assert outcome.good

    def test_a_quota_that_is_applied_counts_for_what_is_applied_with_it(self, tmp_path: Path) -> None:
        outcome = applied(copy_of(tmp_path, node("a", "z")), workload("web", 3), quota(pods="1"))
        assert [one.pods for one in outcome.missing] == [2]

    def test_a_pod_that_is_forbidden_is_a_problem_and_the_rest_is_applied(self, tmp_path: Path) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": workload("p", 1)["spec"]}
        pod["spec"] = pod["spec"]["template"]["spec"]
        outcome = applied(copy_of(tmp_path, node("a", "z"), quota(pods="0")), pod, quota("q", pods="7"))
        assert len(outcome.problems) == 1
        assert outcome.problems[0].startswith('new.yaml: Pod p: pods "p" is forbidden: exceeded quota: team')

    def test_a_quota_that_is_widened_counts_for_what_is_applied_with_it(self, tmp_path: Path) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": workload("p", 1)["spec"]}
        pod["spec"] = pod["spec"]["template"]["spec"]
        outcome = applied(copy_of(tmp_path, node("a", "z"), quota(pods="0")), quota(pods="1"), pod)
        assert (outcome.problems, outcome.after) == ((), {"a": 1})

    def test_pods_that_a_job_wants_no_more_are_not_missing(self, tmp_path: Path) -> None:
        made = workload("work", 1)
        template = made["spec"]["template"]
        template["metadata"]["annotations"] = {"bayplan.dev/run-seconds": "100"}
        template["spec"]["restartPolicy"] = "Never"
        made |= {"kind": "Job", "apiVersion": "batch/v1", "spec": {"parallelism": 3, "template": template}}
        copy = copy_of(tmp_path, node("a", "z"), quota(pods="2"))
        assert [one.pods for one in applied(copy, made, seconds=30.0).missing] == [1]
        assert applied(copy, made, seconds=101.5).missing == ()

    def test_a_quota_makes_every_pod_say_what_it_needs(self, tmp_path: Path) -> None:
        copy = copy_of(tmp_path, node("a", "z"), quota(requests_cpu="4"))
        assert "must specify requests.cpu for: main" in applied(copy, plain("web", 2)).missing[0].reason
        assert not applied(copy, plain("web", 2), limit_range(cpu="1")).missing

    @pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "Job", "ReplicaSet"])
    def test_every_owner_tells(self, tmp_path: Path, kind: str) -> None:
        made = workload("db", 2)
        made["kind"] = kind
        if kind == "Job":
            template = made["spec"]["template"]
            template["spec"]["restartPolicy"] = "Never"
            made |= {"apiVersion": "batch/v1", "spec": {"parallelism": 2, "completions": 2, "template": template}}
        elif kind == "DaemonSet":
            del made["spec"]["replicas"]
        copy = copy_of(tmp_path, node("a", "z"), node("b", "z"), quota(pods="0"))
        (missing,) = applied(copy, made).missing
        assert (missing.workload, missing.pods) == (f"default/{kind}/db", 2)
        assert "exceeded quota: team" in missing.reason

    def test_the_command_says_why(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        file, manifest = tmp_path / "copy", tmp_path / "new.json"
        (tmp_path / "objects").mkdir()
        file.write_bytes(to_bytes(copy_of(tmp_path / "objects", node("a", "z"), quota(pods="1"))))
        manifest.write_text(json.dumps(workload("web", 3)))
        page = tmp_path / "page.html"
        arguments = ["simulate", "--cluster", str(file), "--apply", str(manifest), "--html", str(page)]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 1, result.output
        assert "2 of default/Deployment/web: Error creating: pods" in result.output
        assert "exceeded quota: team" in page.read_text()
        assert not caplog.records, "what controllers try in vain is told once, by the outcome"


class TestLimitRanges:
    def test_pods_to_come_get_its_defaults(self, tmp_path: Path) -> None:
        copy = copy_of(tmp_path, node("a", "z", cpu="4"), limit_range(cpu="1500m"))
        outcome = applied(copy, plain("web", 3))
        assert (outcome.after, [one.reason.startswith("0/1 nodes") for one in outcome.pending]) == ({"a": 2}, [True])

    def test_a_pod_of_a_manifest_has_them_in_every_answer(self, tmp_path: Path) -> None:
        template = plain("web", 1)["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]}
        seen = {**pod, "metadata": {"name": "seen", "uid": "u"}}
        copy = copy_of(tmp_path, node("a", "z", cpu="2"), limit_range(cpu="3"), pod, seen)
        fixes = fixes_for(copy, pod_named(copy, "p"))
        assert "lower the cpu request of container main from 3 to 2" in {fix.changes[0].text for fix in fixes.fixes}
        assert fixes_for(copy, pod_named(copy, "seen")).placed
        assert [one.pod for one in simulate(copy, [], seconds=60.0).pending] == ["default/p"]

    def test_pods_that_are_placed_anew_from_templates_have_them(self, tmp_path: Path) -> None:
        copy = copy_of(tmp_path, node("a", "z"), limit_range(cpu="3"), plain("web", 2))
        asked = [one.pod.spec.containers[0].resources.requests for one in workload_of_copy(copy).arrivals]
        assert asked == [{"cpu": "3"}, {"cpu": "3"}]


class TestAutoscalers:
    @pytest.mark.parametrize("seen", [None, 0, 48, 300])
    def test_a_workload_stays_as_large_as_it_was(self, tmp_path: Path, seen: int | None) -> None:
        copy = copy_of(tmp_path, node("a", "z"), workload("web", 4, cpu="200m"), autoscaler("web", 2, 8, seen=seen))
        outcome = simulate(copy, [], seconds=3600.0)
        assert (outcome.after, outcome.placements, outcome.departures) == ({"a": 4}, (), ())

    def test_replicas_that_somebody_else_sets_come_back_into_bounds(self, tmp_path: Path) -> None:
        copy = copy_of(tmp_path, node("a", "z"), workload("web", 4, cpu="200m"), autoscaler("web", 2, 6))
        outcome = simulate(copy, [Scale("deployments", "default", "web", 9)], seconds=1800.0)
        assert outcome.after == {"a": 6}

    def test_more_is_used_and_more_pods_come(self, tmp_path: Path) -> None:
        copy = copy_of(tmp_path, node("a", "z"), workload("web", 2, cpu="200m"), autoscaler("web", 2, 6))
        busy = workload("web", 2, cpu="200m")
        del busy["spec"]["replicas"]
        busy["spec"]["template"]["metadata"]["annotations"] = {"bayplan.dev/cpu-usage": "100%"}
        assert applied(copy, busy, seconds=3600.0).after == {"a": 6}

    def test_what_was_seen_at_the_most_replicas_counts_once_there_may_be_more(self, tmp_path: Path) -> None:
        copy = copy_of(tmp_path, node("a", "z"), workload("web", 4, cpu="200m"), autoscaler("web", 2, 4, seen=75))
        assert simulate(copy, [], seconds=1800.0).after == {"a": 4}
        more = autoscaler("web", 2, 5)
        del more["status"]
        assert applied(copy, more, seconds=1800.0).after == {"a": 5}

    def test_a_stateful_set_is_left_alone(self, tmp_path: Path) -> None:
        stateful, scaled = workload("db", 3), autoscaler("db", 1, 5, seen=55)
        stateful["kind"] = scaled["spec"]["scaleTargetRef"]["kind"] = "StatefulSet"
        first = simulate(copy_of(tmp_path, node("a", "z"), stateful, scaled), [], seconds=1800.0)
        assert (first.after, first.departures) == ({"a": 3}, ())


def test_names_are_made_up_and_references_hold() -> None:
    copy = ClusterSnapshot()
    trees = [
        limit_range(cpu="1", **{"acme.example/disk": "2"}),
        quota(
            pods="3",
            **{
                "requests.acme.example/disk": "4",
                "acme-fast.storageclass.storage.k8s.io/requests.storage": "5Gi",
                "count/widgets.acme.example": "6",
                "count/deployments.apps": "7",
            },
        ),
        workload("acme-web", 1),
        autoscaler("acme-web", 1, 5, seen=40),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "acme-fast"},
            "provisioner": "x",
        },
    ]
    for tree in trees:
        kind, obj = object_of(tree)
        assert kind is not None
        copy.objects.setdefault(kind.kind, []).append(obj)
    other = anonymized(copy)
    assert b"acme" not in b"".join(encode(one) for one in other.flat())
    (limits,), (hpa,), (made,) = other.of("LimitRange"), other.of("HorizontalPodAutoscaler"), other.of("Deployment")
    hard = other.of("ResourceQuota")[0].spec.hard
    storage_class = other.of("StorageClass")[0].metadata.name
    disk = next(name for name in limits.spec.limits[0].default if "/" in name)
    assert hpa.spec.scale_target_ref.name == made.metadata.name
    assert (hpa.spec.metrics[0].resource.name, hpa.status.current_metrics[0].resource.name) == ("cpu", "cpu")
    assert limits.spec.limits[0].default_request == {"cpu": "1", disk: "2"}
    assert (hard["pods"], hard["count/deployments.apps"], hard[f"requests.{disk}"]) == ("3", "7", "4")
    assert hard[f"{storage_class}.storageclass.storage.k8s.io/requests.storage"] == "5Gi"


def test_nothing_that_may_be_secret_is_kept() -> None:
    tree = autoscaler("web", 1, 5)
    tree["metadata"]["annotations"] = {"hush": "hush"}
    tree["status"]["conditions"] = [{"type": "AbleToScale", "status": "True", "reason": "x", "message": "hush"}]
    other = quota(pods="3")
    other["metadata"]["annotations"] = {"hush": "hush"}
    thinned = [
        thin(from_tree(autoscaling_v2.HorizontalPodAutoscaler, tree)),
        thin(from_tree(core_v1.ResourceQuota, other)),
    ]
    assert b"hush" not in b"".join(encode(one) for one in thinned)
    assert thinned[1].spec.hard == {"pods": "3"}


def test_autoscalers_of_older_versions_are_read() -> None:
    tree = autoscaler("web", 1, 5)
    for version in ("autoscaling/v2beta2", "autoscaling/v1"):
        old = {**tree, "apiVersion": version}
        if version == "autoscaling/v1":
            spec = {key: value for key, value in tree["spec"].items() if key != "metrics"}
            old |= {"spec": {**spec, "targetCPUUtilizationPercentage": 50}, "status": {}}
        _, found = object_of(old)
        assert isinstance(found, autoscaling_v2.HorizontalPodAutoscaler)
        assert found.spec.metrics[0].resource is not None
        assert found.spec.metrics[0].resource.target.average_utilization == 50


def test_missing_pods_say_so_in_plain_data(tmp_path: Path) -> None:
    copy = copy_of(tmp_path, node("a", "z"), quota(pods="0"))
    outcome = applied(copy, workload("web", 1))
    assert outcome.to_dict()["missing"][0]["workload"] == "default/Deployment/web"
    assert isinstance(outcome.missing[0], UncreatedPods)


def test_a_copy_of_a_live_cluster_goes_on_within_its_limits(tmp_path: Path) -> None:
    async def taken() -> bytes:
        async with running_cluster(nodes=1) as cluster:
            objects = [limit_range(cpu="100m"), quota(requests_cpu="1", pods="5"), plain("web", 2)]
            scaled = autoscaler("web", 2, 4)
            await apply_manifests(cluster.client, [(tmp_path, obj) for obj in (*objects, scaled)])
            await cluster.rolled_out("web", 2)

            async def counted() -> bool:
                found = await cluster.client.get(core_v1.ResourceQuota, "team", "default")
                return found.status.used.get("pods") == "2"

            await cluster.eventually(counted)
            return to_bytes(await read_live(cluster.client, taken_at="2026-01-02T03:04:05Z"))

    file = tmp_path / "copy"
    file.write_bytes(asyncio.run(taken()))
    copy = read(file)
    names = {kind: [one.metadata.name for one in copy.of(kind)] for kind in ("LimitRange", "ResourceQuota")}
    assert names == {"LimitRange": ["usual"], "ResourceQuota": ["team"]}
    assert not copy.of("HorizontalPodAutoscaler")[0].metadata.managed_fields
    outcome = applied(copy, plain("db", 4), seconds=1800.0)
    assert [(one.workload, one.pods) for one in outcome.missing] == [("default/Deployment/db", 1)]
    assert "exceeded quota: team" in outcome.missing[0].reason
    assert sum(outcome.after.values()) == 5
