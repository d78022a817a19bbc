"""What a scenario's file says, and the files that there are."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

ORDER: Final = (
    "list-watch",
    "scheduling",
    "affinity",
    "taints",
    "spreading",
    "preemption",
    "rollout",
    "node-failure",
)
"""The scenarios, as a reader takes them one after the other."""


class LessonError(Exception):
    """A scenario that cannot be read or played; the message names file, step and what is wrong."""


class CodePlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class, function or method of the package."""

    file: str
    """Path below the package `bayplan`."""
    symbol: str
    """`function`, `Class` or `Class.method`."""


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object, and how it is changed."""

    kind: str
    name: str
    """With a `*`: the first object of that kind whose name fits."""
    namespace: str = "default"
    """Without meaning for kinds that have none."""
    body: dict[str, Any] = {}
    """A strategic merge patch."""


class Act(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the reader does to the cluster; exactly one of the fields below `command` is given."""

    command: str = ""
    """The same as a command, for people."""
    apply: str = ""
    """Manifests in YAML."""
    patch: Target | None = None
    delete: Target | None = None
    wait: float = 0.0
    """Virtual seconds."""


class Sight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which write a step tells of: the first, or the `count`-th, after that of the step before that fits all that is given."""

    kind: str
    verb: Literal["create", "update", "delete"]
    actor: str = ""
    """The component that writes, as traces name it."""
    name: str = ""
    """A pattern of names, as of files."""
    path: str = ""
    """A field that changes, as differences write paths; a pattern as well."""
    value: Any = None
    """What that field becomes."""
    reason: str = ""
    """Of an event."""
    count: int = 1


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step: what the reader does, or what is then seen, or both; a step with neither tells more of the one before."""

    title: str
    text: str
    code: tuple[CodePlace, ...] = ()
    do: Act | None = None
    see: Sight | None = None


class Lesson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario."""

    title: str
    summary: str
    """One sentence for the list."""
    goal: str
    """What the reader knows at the end."""
    steps: tuple[Step, ...]
    nodes: int = 3
    zones: int = 3
    cpu: str = "4"
    """Processors of each node."""
    before: tuple[Act, ...] = ()
    """What is done before the scenario begins; it is not shown."""


def read_lesson(name: str) -> Lesson:
    """The scenario of a name. Raises LessonError."""
    if name not in ORDER:
        raise LessonError(f"there is no scenario {name[:60]!r}; there are {', '.join(ORDER)}")
    return parse_lesson(files(__package__).joinpath("scenarios", f"{name}.yaml").read_text(encoding="utf-8"), name)


def parse_lesson(text: str, name: str) -> Lesson:
    """A scenario of the text of a file. Raises LessonError."""
    import yaml

    try:
        return msgspec.convert(yaml.safe_load(text), Lesson)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise LessonError(f"{name}.yaml: {error}") from error
