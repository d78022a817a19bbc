"""What checks are made of: a violation, its wording, and a walk over a pod's containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from bayplan.api.types import core_v1

AnyContainer = core_v1.Container | core_v1.EphemeralContainer


class Violation(NamedTuple):
    """Why a pod is not allowed."""

    reason: str
    """In general, such as `host namespaces`."""
    detail: str
    """In this pod, such as `hostPID=true`."""

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


class Subject(NamedTuple):
    """The pod that is looked at, or the template of one."""

    spec: core_v1.PodSpec
    annotations: Mapping[str, str]

    def containers(self) -> Iterable[AnyContainer]:
        """All containers of all kinds."""
        yield from self.spec.init_containers
        yield from self.spec.containers
        yield from self.spec.ephemeral_containers

    def names(self, wrong: Callable[[AnyContainer], bool]) -> list[str]:
        """Names of the containers for which something is wrong."""
        return [container.name for container in self.containers() if wrong(container)]

    @property
    def is_windows(self) -> bool:
        """Whether the pod says that it is for Windows."""
        return self.spec.os is not None and self.spec.os.name == "windows"

    @property
    def has_own_users(self) -> bool:
        """Whether users in the pod are not those of the node."""
        return self.spec.host_users is False


def plural(count: int, word: str) -> str:
    """A word with an s unless there is one of it."""
    return word if count == 1 else word + "s"


def quoted(names: Iterable[str]) -> str:
    """`"a", "b"`."""
    return ", ".join(f'"{name}"' for name in names)


def containers_named(names: Sequence[str]) -> str:
    """`container "a"` or `containers "a", "b"`."""
    return f"{plural(len(names), 'container')} {quoted(names)}"


def setters(pod: bool, names: Sequence[str]) -> str:
    """`pod and container "a"`: who sets what may not be set; "" for nobody."""
    parts = ["pod"] if pod else []
    if names:
        parts.append(containers_named(names))
    return " and ".join(parts)
