"""Who answers for the containers of simulated pods, which run no programs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol

from bayplan.api.pods.container_logs import LogOptions
from bayplan.api.quantity import Quantity
from bayplan.api.types import core_v1
from bayplan.streaming.interface import Duplex, Run

Usage = dict[str, dict[str, Quantity]]
"""Container -> resource -> amount."""


class PodAnswers(Protocol):
    """What users want simulated pods to answer. None where they say nothing."""

    def log(
        self, pod: core_v1.Pod, container: str, options: LogOptions, runs: Callable[[], bool]
    ) -> AsyncIterator[bytes] | None:
        """A container's log, piece by piece. runs: whether the container still does. Raises StreamError if there is none."""

    def command(self, pod: core_v1.Pod, container: str, command: Sequence[str], *, tty: bool) -> Run | None:
        """What runs a command in a container."""

    def attach(self, pod: core_v1.Pod, container: str, runs: Callable[[], bool]) -> Run | None:
        """What those see who attach to a container. Raises StreamError if there is nothing."""

    def connects(self, pod: core_v1.Pod) -> bool:
        """Whether anything answers at any port."""

    async def connect(self, pod: core_v1.Pod, port: int) -> Duplex:
        """Connect to a port. Raises StreamError."""

    def page(
        self,
        path: str,
        node: core_v1.Node,
        pods: Callable[[], Iterable[core_v1.Pod]],
        usage: Callable[[core_v1.Pod], Usage],
        now: float,
        chance: Callable[[], float],
    ) -> bytes | None:
        """A page of metrics of a node; None if it has none there. pods: those of the node; usage: what the containers of one use."""

    def usage(self, pod: core_v1.Pod, node: core_v1.Node, now: float, chance: Callable[[], float]) -> Usage:
        """What containers use that users say something of: container -> resource -> amount. now: unix seconds; chance gives numbers in [0, 1)."""
