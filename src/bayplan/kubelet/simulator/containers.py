"""What becomes of the containers of a simulated pod: how long they run, how they end and when they are ready, as annotations say.

    bayplan.dev/start-seconds        from binding until containers are made (images pulled, volumes there)
    bayplan.dev/pull-seconds         added to that for each image
    bayplan.dev/init-seconds         how long each init container takes
    bayplan.dev/run-seconds          after which containers end; bayplan.dev/exit-code: with which code, `1@20%`: in a fifth of all cases
    bayplan.dev/oom-seconds          after which they are killed for want of memory
    bayplan.dev/ready                `false` while the readiness probe is to fail; bayplan.dev/ready-seconds: after which it succeeds
    bayplan.dev/live                 `false` while the liveness probe is to fail: the container is killed as its probe says
    bayplan.dev/probes               `follow`: initial delays of startup and readiness probes count
    bayplan.dev/missing-config       `ignore`: containers start without the ConfigMaps and Secrets that do not exist; `wait`: they do not

Each but the last may be followed by `.NAME` for one container. Durations are numbers or distributions (`durations`). A container whose memory-usage annotation is
more than its limit is killed too. Without annotations a container that may end (restartPolicy Never or OnFailure) ends after a while with code 0, unless it sleeps:
`sleep 30` runs for 30 seconds, `sleep infinity` and images that do nothing but wait (pause, and agnhost without a command) for ever; or its command says `false` or
ends in `exit 3`, whatever happens. A command such as `nonexistent` cannot be started. What cannot be read counts as not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from bayplan.api.quantity import value
from bayplan.api.simulated_usage import ANNOTATIONS, breakpoints, container_usage
from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.durations import chance, draw
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import parse_rfc3339

PREFIX = "bayplan.dev/"
START, PULL, INIT = f"{PREFIX}start-seconds", f"{PREFIX}pull-seconds", f"{PREFIX}init-seconds"
RUN, EXIT_CODE, OOM = f"{PREFIX}run-seconds", f"{PREFIX}exit-code", f"{PREFIX}oom-seconds"
READY, READY_AFTER = f"{PREFIX}ready", f"{PREFIX}ready-seconds"
LIVE, PROBES = f"{PREFIX}live", f"{PREFIX}probes"
MISSING_CONFIG = f"{PREFIX}missing-config"
WAIT, IGNORE = "wait", "ignore"
MOMENT = 0.001
"""The least that is waited for: what was started in a step never ends in it."""
KILLED, INTERRUPTED = 137, 143
"""Exit codes of what is killed, and of what obeys SIGTERM."""
OUT_OF_MEMORY = "OOMKilled"
_OOM_SECONDS = 5.0
"""How long a container lives that uses more memory than it may."""
_PERIOD, _FAILURES = 10.0, 3
"""Defaults of probes: seconds between two, and failures after which the container is killed."""
_SLEEP = re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)\b")
_WAITING_IMAGE = re.compile(r"pause|/agnhost(?:[:@]|$)")
"""Images that wait to be stopped unless they are told to do something else."""
_EXIT = re.compile(r"(?:^|[;&\n])\s*exit\s+(\d+)\s*;?\s*$")
_SHELL_OPTION = re.compile("-[a-z]*c")
_FALSE = re.compile(r"(?:/usr)?(?:/bin/)?false")
_CONDITIONAL = re.compile(r"\|\||\b(?:if|case|while|until|for)\b")
_MISSING_COMMAND = re.compile(r"non-?existent|does-?not-?exist|no-?such-|not-?found")
_ENDLESS = re.compile(r"sleep\s+inf|pause|tail\s+-f|while\s+(?:true|:)")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a container ends by itself."""

    seconds: float
    """After its start."""
    code: int = 0
    reason: str = ""
    """"" for what follows from the code."""


def needs_config(pod: core_v1.Pod, settings: SimulatorSettings) -> bool:
    """Whether containers wait for ConfigMaps and Secrets that do not exist, as the pod or else the settings say."""
    said = setting(pod, MISSING_CONFIG)
    return (said if said in (WAIT, IGNORE) else settings.missing_config) == WAIT


