"""Scenarios played on both servers, step by step, and the classes into which differences fall."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.testing import transcripts
from bayplan.testing.replay import Player
from tests.differential.api.bodies import Bodies, usable
from tests.differential.api.broken import broken
from tests.differential.api.custom import customs
from tests.differential.api.documents import documents, large_documents
from tests.differential.api.known import neutral, reason_of
from tests.differential.api.policies import policies
from tests.differential.api.reads import reads
from tests.differential.api.steps import Step, Tree, scenario
from tests.differential.api.subresources import subresources
from tests.differential.api.tables import tables
from tests.differential.api.variations import variations
from tests.differential.api.writes import writes
from tests.fuzz.nonsense import Nonsense

TOPICS = ("writes", "reads", "documents", "broken", "custom", "variations", "tables", "policies", "subresources")
_WITHOUT_KIND = {"custom": customs, "policies": policies, "subresources": subresources}
_STEP_SECONDS = 60.0
_TRIES = 4
"""How often a refusal that differs is asked for again: some of kube-apiserver's come in an order of chance."""
_TRIES_OF_FIELDS = 32
_FIELDS = "failed to create typed patch object"
"""In what is said of applied fields, which kube-apiserver looks at from anywhere in each map on, up to the first that is not known."""
_LATE_SECONDS = 0.5
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")


@dataclass
class Class:
    """Differences of one sort."""

    count: int = 0
    kinds: set[str] = field(default_factory=set)
    example: str = ""


@dataclass
class Report:
    """What was compared."""

    steps: int = 0
    differing: int = 0
    known: Counter[str] = field(default_factory=Counter)
    classes: dict[str, Class] = field(default_factory=dict)

    def shown(self) -> str:
        """For people: the largest classes first."""
        rows = sorted(self.classes.items(), key=lambda item: -item[1].count)
        lines = [
            f"{row.count} x {name}\n    kinds: {', '.join(sorted(row.kinds)[:8])}\n{row.example}" for name, row in rows
        ]
        lines += [f"{number} with a reason: {reason}" for reason, number in self.known.most_common()]
        return "\n".join(
            [*lines, f"{self.steps} steps compared, {self.differing} differ in {len(self.classes)} classes"]
        )


