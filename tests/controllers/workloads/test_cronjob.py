"""What is due for a CronJob, which jobs it makes, and which it clears away."""

from __future__ import annotations

from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import batch_v1
from bayplan.controllers.workloads.cron_schedule import parse
from bayplan.controllers.workloads.cronjob import SCHEDULED, Plan, decide, new_job, surplus
from bayplan.support.timestamps import parse_rfc3339

CREATED = "2026-01-01T00:00:00Z"
NOW = parse_rfc3339("2026-01-01T00:10:30Z")
LATEST = parse_rfc3339("2026-01-01T00:10:00Z")
NAME = f"tick-{int(LATEST) // 60}"


def cron_job(status: dict[str, Any] | None = None, **spec: Any) -> batch_v1.CronJob:
    made: batch_v1.CronJob = from_tree(
        batch_v1.CronJob,
        {
            "metadata": {"name": "tick", "namespace": "default", "uid": "u", "creationTimestamp": CREATED},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"metadata": {"labels": {"a": "b"}}}, **spec},
            "status": status or {},
        },
    )
    return made


def plan(one: batch_v1.CronJob, *jobs: str) -> Plan:
    return decide(one, jobs, parse(one.spec.schedule), UTC, NOW)


RUNNING = {"active": [{"name": "tick-1", "uid": "j"}]}


@pytest.mark.parametrize(
    ("one", "jobs", "start", "blocked"),
    [
        pytest.param(cron_job(), (), True, False, id="the latest time runs"),
        pytest.param(cron_job({"lastScheduleTime": "2026-01-01T00:10:00Z"}), (), False, False, id="what ran is done"),
        pytest.param(cron_job(), (NAME,), False, False, id="the job is there already"),
        pytest.param(cron_job({"active": [{"name": NAME}]}), (), False, False, id="the job runs already"),
        pytest.param(cron_job(RUNNING), (), True, False, id="jobs may run side by side"),
        pytest.param(cron_job(RUNNING, concurrencyPolicy="Forbid"), (), False, True, id="unless that is forbidden"),
        pytest.param(cron_job(startingDeadlineSeconds=60), (), True, False, id="in time"),
        pytest.param(cron_job(startingDeadlineSeconds=20), (), False, False, id="too late"),
    ],
)
def test_what_starts(one: batch_v1.CronJob, jobs: tuple[str, ...], start: bool, blocked: bool) -> None:
    found = plan(one, *jobs)
    assert (found.start, found.blocked) == (start, blocked)
    assert found.next == LATEST + 60


def test_a_time_over_the_deadline_is_reported() -> None:
    found = plan(cron_job(startingDeadlineSeconds=20))
    assert (found.too_late, found.scheduled) == (True, LATEST)


def test_running_jobs_are_replaced() -> None:
    found = plan(cron_job(RUNNING, concurrencyPolicy="Replace"))
    assert [one.name for one in found.replace] == ["tick-1"]
    assert found.start


def test_a_job_knows_its_time_and_its_owner() -> None:
    made = new_job(cron_job(), LATEST, ZoneInfo("Asia/Kolkata"))
    assert made.metadata.name == NAME
    assert made.metadata.labels == {"a": "b"}
    assert made.metadata.annotations == {SCHEDULED: "2026-01-01T05:40:00+05:30"}
    assert made.metadata.owner_references[0].uid == "u"


def test_the_oldest_jobs_go_first() -> None:
    def job(name: str, started: str) -> batch_v1.Job:
        made: batch_v1.Job = from_tree(batch_v1.Job, {"metadata": {"name": name}, "status": {"startTime": started}})
        return made

    jobs = [job("b", "2026-01-01T00:02:00Z"), job("a", "2026-01-01T00:01:00Z"), job("c", "2026-01-01T00:03:00Z")]
    assert [one.metadata.name for one in surplus(jobs, 1)] == ["a", "b"]
    assert surplus(jobs, 3) == surplus(jobs, None) == []