def setting(pod: core_v1.Pod, annotation: str, container: str = "") -> str | None:
    """What an annotation says of one container, or of all; None if nothing."""
    annotations = pod.metadata.annotations
    if not annotations:
        return None
    own = annotations.get(f"{annotation}.{container}") if container else None
    return annotations.get(annotation) if own is None else own


def duration(pod: core_v1.Pod, annotation: str, container: str = "", attempt: int = 0) -> float | None:
    """Seconds that an annotation says; None if it says nothing, or nothing that can be read."""
    text = setting(pod, annotation, container)
    if text is None:
        return None
    try:
        return draw(text, chance(pod.metadata.uid, annotation, container, str(attempt)))
    except ValueError:
        return None


def start_seconds(pod: core_v1.Pod, settings: SimulatorSettings, jitter: Callable[[float, float], float]) -> float:
    """How long it takes until the containers of a bound pod are made. A plain number is jittered by half of it."""
    text = setting(pod, START)
    plain = text is None or text.replace(".", "", 1).isdigit()
    drawn = duration(pod, START)
    base = settings.start_seconds if drawn is None else drawn
    pulls = sum(duration(pod, PULL, one.name) or 0.0 for one in (*pod.spec.init_containers, *pod.spec.containers))
    return (jitter(base, 0.5) if plain else base) + pulls


def run_seconds(
    pod: core_v1.Pod, container: core_v1.Container, settings: SimulatorSettings, attempt: int = 0
) -> float | None:
    """How long a container runs; None for ever."""
    annotated = setting(pod, RUN, container.name)
    if annotated is not None:
        found = duration(pod, RUN, container.name, attempt)
        return settings.run_seconds if found is None else found
    if (container.restart_policy or pod.spec.restart_policy) in ("", "Always"):
        return None
    text = " ".join((*container.command, *container.args))
    if _ENDLESS.search(text) or (not text and _WAITING_IMAGE.search(container.image)):
        return None
    match = _SLEEP.search(text)
    return float(match[1]) if match else settings.run_seconds


def parse_exit_code(text: str) -> tuple[int, float]:
    """An exit code and the likelihood of it, of `3` or `3@20%`. Raises ValueError."""
    code, at, part = text.partition("@")
    number = float(code)
    if not number.is_integer():
        raise ValueError(f"{text!r} is no whole number")
    return int(number), float(part.strip().removesuffix("%")) / 100 if at else 1.0


def exit_code(pod: core_v1.Pod, container: core_v1.Container, attempt: int = 0) -> int:
    """The code with which a container ends: `3@20%` in a fifth of all cases, else what its command says."""
    annotated = setting(pod, EXIT_CODE, container.name)
    if annotated is None:
        return said_code(container)
    try:
        number, likely = parse_exit_code(annotated)
    except ValueError:
        return 0
    return number if chance(pod.metadata.uid, EXIT_CODE, container.name, str(attempt)) < likely else 0


def said_code(container: core_v1.Container) -> int:
    """The code that a command without alternatives ends with: that of the last `exit N` of `sh -c`, 1 of `false`, else 0."""
    words = (*container.command, *container.args)
    if len(words) == 1 and _FALSE.fullmatch(words[0]):
        return 1
    script = words[-1] if len(words) > 2 and _SHELL_OPTION.fullmatch(words[-2]) else ""
    match = _EXIT.search(script)
    return int(match[1]) & 255 if match and not _CONDITIONAL.search(script) else 0


def ending(
    pod: core_v1.Pod, container: core_v1.Container, settings: SimulatorSettings, attempt: int = 0
) -> Ending | None:
    """How a running container ends by itself, whatever comes first; None if it does not. `attempt`: how often it was started before."""
    name, found = container.name, []
    if (seconds := run_seconds(pod, container, settings, attempt)) is not None:
        found.append(Ending(seconds, exit_code(pod, container, attempt)))
    if (seconds := duration(pod, OOM, name, attempt)) is not None or (
        seconds := outgrows_after(pod, container)
    ) is not None:
        found.append(Ending(seconds, KILLED, OUT_OF_MEMORY))
    return min(found, key=lambda one: one.seconds, default=None)


