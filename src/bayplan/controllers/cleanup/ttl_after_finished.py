"""Jobs that have ended go away after `ttlSecondsAfterFinished`, with everything they own."""

from __future__ import annotations

from bayplan.api.errors import ApiError
from bayplan.api.types import batch_v1
from bayplan.controllers.base import Controller
from bayplan.controllers.workloads.job_rules import finished
from bayplan.support.timestamps import parse_rfc3339


def time_left(job: batch_v1.Job, now: float) -> float | None:
    """Seconds until a job is to go; None if it has not ended, stays for ever or is going."""
    end, seconds = finished(job), job.spec.ttl_seconds_after_finished
    if end is None or seconds is None or job.metadata.deletion_timestamp or not end.last_transition_time:
        return None
    return parse_rfc3339(end.last_transition_time) + seconds - now


class TtlAfterFinishedController(Controller):
    """See the module."""

    name = "ttl-after-finished-controller"

    def setup(self) -> None:
        self.jobs = self.informer(batch_v1.Job)
        self.watch_keys(self.jobs)

    async def reconcile(self, key: str) -> None:
        job = self.jobs.cache.by_key(key)
        left = None if job is None else time_left(job, self.clock.now())
        if job is None or left is None:
            return
        if left > 0:
            self.queue.add_after(key, left)
            return
        namespace, name = job.metadata.namespace, job.metadata.name
        try:
            fresh = await self.client.get(batch_v1.Job, name, namespace)
            left = time_left(fresh, self.clock.now())  # somebody may have set another time to live
            if fresh.metadata.uid == job.metadata.uid and left is not None and left <= 0:
                await self.client.delete(
                    batch_v1.Job, name, namespace, uid=job.metadata.uid, propagation_policy="Foreground"
                )
        except ApiError as error:
            if error.code not in (404, 409):
                raise
