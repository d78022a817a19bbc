"""One step of a simulated pod by the kubelet's own rules: what the runtime has, what is due by now, what the core wants done, the status after that.

    remembered -> endings that are due -> compute_pod_actions -> carried out here -> ... until nothing is left to do now -> generate_pod_status

Nothing outlives a step: the pod's status is all that the simulated runtime remembers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayplan.api.types import core_v1
from bayplan.kubelet.core.actions import compute_pod_actions
from bayplan.kubelet.core.conditions import all_containers_restarting
from bayplan.kubelet.core.containers.states import StartFailure, restart_count
from bayplan.kubelet.core.plan import Health, Kill, KillReason, PodActions, ProbeVerdicts
from bayplan.kubelet.core.pod_status import Failure, ProbeView
from bayplan.kubelet.core.restarts import ALL_CONTAINERS_RESTARTING, AnyContainer, is_sidecar
from bayplan.kubelet.pods.deadlines import deadline_failure, seconds_left
from bayplan.kubelet.runtime.types import ContainerStatus
from bayplan.kubelet.simulator.allocation import resources_of
from bayplan.kubelet.simulator.containers import (
    KILLED,
    MOMENT,
    OUT_OF_MEMORY,
    Ending,
    ending,
    init_ending,
    liveness_lost_after,
    may_be_ready,
    ready_after,
    started_after,
    stop_code,
)
from bayplan.kubelet.simulator.events import NORMAL, WARNING, Told, about_start, about_stop
from bayplan.kubelet.simulator.references import Surroundings
from bayplan.kubelet.simulator.runtime_memory import remembered
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.starting import RUN_ERROR, command_error, refusal_of
from bayplan.support.timestamps import parse_rfc3339

_RESTART_SECONDS = 1.0
"""From the moment that all containers have been removed until they start again."""
_FIRST_MOUNT_RETRY, _LONGEST_MOUNT_RETRY = 0.5, 122.0
_START_ERROR, _START_ERROR_CODE = "StartError", 128
_NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod is."""

    host_ip: str
    pod_ip: str