def init_ending(pod: core_v1.Pod, container: core_v1.Container, attempt: int = 0) -> Ending:
    """How an init container ends that is no sidecar: at once, unless an annotation says otherwise."""
    seconds = duration(pod, INIT, container.name, attempt) or 0.0
    named = f"{EXIT_CODE}.{container.name}" in pod.metadata.annotations  # one for all is about the containers that run
    return Ending(seconds, exit_code(pod, container, attempt) if named else said_code(container))


def liveness_lost_after(pod: core_v1.Pod, container: core_v1.Container) -> float | None:
    """Seconds after its start when the liveness probe of a container has failed as often as it may; None if it is not made to fail."""
    probe = container.liveness_probe
    if probe is None or (setting(pod, LIVE, container.name) or "").lower() != "false":
        return None
    patience = (probe.period_seconds or _PERIOD) * (probe.failure_threshold or _FAILURES)
    return probe.initial_delay_seconds + patience


def stop_code(pod: core_v1.Pod, container: core_v1.Container) -> int:
    """The exit code of a container that is stopped: a server has done its work then, a task has not."""
    policy = container.restart_policy or pod.spec.restart_policy
    return 0 if policy in ("", "Always") else INTERRUPTED


def is_missing_command(container: core_v1.Container | core_v1.EphemeralContainer) -> bool:
    """Whether the command of a container has a name that says that it does not exist."""
    return bool(container.command) and _MISSING_COMMAND.search(container.command[0]) is not None


def outgrows_after(pod: core_v1.Pod, container: core_v1.Container) -> float | None:
    """Seconds after its start when a container uses more memory, at least some of the time, than its limit; None if it never does."""
    limit = container.resources.limits.get("memory")
    if limit is None or not any(name.startswith(ANNOTATIONS["memory"]) for name in pod.metadata.annotations):
        return None
    most, name = value(limit), container.name
    began = next((one.state.running for one in pod.status.container_statuses if one.name == name), None)
    start = parse_rfc3339(began.started_at) if began is not None and began.started_at else 0.0

    def used(age: float) -> int:
        usage = container_usage(pod, lambda: 1.0, start + age).get(name)
        return usage["memory"].value() if usage is not None else 0

    before, was = 0.0, used(0.0)
    if was > most:
        return _OOM_SECONDS
    for age in breakpoints(pod, "memory", name):
        now = used(age)
        if now > most:
            return before + (age - before) * (most - was) / (now - was)
        before, was = age, now
    return None


def ready_after(pod: core_v1.Pod, container: core_v1.Container, attempt: int = 0) -> float:
    """Seconds after its start in which a container is not ready yet."""
    annotated = duration(pod, READY_AFTER, container.name, attempt)
    if annotated is not None:
        return annotated
    if setting(pod, PROBES, container.name) != "follow":
        return 0.0
    probes = (container.startup_probe, container.readiness_probe)
    return float(sum(one.initial_delay_seconds for one in probes if one is not None))


def started_after(pod: core_v1.Pod, container: core_v1.Container) -> float:
    """Seconds after its start in which the startup probe of a container has not succeeded yet."""
    if container.startup_probe is None or setting(pod, PROBES, container.name) != "follow":
        return 0.0
    return float(container.startup_probe.initial_delay_seconds)


def may_be_ready(pod: core_v1.Pod, container: str) -> bool:
    """Whether the readiness probe of a container is not made to fail."""
    return (setting(pod, READY, container) or "true").lower() != "false"


def is_plain(pod: core_v1.Pod) -> bool:
    """A cheap look that finds most pods of servers: nothing ever happens to them by itself."""
    return pod.spec.restart_policy in ("", "Always") and not says_anything(pod)


def says_anything(pod: core_v1.Pod) -> bool:
    """Whether a pod has annotations about its behaviour."""
    annotations = pod.metadata.annotations
    return bool(annotations) and any(name.startswith(PREFIX) for name in annotations)
