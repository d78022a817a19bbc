"""Kill processes of a group at random under load: `python -m tests.integration.server_group.kills [ROUNDS] [--seed N]`.

Writers count in an object each, every step based on the one before and read again over another connection; a watcher follows all of it and resumes where it was. At
the end every step that was acknowledged was seen once and in order, and no read was older than what had been acknowledged before it.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.server_group.group import FAILURES, MAPS, Connection, Group, config_map, eventually, running

_WRITERS = 6
_NAMES = ("bayplan-api-0", "bayplan-api-1", "bayplan-api-2", "bayplan-store")


class Client:
    """A connection that is made again when it ends."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._connection: Connection | None = None

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]] | None:
        """The answer; None if there was none."""
        try:
            self._connection = self._connection or self._group.connect()
            return self._connection.ask(method, path, body)
        except FAILURES:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return None


class Counter:
    """One writer. `steps` are the values that were acknowledged, or found to be there after an answer was lost."""

    def __init__(self, group: Group, name: str, is_over: Callable[[], bool]) -> None:
        self.name = name
        self.steps = 0
        self.problems: list[str] = []
        self._writer, self._reader = Client(group), Client(group)
        self._is_over = is_over
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        path = f"{MAPS}/{self.name}"
        is_lost = False  # whether the write before has had no answer: it may be made later than the next read
        while self._writer.ask("POST", MAPS, config_map(self.name, step="0")) is None:
            pass
        while not self._is_over():
            found = self._reader.ask("GET", path)
            if found is None:
                continue
            code, current = found
            if code != 200:
                self.problems.append(f"{self.name}: a read was answered with {code}")
                continue
            step = int(current["data"]["step"])
            if step < self.steps:
                self.problems.append(f"{self.name}: read step {step} after {self.steps} was acknowledged")
            self.steps = max(self.steps, step)
            current["data"]["step"] = str(step + 1)
            answer = self._writer.ask("PUT", path, current)
            if answer is not None and answer[0] == 200:
                self.steps = step + 1
            elif answer is not None and not (answer[0] == 409 and is_lost):
                self.problems.append(f"{self.name}: a write was answered with {answer[0]}: {answer[1].get('message')}")
            is_lost = answer is None


class Follower:
    """A watcher of all counters: what it has seen of each, in order."""

    def __init__(self, group: Group, is_over: Callable[[], bool]) -> None:
        self.seen: dict[str, list[int]] = {}
        self.problems: list[str] = []
        self._group = group
        self._is_over = is_over
        found = group.connect().ask("GET", MAPS)[1]
        self._revision: str = found["metadata"]["resourceVersion"]
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self._is_over():
            try:
                connection = self._group.connect()
                path = f"{MAPS}?watch=1&resourceVersion={self._revision}&timeoutSeconds=2"
                response = connection.send("GET", path)
                if response.status != 200:
                    self.problems.append(f"a watch was answered with {response.status}: {response.read().decode()}")
                    continue
                while line := response.readline():
                    self._take(json.loads(line))
                connection.close()
            except (*FAILURES, json.JSONDecodeError):
                continue

    def _take(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            self.problems.append(f"the watch ended: {event['object'].get('message')}")
            return
        metadata = event["object"]["metadata"]
        self._revision = metadata["resourceVersion"]
        if "step" in event["object"].get("data", {}):
            self.seen.setdefault(metadata["name"], []).append(int(event["object"]["data"]["step"]))


def _wait_for_steps(counters: list[Counter], goal: list[int]) -> None:
    eventually(lambda: all(one.steps >= wanted for one, wanted in zip(counters, goal, strict=True)))


def play(rounds: int, seed: int) -> list[str]:
    """Kill so many processes; returns what was wrong."""
    choose = random.Random(seed)
    over = threading.Event()
    watching_is_over = threading.Event()
    with tempfile.TemporaryDirectory() as directory, running(Path(directory), processes=3) as group:
        follower = Follower(group, watching_is_over.is_set)
        counters = [Counter(group, f"counter-{number}", over.is_set) for number in range(_WRITERS)]
        try:
            for _ in range(rounds):
                _wait_for_steps(counters, [one.steps + choose.randint(1, 30) for one in counters])
                name = choose.choice(_NAMES)
                eventually(lambda name=name: group.pid(name) != 0)  # type: ignore[misc]
                group.kill(name)
        finally:
            over.set()
            for one in counters:
                one.thread.join()
        problems = [problem for one in counters for problem in one.problems]

        def has_all() -> bool:
            return all(follower.seen.get(one.name, [0])[-1] >= one.steps for one in counters)

        eventually(has_all)
        watching_is_over.set()
        follower.thread.join()
        problems += follower.problems
        for one in counters:
            if follower.seen[one.name] != list(range(len(follower.seen[one.name]))):
                problems.append(f"{one.name}: the watch saw steps twice, out of order or not at all")
        return problems


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    problems = play(arguments.rounds, arguments.seed)
    print(
        "\n".join(problems)
        or f"{arguments.rounds} processes were killed, and nothing was lost, repeated or out of order"
    )
    raise SystemExit(bool(problems))


if __name__ == "__main__":
    main()
