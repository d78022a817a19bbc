"""Scenarios on both sides at once, and how what comes of them differs."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from tests.differential.controllers.normalizing import Names, objects
from tests.differential.controllers.playing import PATHS, Refused, Side
from tests.differential.controllers.steps import Scenario

_SHOWN_LINES: Final = 40


@dataclass(slots=True)
class Report:
    """What was compared."""

    objects: int = 0
    differing: dict[str, int] = field(default_factory=dict)
    """Object -> the step after which it first differed."""

    def shown(self) -> str:
        """The sum, for people."""
        return f"{self.objects} objects compared, {len(self.differing)} differ"


async def compare(sides: tuple[Side, Side], scenarios: Sequence[Scenario]) -> Report:
    """Play all scenarios beside each other; differences are printed as they are found."""
    report = Report()
    for one in sides:
        for scenario in scenarios:
            await one.create("", {"kind": "Namespace", "metadata": {"name": scenario.name}})
    await asyncio.gather(*(one.settle() for one in sides))
    names = (Names(), Names())
    for number in range(max(len(scenario.steps) for scenario in scenarios)):
        await asyncio.gather(*(_step(one, scenarios, number) for one in sides))
        found = [await _objects(one, known) for one, known in zip(sides, names, strict=True)]
        _compare(found[0], found[1], number + 1, report)
    return report


async def _step(side: Side, scenarios: Sequence[Scenario], number: int) -> None:
    async def act(scenario: Scenario) -> None:
        for action in scenario.steps[number]:
            try:
                await action(side, scenario.name)
            except Refused as refused:
                print(f"{scenario.name}, step {number + 1}: {refused}", flush=True)

    await asyncio.gather(*(act(scenario) for scenario in scenarios if number < len(scenario.steps)))
    await side.settle()


async def _objects(side: Side, names: Names) -> dict[str, list[str]]:
    listed = {kind: await side.all_of(kind) for kind in PATHS}
    names.learn(one for kind, found in listed.items() if kind != "Event" for one in found)
    return {key: trees for kind, found in listed.items() for key, trees in objects(names, kind, found).items()}


def _compare(wanted: dict[str, list[str]], found: dict[str, list[str]], step: int, report: Report) -> None:
    for key in sorted({*wanted, *found}):
        report.objects += 1
        if key in report.differing:
            continue
        lines = [
            line
            for one, other in zip_longest(wanted.get(key, ()), found.get(key, ()), fillvalue="")
            if one != other
            for line in difflib.unified_diff(one.splitlines(), other.splitlines(), lineterm="", n=2)
        ]
        if lines:
            report.differing[key] = step
            print(f"\n{key}, after step {step}:", *lines[2:_SHOWN_LINES], sep="\n  ", flush=True)