class PodSync:
    """See the module. After `run`, `runtime`, `failures` and the rest say how the pod is."""

    def __init__(
        self, pod: core_v1.Pod, now: float, settings: SimulatorSettings, place: Place, around: Surroundings
    ) -> None:
        self.resources = resources_of(pod, now, settings.resize_seconds, around)
        self.pod = self.resources.pod
        self.now = now
        self.runtime = remembered(self.pod, place.pod_ip)
        self.failures: dict[str, StartFailure] = {}
        self.told: list[Told] = list(self.resources.told)
        self.failure: Failure | None = around.eviction
        """Why the pod fails as a whole."""
        self.disruption = (around.disruption or around.eviction.message) if around.eviction is not None else ""
        """What the condition DisruptionTarget says; empty for a pod that its node does not get rid of."""
        self.resized: set[str] = set()
        """Containers whose limits have changed in this step."""
        self._settings = settings
        self._place = place
        self._around = around
        self._started: set[str] = set()
        self._replaced: set[str] = set()
        """Containers that were stopped in order to start again."""
        self._waits: list[float] = [] if self.resources.wait is None else [self.resources.wait]
        self._specs: dict[str, AnyContainer] = {one.name: one for one in self._all()}

    def run(self) -> None:
        """Let everything happen that is due now."""
        if self.failure is None and (over := deadline_failure(self.pod, self.pod.status.start_time, self.now)):
            self.failure = over
            self.told.append(Told(NORMAL, over.reason, over.message))
        if self.failure is not None:
            self.stop()
            return
        for _ in range(3 * len(self._specs) + 3):
            self._let_end()
            if not self._carry_out(self._actions()):
                return

    def stop(self) -> None:
        """End all containers, then the sandbox."""
        for name in list(self.runtime.newest):
            if self.runtime.running(name) is not None:
                self.told.append(about_stop(name))
                code = KILLED if self.disruption else self._stop_code(name)  # an eviction leaves a second to obey
                self._end(name, code, "")
        self.runtime.is_stopped = True

    def wait(self) -> float | None:
        """Seconds until something else is due; None if nothing is."""
        waits = list(self._waits)
        if (left := seconds_left(self.pod, self.pod.status.start_time, self.now)) is not None:
            waits.append(left)
        for container, found in self._running():
            since = found.started_at / _NANOSECONDS - self.now
            plan = self._plan_of_end(container, found)
            lost = liveness_lost_after(self.pod, container)
            waits += [max(since + one, MOMENT) for one in (plan.seconds if plan else None, lost) if one is not None]
            delays = (ready_after(self.pod, container, restart_count(found)), started_after(self.pod, container))
            waits += [since + one for one in delays if since + one > 0]
        return max(min(waits), MOMENT) if waits else None

    def probes(self) -> ProbeView:
        """What probes say of containers now."""

        def started(name: str, _: str) -> bool:
            container, found = self._specs[name], self.runtime.running(name)
            if found is None or not isinstance(container, core_v1.Container):
                return found is not None
            return self._age(found) >= started_after(self.pod, container)

        def ready(name: str, _: str) -> bool:
            container, found = self._specs[name], self.runtime.running(name)
            if found is None or not isinstance(container, core_v1.Container):
                return False
            due = ready_after(self.pod, container, restart_count(found))
            return self._age(found) >= due and may_be_ready(self.pod, name)

        return ProbeView(started, ready)

    # What is due

    def _all(self) -> Iterator[AnyContainer]:
        spec = self.pod.spec
        yield from spec.init_containers
        yield from spec.containers
        yield from spec.ephemeral_containers

    def _running(self) -> Iterator[tuple[core_v1.Container, ContainerStatus]]:
        for container in (*self.pod.spec.init_containers, *self.pod.spec.containers):
            found = self.runtime.running(container.name)
            if found is not None:
                yield container, found

    def _is_init(self, container: core_v1.Container) -> bool:
        return not is_sidecar(container) and any(one is container for one in self.pod.spec.init_containers)

    def _age(self, found: ContainerStatus) -> float:
        return self.now - found.started_at / _NANOSECONDS

    def _plan_of_end(self, container: core_v1.Container, found: ContainerStatus) -> Ending | None:
        if self._is_init(container):
            return init_ending(self.pod, container, restart_count(found))
        return ending(self.pod, container, self._settings, restart_count(found))

    def _let_end(self) -> None:
        """Containers end whose time has come; those that were started in this step go on, unless they only prepare the pod."""
        for container, found in tuple(self._running()):
            if container.name in self._started and not self._is_init(container):
                continue
            plan = self._plan_of_end(container, found)
            if plan is not None and plan.seconds <= self._age(found):
                self._end(container.name, plan.code, plan.reason)

    def _end(self, name: str, code: int, reason: str) -> None:
        self.runtime.end(name, code, reason, self.now)
        if reason == OUT_OF_MEMORY:
            text = f"Memory cgroup out of memory: Killed process of container {name}"
            self.told.append(Told(WARNING, "OOMKilling", text, name))

    def _stop_code(self, name: str) -> int:
        container = self._specs.get(name)
        return stop_code(self.pod, container) if isinstance(container, core_v1.Container) else KILLED

    def _verdicts(self) -> ProbeVerdicts:
        liveness: dict[str, Health] = {}
        startup: dict[str, Health] = {}
        for container, found in self._running():
            lost = liveness_lost_after(self.pod, container)
            if lost is not None and lost <= self._age(found) and container.name not in self._started:
                liveness[found.container.id] = Health.FAILURE
            if container.startup_probe is not None and started_after(self.pod, container) <= self._age(found):
                startup[found.container.id] = Health.SUCCESS
        return ProbeVerdicts(liveness, startup)

    # What is to be done

    def _actions(self) -> PodActions:
        state, before = self.runtime.state(self.now), self.pod.status
        restarting = all_containers_restarting(self.pod, before, state, before.phase)
        return compute_pod_actions(
            self.pod,
            state,
            self._verdicts(),
            actuated=self.resources.actuated,
            restart_all=restarting is not None and restarting.status == "True",
        )

    def _carry_out(self, actions: PodActions) -> bool:
        """Do it; whether that may have made more due."""
        if actions.resets:
            self._reset(actions)
            return False
        if actions.kill_pod and not actions.create_sandbox:
            self.stop()
            return False
        if actions.create_sandbox:
            if self._around.found.mount_errors:
                self._wait_for_volumes()
                return False
            self.runtime.make_sandbox((self._place.pod_ip,))
        for kill in actions.kills.values():
            self._kill(kill)
        for updates in actions.resize.updates.values():
            self.resized.update(one.container.name for one in updates)
        return self._start_all(actions) and bool(self.pod.spec.init_containers or self.pod.spec.ephemeral_containers)

    def _reset(self, actions: PodActions) -> None:
        """All containers are removed, to start anew, once the status says so."""
        if not any(
            one.type == ALL_CONTAINERS_RESTARTING and one.status == "True" for one in self.pod.status.conditions
        ):
            self._waits.append(MOMENT)
            return
        for reset in actions.resets:
            if reset.kill:
                self.told.append(Told(NORMAL, "Killing", "killing", reset.name))
            self.runtime.remove(reset.name)
        self._waits.append(_RESTART_SECONDS)

    def _wait_for_volumes(self) -> None:
        """Volumes that could not be mounted are tried again after pauses that grow with the time since the pod came."""
        self.told += [Told(WARNING, "FailedMount", text) for text in self._around.found.mount_errors]
        start = self.pod.status.start_time
        passed, pause = self.now - (parse_rfc3339(start) if start else self.now), _FIRST_MOUNT_RETRY
        while passed >= pause and pause < _LONGEST_MOUNT_RETRY:
            passed, pause = passed - pause, min(pause * 2, _LONGEST_MOUNT_RETRY)
        self._waits.append(pause)

    def _kill(self, kill: Kill) -> None:
        probes = {KillReason.LIVENESS: "Liveness", KillReason.STARTUP: "Startup"}
        probe = probes.get(kill.reason)
        if probe is not None:
            text = f"{probe} probe failed: the annotation says so"
            self.told.append(Told(WARNING, "Unhealthy", text, kill.name))
        else:
            self._replaced.add(kill.name)
        self.told.append(Told(NORMAL, "Killing", kill.message, kill.name))
        obeys = probe is None and not self.resources.is_due
        self._end(kill.name, self._stop_code(kill.name) if obeys else KILLED, "" if obeys else "Error")

    def _start_all(self, actions: PodActions) -> bool:
        """Start containers in the order in which a kubelet does; whether any was started."""
        spec, found = self.pod.spec, False
        for index in actions.ephemeral_containers:
            found |= self._try_start(spec.ephemeral_containers[index])
        for index in actions.init_containers:
            container = spec.init_containers[index]
            if self._try_start(container):
                found = True
            elif not is_sidecar(container):
                return found
        for index in actions.containers:
            found |= self._try_start(spec.containers[index])
        return found

    def _try_start(self, container: AnyContainer) -> bool:
        name = container.name
        if name in self.failures:
            return False
        without_pause = name in self._replaced
        refused = refusal_of(self.runtime, container, self.now, self._around, without_pause=without_pause)
        if refused is not None:
            self.failures[name] = refused.failure
            self.told += refused.told
            if refused.wait is not None:
                self._waits.append(refused.wait)
            return False
        self.runtime.start(container, self.now)
        self._started.add(name)
        if isinstance(container, core_v1.Container):
            self.resources.actuated.containers[name] = container.resources
        pulled, created, started = about_start(name, container.image)
        self.told += (pulled, created)
        if text := command_error(container):
            self.runtime.end(name, _START_ERROR_CODE, _START_ERROR, self.now, text)
            self.told.append(Told(WARNING, "Failed", f"Error: {text}", name))
            self.failures[name] = StartFailure(RUN_ERROR, text)
            self._waits.append(_RESTART_SECONDS)
            return False
        self.told.append(started)
        return True