def scenarios(seed: int, topics: tuple[str, ...], kinds: tuple[str, ...] = ()) -> Iterator[Tree]:
    """Scenarios without end: each topic in turn, each kind in turn. kinds: plurals of those to be looked at; all of them if there is none."""
    nonsense = Nonsense(seed)
    bodies, chance = Bodies(nonsense), nonsense.chance
    chosen = [kind for kind in DEFAULT_KINDS if usable(kind) and (not kinds or kind.plural in kinds)]
    for number in count():
        topic, kind = topics[number % len(topics)], chosen[number // len(topics) % len(chosen)]
        steps: Iterator[Step] = iter(())
        if topic == "writes":
            steps = writes(bodies, kind)
        elif topic == "reads":
            steps = reads(bodies, kind)
        elif topic == "broken":
            steps = broken(bodies, kind, 40)
        elif topic == "tables":
            steps = tables(bodies, kind)
        elif topic in _WITHOUT_KIND:
            steps = _WITHOUT_KIND[topic](bodies)
        elif topic == "variations":
            steps = variations(bodies, seed + number // len(topics))
        else:
            steps = large_documents() if number < len(topics) else documents(chance, 40)
        title = topic if topic in (*_WITHOUT_KIND, "documents", "variations") else f"{topic} {kind.plural}"
        yield scenario(number, seed, title, steps)


class Comparison:
    """Two servers that are asked the same."""

    def __init__(self, reference: Player, tested: Player, keep: Path | None = None) -> None:
        self._reference, self._tested, self._keep = reference, tested, keep
        self.report = Report()

    async def play(self, wanted: Tree) -> None:
        """Play one scenario until the servers part ways."""
        recorded: list[Step] = []
        self._reference.begin(wanted)
        self._tested.begin(wanted)
        try:
            for step in wanted["steps"]:
                expected, actual = await asyncio.gather(
                    self._step(self._reference, step), self._step(self._tested, step)
                )
                if expected is None or actual is None:
                    continue
                self.report.steps += 1
                recorded.append({**step, "compare": "exact", "expect": expected})
                if found := await self._differences(step, expected, actual):
                    self._note(wanted, recorded, found)
                    if _parts(step, expected, actual):
                        return
        finally:
            await asyncio.gather(self._reference.end(), self._tested.end())

    async def _step(self, player: Player, step: Step) -> dict[str, Any] | None:
        if "sleep" in step:
            await asyncio.sleep(step["sleep"])
            return None
        try:
            async with asyncio.timeout(_STEP_SECONDS):
                return await player.step(step)
        except TimeoutError:
            return {"code": "no answer in time"}
        except aiohttp.ClientError as error:
            return {"code": f"no answer: {type(error).__name__}"}

    async def _differences(self, step: Step, expected: Tree, actual: Tree) -> list[str]:
        found = differences(expected, actual)
        code = expected.get("code")
        if not found or "request" not in step or "watch" in step or not isinstance(code, int) or code < 400:
            return found
        is_late = code == 429  # kube-apiserver has not filled the cache of a new definition yet
        tries = _TRIES_OF_FIELDS if _FIELDS in str(expected.get("body")) else _TRIES
        for _ in range(tries if is_late or code == actual.get("code") else 0):
            if is_late:
                await asyncio.sleep(_LATE_SECONDS)
            again = await self._step(self._reference, step)
            if again is not None and not differences(again, actual):
                return []
        return found

    def _note(self, wanted: Tree, recorded: list[Step], found: list[str]) -> None:
        """Count a difference, and show the first one of its class unless it has a reason."""
        step = recorded[-1]
        request = step.get("request") or {}
        line = f"{request.get('method', 'GET')} {request.get('path', '')}"
        sent = " ".join(json.dumps(request[one]) for one in ("query", "headers", "body", "text") if one in request)
        if reason := reason_of(f"{step['name']}: {line} {sent}", found):
            self.report.known[reason] += 1
            return
        self.report.differing += 1
        name = f"{step['name']}: {_VARYING.sub('~', found[0])[:160]}"
        row = self.report.classes.setdefault(name, Class())
        row.count += 1
        row.kinds.add(wanted["title"])
        if row.count == 1:
            row.example = _example(wanted, step, found)
            print(f"{name}\n{row.example}", flush=True)
            if self._keep is not None:
                kept = {
                    "format": "kube-api-golden/1",
                    "topic": "differential",
                    "scenarios": [{**wanted, "steps": recorded}],
                }
                path = self._keep / f"{len(self.report.classes)}.json"
                path.write_text(json.dumps(kept, indent=1), encoding="utf-8")


def differences(expected: Tree, actual: Tree) -> list[str]:
    """How two answers differ in normal form. Causes are gathered from maps, so that their order in a message is one of chance."""
    one, other = neutral(expected), neutral(actual)
    found = transcripts.differences(one, other)
    if len(found) == 1 and found[0].startswith(".body.message: ") and one["code"] == 422:
        texts = [sorted(each["body"]["message"]) for each in (one, other)]
        return [] if texts[0] == texts[1] else found
    return found


def _parts(step: Step, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    """Whether the servers hold different objects after a step."""
    request = step.get("request") or {}
    if (
        request.get("method") in (None, "GET", "HEAD", "OPTIONS")
        or "dryRun" in (request.get("query") or {})
        or expected.get("code") == actual.get("code")
    ):
        return False
    return any(isinstance(one, int) and one < 400 for one in (expected.get("code"), actual.get("code")))


def _example(wanted: Tree, step: Step, found: list[str]) -> str:
    request = json.dumps(step.get("request", step.get("collect")))
    lines = [
        f"    {wanted['scenario']} {step['id']}: {request[:1500]}",
        *(f"      {_shortened(one)}" for one in found[:5]),
    ]
    return "\n".join(lines)


def _shortened(difference: str) -> str:
    """Of long texts that differ, what stands around the first letter that does."""
    actual, _, expected = difference.partition(" instead of ")
    place, _, actual = actual.partition(": ")
    letters = zip(actual, expected, strict=False)
    at = next((index for index, (one, other) in enumerate(letters) if one != other), 0)
    if len(difference) <= 1200 or not expected:
        return difference[:1200]
    return f"{place}: ...{actual[max(0, at - 200) : at + 300]} instead of ...{expected[max(0, at - 200) : at + 300]}"
