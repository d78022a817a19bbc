"""PodLifeTime: pods that are too old, or that have been in a state for too long. Source: the descheduler's `podlifetime`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.descheduler.arguments import Count, Fields, Int32, PodSelection, one_of
from bayplan.descheduler.framework import DESCHEDULE, Candidate, Candidates, Handle, Strategy, each
from bayplan.descheduler.pods import (
    age,
    container_statuses,
    created,
    exit_codes,
    first_of,
    owner_kinds,
    seconds_since,
    state_reasons,
)

_STATES: Final = frozenset(
    {
        *("Running", "Pending", "Succeeded", "Failed", "Unknown"),
        *("NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError"),
        *("PodInitializing", "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff"),
        *("CreateContainerConfigError", "ErrImagePull", "CreateContainerError", "InvalidImageName"),
        *("OOMKilled", "Error", "Completed", "DeadlineExceeded", "Evicted", "ContainerCannotRun", "StartError"),
    }
)
"""Phases, reasons of pods, reasons for which containers wait, reasons for which they ended."""


class OwnerKinds(Fields, frozen=True, kw_only=True):
    """Kinds of owners to look at, or not to look at."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def contain(self, pod: core_v1.Pod) -> bool:
        """Whether a pod is looked at."""
        kinds = owner_kinds(pod)
        return bool(kinds & set(self.include)) if self.include else not kinds & set(self.exclude)


class ConditionFilter(Fields, frozen=True, kw_only=True):
    """A condition of a pod; fields that are given must all match."""

    type: str = ""
    status: str = ""
    reason: str = ""
    min_time_since_last_transition_seconds: Count | None = None

    def matches(self, condition: core_v1.PodCondition, now: float) -> bool:
        """Whether a condition is meant."""
        given = ((self.type, condition.type), (self.status, condition.status), (self.reason, condition.reason))
        if any(wanted and wanted != found for wanted, found in given):
            return False
        least = self.min_time_since_last_transition_seconds
        if least is None:
            return True
        since = seconds_since(condition.last_transition_time, now)
        return since is not None and since >= max(0, least)

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not (self.type or self.status or self.reason) and self.min_time_since_last_transition_seconds is None


class PodLifeTimeArguments(PodSelection, frozen=True, kw_only=True):
    """Arguments of PodLifeTime: a pod must satisfy all that are given."""

    owner_kinds: OwnerKinds = OwnerKinds()
    max_pod_life_time_seconds: Count | None = None
    states: tuple[str, ...] = ()
    conditions: tuple[ConditionFilter, ...] = ()
    exit_codes: tuple[Int32, ...] = ()
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False

    def errors(self) -> list[str]:
        found = super().errors()
        if self.owner_kinds.include and self.owner_kinds.exclude:
            found.append("only one of Include/Exclude ownerKinds can be set")
        found += one_of(self.states, _STATES, "states")
        found += [
            f"conditions[{index}]: at least one of type, status, reason, or minTimeSinceLastTransitionSeconds must be set"
            for index, one in enumerate(self.conditions)
            if one.is_empty
        ]
        if self.max_pod_life_time_seconds is None and not (self.states or self.conditions or self.exit_codes):
            found.append(
                "at least one filtering criterion must be specified (maxPodLifeTimeSeconds, states, conditions, or exitCodes)"
            )
        return found


class PodLifeTime(Strategy):
    """Evicts the oldest pods first."""

    name = "PodLifeTime"
    point = DESCHEDULE
    arguments_type = PodLifeTimeArguments

    def __init__(self, arguments: Any, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._arguments: PodLifeTimeArguments = arguments

    def candidates(self, nodes: Sequence[core_v1.Node]) -> Candidates:
        """Yield pods of any phase that meet every criterion."""
        selects = self._arguments.selects()
        found = []
        for node in nodes:
            for pod in self.snapshot.all_pods_on(node.metadata.name):
                reasons = [*self._reasons(pod)] if selects(pod) and self._arguments.owner_kinds.contain(pod) else [""]
                if all(reasons):
                    found.append(Candidate(pod, ", ".join(reasons)))
        yield from each(sorted(found, key=lambda one: created(one.pod)))

    def _reasons(self, pod: core_v1.Pod) -> Iterator[str]:
        """One per criterion, empty if the pod does not meet it."""
        arguments, now = self._arguments, self.snapshot.now
        if arguments.max_pod_life_time_seconds is not None:
            seconds, limit = int(age(pod, now)), arguments.max_pod_life_time_seconds
            yield f"it is {seconds} s old, more than {limit} s" if seconds > limit else ""
        if arguments.states:
            state = self._state(pod)
            yield f"its state is {state}" if state else ""
        if arguments.conditions:
            yield next((f"its condition {one.type} is {one.status}" for one in self._conditions(pod)), "")
        if arguments.exit_codes:
            statuses = container_statuses(pod, init=arguments.including_init_containers)
            code = next((one for one in exit_codes(statuses) if one in arguments.exit_codes), None)
            yield "" if code is None else f"a container ended with exit code {code}"

    def _state(self, pod: core_v1.Pod) -> str:
        arguments = self._arguments
        statuses = container_statuses(
            pod, init=arguments.including_init_containers, ephemeral=arguments.including_ephemeral_containers
        )
        return first_of((pod.status.phase, pod.status.reason, *state_reasons(statuses)), arguments.states)

    def _conditions(self, pod: core_v1.Pod) -> Iterator[core_v1.PodCondition]:
        for one in pod.status.conditions:
            if any(wanted.matches(one, self.snapshot.now) for wanted in self._arguments.conditions):
                yield one
