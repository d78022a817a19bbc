"""What Jobs get as gangs."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import batch_v1, core_v1
from bayplan.controllers.workloads import job_gangs

INDEXED = {"completionMode": "Indexed", "parallelism": 3, "completions": 3}


def job(name: str = "train", **spec: Any) -> batch_v1.Job:
    template = {"spec": {"containers": [{"name": "main", "image": "app"}], **spec.pop("pod", {})}}
    tree = {
        "metadata": {"name": name, "namespace": "default", "uid": "u-1"},
        "spec": {**INDEXED, "template": template, **spec},
    }
    made: batch_v1.Job = from_tree(batch_v1.Job, tree)
    return made


@pytest.mark.parametrize(
    ("spec", "is_gang"),
    [
        ({}, True),
        ({"parallelism": 1, "completions": 1}, False),
        ({"parallelism": 2}, False),
        ({"parallelism": 2, "completions": 2}, True),
        ({"completionMode": "NonIndexed"}, False),
        ({"completions": None}, False),
        ({"parallelism": None}, False),
        ({"pod": {"schedulingGroup": {"podGroupName": "mine"}}}, False),
    ],
)
def test_which_jobs_are_gangs(spec: dict[str, Any], is_gang: bool) -> None:
    assert job_gangs.is_gang(job(**spec)) is is_gang


@pytest.mark.parametrize(
    ("status", "is_new"),
    [
        ({}, True),
        ({"startTime": "2026-01-01T00:00:00Z"}, False),
        ({"succeeded": 1}, False),
        ({"failed": 1}, False),
        ({"conditions": [{"type": "Suspended", "status": "False"}]}, False),
        ({"conditions": [{"type": "Other", "status": "True"}]}, True),
    ],
)
def test_which_jobs_are_new(status: dict[str, Any], is_new: bool) -> None:
    made = job()
    made.status = from_tree(batch_v1.JobStatus, status)
    assert job_gangs.is_new(made, ()) is is_new
    assert not job_gangs.is_new(made, (core_v1.Pod(),))


def test_the_group_follows_from_the_template_and_belongs_to_the_job() -> None:
    made = job()
    made.metadata.annotations = {job_gangs.PREFERRED_TOPOLOGY: "rack", "other": "x"}
    workload = job_gangs.workload_of(made)
    workload.metadata.uid = "u-2"
    reference = workload.spec.controller_ref
    assert reference is not None
    assert (reference.api_group, reference.kind, reference.name) == ("batch", "Job", "train")
    (template,) = workload.spec.pod_group_templates
    assert template.name == "train-pgt-0"
    group = job_gangs.pod_group_of(made, workload)
    assert group.spec.scheduling_policy.gang is not None
    assert group.spec.scheduling_policy.gang.min_count == 3
    owners = [(one.kind, one.uid, bool(one.controller)) for one in group.metadata.owner_references]
    assert owners == [("Job", "u-1", True), ("Workload", "u-2", False)]
    assert group.metadata.annotations == {job_gangs.PREFERRED_TOPOLOGY: "rack"}
    assert group.spec.pod_group_template_ref is not None
    assert group.spec.pod_group_template_ref.workload is not None
    assert group.spec.pod_group_template_ref.workload.pod_group_template_name == "train-pgt-0"


def test_names_are_short_enough_and_tell_jobs_apart() -> None:
    assert job_gangs.workload_name("a", "1") != job_gangs.workload_name("a", "2")
    assert len(job_gangs.workload_name("a" * 253, "1")) == 253
    assert job_gangs.workload_name("a", "1").startswith("a-")
    for workload, template in (("w" * 200, "t" * 200), ("w" * 253, "t"), ("w", "t" * 253)):
        name = job_gangs.pod_group_name(workload, template)
        assert len(name) == 253
        assert name.count("-") == 2
    even = job_gangs.pod_group_name("w" * 200, "t" * 200)
    assert abs(even.count("w") - even.count("t")) <= 12
    assert job_gangs.pod_group_name("w", "t").startswith("w-t-")
