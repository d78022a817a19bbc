"""What comes of a run, and the end that virtual and real ones share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.robustness.clients import Api, Client, Informer
from tests.robustness.history import History


@dataclass(slots=True)
class Outcome:
    """What came of one run."""

    seed: int
    problems: list[str] = field(default_factory=list)
    writes: int = 0
    unknown: int = 0
    """Writes without an answer."""
    reads: int = 0
    events: int = 0
    relists: int = 0
    faults: list[str] = field(default_factory=list)

    def count(self, history: History, informers: int) -> None:
        """Note how much was done. informers: how many there were."""
        self.writes, self.reads = len(history.writes), len(history.reads)
        self.unknown = sum(write.outcome == "unknown" for write in history.writes)
        self.events = sum(len(session.events) for session in history.sessions)
        self.relists = len(history.sessions) - informers

    def add(self, other: Outcome) -> None:
        """Add up."""
        for each in ("writes", "unknown", "reads", "events", "relists"):
            setattr(self, each, getattr(self, each) + getattr(other, each))
        self.problems += other.problems
        self.faults += other.faults

    def __str__(self) -> str:
        return (
            f"{len(self.faults)} faults, {self.writes} writes ({self.unknown} without an answer), {self.reads} reads, "
            f"{self.events} events of watches, {self.relists} lists anew"
        )


async def unhealed(apis: Sequence[Api], history: History, informers: Sequence[Informer], seconds: float) -> list[str]:
    """Wait until each server writes and reads, and informers have heard of everything. What does not come true in time is a problem."""
    probes = [
        Client(f"probe-{number}", [api], history, random.Random(number), (), 1.0) for number, api in enumerate(apis)
    ]
    try:
        async with asyncio.timeout(seconds):
            for probe in probes:
                await probe.prove()
            for informer in informers:
                await informer.reached(max(probe.newest for probe in probes))
    except TimeoutError:
        written = [probe.newest for probe in probes]
        told = [informer.revision for informer in informers]
        return [
            f"{seconds:.0f} s after the last fault not all is well: written by each server at {written}, told {told}"
        ]
    return []
