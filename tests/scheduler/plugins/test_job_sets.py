"""JobSets as gangs: how many pods come together, and that all of them are placed or none."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import meta_v1
from bayplan.scheduler.framework.custom_groups import MalformedGroup
from bayplan.scheduler.library import place
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.extra.cores import enabling
from tests.scheduler.plugins.test_custom_groups import plugin

CONFIG = enabling("JobSets")
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/rack"}


def replicated(name: str, replicas: int, parallelism: int, cpu: str = "", **fields: Any) -> Tree:
    requests = {"requests": {"cpu": cpu}} if cpu else {}
    spec = {"containers": [{"name": "main", "image": "app", "resources": requests}]}
    job = {"parallelism": parallelism, "completions": parallelism, "template": {"spec": spec}}
    return {"name": name, "replicas": replicas, "template": {"spec": job}, **fields}


def job_set(name: str, *jobs: Tree, annotations: dict[str, str] | None = None, **spec: Any) -> Tree:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {"replicatedJobs": list(jobs), **spec},
    }


def read(tree: Tree, status: Any = None) -> CustomPodGroup:
    metadata = meta_v1.ObjectMeta(name="s", namespace="default", annotations=tree["metadata"]["annotations"])
    return plugin(CONFIG).read_group(metadata, {**tree, "status": status or {}})


@pytest.mark.parametrize(("replicas", "parallelism"), [(0, 3), (3, 0), (0, 0)])
def test_jobs_without_pods_need_none(replicas: int, parallelism: int) -> None:
    assert read(job_set("s", replicated("none", replicas, parallelism), replicated("one", 1, 2))).min_count == 2


LEADER, WORKERS = replicated("leader", 1, 1, "1"), replicated("workers", 4, 8, "2")


@pytest.mark.parametrize(
    ("tree", "together", "wanted"),
    [
        pytest.param(job_set("s", LEADER, WORKERS), 33, {}, id="all pods come at once"),
        pytest.param(
            job_set("s", LEADER, WORKERS, startupPolicy={"startupPolicyOrder": "InOrder"}),
            1,
            {"cpu": 65_000},
            id="the first replicated job comes first",
        ),
        pytest.param(
            job_set("s", LEADER, WORKERS, startupPolicy={"startupPolicyOrder": "AnyOrder"}), 33, {}, id="any order"
        ),
        pytest.param(
            job_set("s", {**LEADER, "dependsOn": [{"name": "workers", "status": "Ready"}]}, WORKERS),
            32,
            {"cpu": 65_000},
            id="what depends on others comes after them",
        ),
        pytest.param(
            job_set("s", LEADER, WORKERS, annotations=EXCLUSIVE),
            5,
            {"cpu": 65_000},
            id="leaders find their domains first",
        ),
        pytest.param(
            job_set("s", LEADER, WORKERS, annotations={**EXCLUSIVE, "alpha.jobset.sigs.k8s.io/node-selector": "true"}),
            33,
            {},
            id="domains that were chosen beforehand",
        ),
        pytest.param(job_set("s", {"name": "one"}), 1, {}, id="one job of one pod if nothing is said"),
        pytest.param(job_set("s"), 0, {}, id="no jobs"),
    ],
)
def test_which_pods_are_placed_together(tree: Tree, together: int, wanted: dict[str, int]) -> None:
    found = read(tree)
    assert (found.min_count, found.min_resources, found.metadata.name) == (together, wanted, "jobset.x-k8s.io/s")


def test_fewer_completions_than_pods_at_once() -> None:
    job = replicated("j", 2, 8)
    job["template"]["spec"]["completions"] = 3
    assert read(job_set("s", job)).min_count == 6


def test_jobs_that_have_succeeded_need_no_pods() -> None:
    status = {"replicatedJobsStatus": [{"name": "workers", "succeeded": 3, "active": 1}]}
    assert read(job_set("s", LEADER, WORKERS), status).min_count == 9


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"replicatedJobs": "x"}, "spec.replicatedJobs: must be a list"),
        ({"replicatedJobs": ["x"]}, r"spec.replicatedJobs\[0\]: must be an object"),
        ({"replicatedJobs": [{"replicas": -1}]}, r"spec.replicatedJobs\[0\].replicas: -1 must be a whole number"),
        (
            {"replicatedJobs": [{"template": {"spec": {"parallelism": True}}}]},
            r"spec.replicatedJobs\[0\].template.spec.parallelism: True must be",
        ),
        (
            {"replicatedJobs": [replicated("j", 1, 1, "much")]},
            r"spec.replicatedJobs\[0\].template.spec.template.spec: ",
        ),
    ],
)
def test_a_job_set_that_cannot_be_understood(spec: Tree, message: str) -> None:
    with pytest.raises(MalformedGroup, match=message):
        read({**job_set("s"), "spec": spec})


def members(name: str, count: int, cpu: str) -> list[Tree]:
    labels = {"jobset.sigs.k8s.io/jobset-name": name}
    return [pod(f"{name}-{index}", cpu=cpu, labels=labels) for index in range(count)]


def test_a_job_set_is_placed_as_a_whole_or_not_at_all() -> None:
    objects = [
        node("a"),
        node("b"),
        job_set("large", replicated("workers", 3, 1, "3")),
        job_set("small", replicated("leader", 1, 1, "3"), replicated("workers", 1, 1, "3")),
    ]
    run = place(objects, [*members("large", 3, "3"), *members("small", 2, "3")], CONFIG)
    assert {one.pod for one in run.attempts if one.decision.scheduled} == {"default/small-0", "default/small-1"}


@pytest.mark.parametrize(("cpu", "placed"), [("4", {"default/s-0", "default/s-1"}), ("3900m", set())])
def test_leaders_are_placed_while_there_is_room_for_all(cpu: str, placed: set[str]) -> None:
    tree = job_set("s", replicated("workers", 2, 2, "2"), annotations=EXCLUSIVE)
    run = place([node("a"), node("b", cpu=cpu), tree], members("s", 2, "2"), CONFIG)
    assert {one.pod for one in run.attempts if one.decision.scheduled} == placed
