"""Jobs and CronJobs."""

from __future__ import annotations

from typing import Final

from tests.differential.controllers.builders import cron_job, job, set_spec
from tests.differential.controllers.steps import Scenario, delete, end, reap, rest, run

_FAIL: Final = [
    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
]
SCENARIOS: Final = (
    Scenario("job", [[job()], [run()], [end()], [delete("Job", "job", "Background")]]),
    Scenario(
        "job-completions",
        [[job(completions=4, parallelism=2)], [run()], [end(most=1)], [run()], [end()], [run()], [end()]],
    ),
    Scenario(
        "job-indexed",
        [
            [job(completions=3, parallelism=3, completionMode="Indexed")],
            [run()],
            [end("job-1")],
            [end("job-0", code=1)],
            [rest(12), run()],
            [end()],
        ],
    ),
    Scenario("job-back-off", [[job(backoffLimit=1)], [run()], [end(code=1)], [rest(12), run()], [end(code=2)]]),
    Scenario("job-zero-retries", [[job(backoffLimit=0, parallelism=2)], [run()], [end(most=1, code=1)], [reap()]]),
    Scenario(
        "job-per-index",
        [
            [
                job(
                    completions=3,
                    parallelism=3,
                    completionMode="Indexed",
                    backoffLimitPerIndex=0,
                    maxFailedIndexes=1,
                )
            ],
            [run()],
            [end("job-0", code=1)],
            [end("job-2")],
            [end("job-1", code=1)],
        ],
    ),
    Scenario(
        "job-per-index-ends",
        [
            [job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=0)],
            [run()],
            [end("job-0", code=1)],
            [end("job-1")],
        ],
    ),
    Scenario(
        "job-failure-policy",
        [
            [job(parallelism=2, completions=2, podFailurePolicy={"rules": _FAIL})],
            [run()],
            [end(most=1, code=42)],
            [reap()],
        ],
    ),
    Scenario(
        "job-_FAIL-index",
        [
            [
                job(
                    completions=2,
                    parallelism=2,
                    completionMode="Indexed",
                    backoffLimitPerIndex=3,
                    podFailurePolicy={
                        "rules": [
                            {
                                "action": "FailIndex",
                                "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [1, 2]},
                            }
                        ]
                    },
                )
            ],
            [run()],
            [end("job-0", code=7)],
            [end("job-1")],
        ],
    ),
    Scenario(
        "job-success-policy",
        [
            [
                job(
                    completions=4,
                    parallelism=4,
                    completionMode="Indexed",
                    successPolicy={"rules": [{"succeededIndexes": "1-2", "succeededCount": 1}]},
                )
            ],
            [run()],
            [end("job-2")],
            [reap()],
        ],
    ),
    Scenario(
        "job-suspended",
        [
            [job(suspend=True, parallelism=2)],
            [set_spec("Job", "job", suspend=False)],
            [run()],
            [set_spec("Job", "job", suspend=True)],
            [reap()],
            [set_spec("Job", "job", suspend=False)],
            [run()],
            [end()],
        ],
    ),
    Scenario("job-deadline", [[job(activeDeadlineSeconds=3)], [run()], [rest(4)], [reap()]]),
    Scenario("job-ttl", [[job(ttlSecondsAfterFinished=2)], [run()], [end()], [rest(4)]]),
    Scenario(
        "job-replacement",
        [
            [job(podReplacementPolicy="Failed", parallelism=2)],
            [run()],
            [set_spec("Job", "job", parallelism=1)],
            [reap()],
            [end()],
        ],
    ),
    Scenario("job-foreign", [[job(managedBy="example.com/other")], [run()]]),
    Scenario("job-work-queue", [[job(parallelism=3, completions=None)], [run()], [end(most=1)], [end()]]),
    Scenario(
        "job-none",
        [
            [job(completions=0)],
            [job("other", parallelism=0)],
            [set_spec("Job", "other", parallelism=1)],
            [run()],
            [delete("Job", "other", "Foreground")],
            [reap()],
        ],
    ),
    Scenario(
        "cronjob",
        [
            [cron_job("never", "0 0 31 2 *", suspend=False)],
            [cron_job("zone", "0 0 1 1 *", restart="OnFailure", timeZone="Europe/Berlin", suspend=True)],
            [
                cron_job(
                    "often",
                    "* * * * *",
                    metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}},
                    successfulJobsHistoryLimit=1,
                )
            ],
            [rest(62)],
            [set_spec("CronJob", "often", suspend=True)],
            [run()],
            [end()],
            [delete("CronJob", "often")],
        ],
    ),
)
