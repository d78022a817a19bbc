"""What simulated images and containers do, and what may go wrong with a simulated runtime: data for `simulated`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.kubelet.runtime.errors import RuntimeRequestError


@dataclass(frozen=True, slots=True)
class Command:
    """How a command ends that is run in a container. seconds: how long it takes; infinite for one that hangs."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0


Commands = Command | Callable[[float], Command]
"""A command's end, or what gives it for the seconds since the container was started."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a container does from its start to its end.

    start_seconds: how long starting takes; run_seconds: how long it runs by itself; stop_seconds: how long it goes on after the stop signal
    (all infinite where it never comes). `reason` is empty for Completed or Error, by the exit code. With `start_error` it does not start.
    `commands` are found by the whole command line, else by its first word; others succeed at once. `cpu_cores` and `memory_bytes` are
    what it uses while it runs.
    """

    start_seconds: float = 0.0
    start_error: str = ""
    run_seconds: float = math.inf
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    stop_seconds: float = 0.0
    stop_exit_code: int = 143
    commands: Mapping[str, Commands] = field(default_factory=dict)
    cpu_cores: float = 0.01
    memory_bytes: int = 16 << 20

    def command(self, line: Sequence[str], running_seconds: float) -> Command:
        """How a command ends."""
        found = self.commands.get(" ".join(line)) or self.commands.get(line[0] if line else "") or Command()
        return found if isinstance(found, Command) else found(running_seconds)


@dataclass(frozen=True, slots=True)
class SimulatedImage:
    """An image of a simulated registry. `programs`: what can be run in it; None for everything."""

    name: str
    size: int = 50_000_000
    pull_seconds: float = 0.5
    programs: frozenset[str] | None = None
    user_id: int | None = None
    username: str = ""
    pinned: bool = False


@dataclass(slots=True)
class Faults:
    """What goes wrong; to be changed while the runtime is used. Methods are named as in `Runtime`, "*" stands for all.

    hanging: calls that get no answer before their time limit. late: seconds by which answers come late; what was asked for happens first.
    errors: what calls fail with. loses_events: events are not told, as if the stream were dead. disk_full: nothing can be pulled or
    created. never_pulled: images whose pull never ends.
    """

    hanging: set[str] = field(default_factory=set)
    late: dict[str, float] = field(default_factory=dict)
    errors: dict[str, RuntimeRequestError] = field(default_factory=dict)
    loses_events: bool = False
    disk_full: bool = False
    never_pulled: set[str] = field(default_factory=set)
