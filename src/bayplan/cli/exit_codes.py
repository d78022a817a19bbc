"""What exit codes mean, and which errors end a verb with which of them. `docs/what-if.md` has the table for users.

0: yes, or done. 1: no (the answer is negative), or what was asked for failed. 2: the question makes no sense as it was
put: an unknown object, a missing file, an amount that is none, a cluster that cannot be reached, a wrong option.

Verbs let such errors pass; `cli/main.py` asks here. Errors are known by name, so that nothing is imported for them.
"""

from __future__ import annotations

from typing import Final

from bayplan.cli.output import Failure, Unanswerable

MEANINGS: Final[dict[str, tuple[type[Failure], str]]] = {
    "bayplan.api.codec.DecodeError": (Unanswerable, ""),
    "bayplan.client.errors.KubeconfigError": (Unanswerable, "; name a kubeconfig with --kubeconfig"),
    "bayplan.client.errors.TransportError": (Unanswerable, "; is the cluster running?"),
    "bayplan.cluster.questions.asking.AskError": (Unanswerable, ""),
    "bayplan.cluster.manifests.reading.ManifestError": (Unanswerable, ""),
    "bayplan.descheduler.errors.DeschedulerError": (Unanswerable, ""),
    "bayplan.scheduler.errors.SchedulerError": (Unanswerable, ""),
    "bayplan.simulation.actions.ActionError": (Unanswerable, ""),
    "bayplan.simulation.rehearsal.setting.RehearsalError": (Unanswerable, ""),
    "bayplan.simulation.replay.compare.PriceError": (Unanswerable, ""),
    "bayplan.simulation.sweeps.engines.EngineURLError": (Unanswerable, ""),
    "bayplan.simulation.sweeps.engines.EngineError": (Failure, ""),
    "bayplan.simulation.sweeps.results.ResultsError": (Failure, ""),
    "bayplan.simulation.sweeps.results.ShardError": (Unanswerable, ""),
    "bayplan.simulation.sweeps.sweep.SweepError": (Failure, ""),
    "bayplan.simulation.snapshots.snapshot.SnapshotError": (Unanswerable, ""),
    "bayplan.simulation.snapshots.planner.QuestionError": (Unanswerable, ""),
    "bayplan.simulation.faults.plan.PlanError": (Unanswerable, ""),
    "bayplan.simulation.lessons.lesson.LessonError": (Unanswerable, ""),
    "bayplan.simulation.replay.traces.TraceError": (Unanswerable, ""),
    "bayplan.cluster.errors.ClusterError": (Failure, ""),
}
"""Error (or base of errors) -> what it means for whoever asked, and what is added to its message."""


def failure_of(error: Exception) -> Failure | None:
    """What the end of a verb by this error means; None for errors that nobody foresaw."""
    for cls in type(error).__mro__:
        meaning = MEANINGS.get(f"{cls.__module__}.{cls.__qualname__}")
        if meaning is not None:
            failure, hint = meaning
            return failure(f"{error}{hint}")
    return None
