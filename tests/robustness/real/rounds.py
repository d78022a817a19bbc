"""Rounds of load and faults on one installation. Each starts with none of the objects, and is checked by itself."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bayplan.store.etcd.errors import EtcdError
from tests.robustness.checks import Truth, problems_of, shared_problems
from tests.robustness.clients import Client, Informer, prepare
from tests.robustness.history import DONE, PATH, SECRETS, SERVICES, History, changes_of
from tests.robustness.outcome import Outcome, unhealed
from tests.robustness.real.clients import Observer, RealApi, apis_of
from tests.robustness.real.faults import Faults
from tests.robustness.real.installation import Installation

_HEALING_SECONDS: Final = 90.0
_LONGEST_PAUSE: Final = 10.0
"""Seconds after which a write is acknowledged again at the latest when one of the six was killed."""
_PREFIX: Final = b"/registry/"


async def run_rounds(rounds: int, seconds: float, seed: int, kinds: tuple[str, ...], directory: Path) -> Outcome:
    """The sum of so many rounds, to the first with problems, which are printed. seconds: of load and faults per round. seed: of the first one."""
    began = time.monotonic()
    installation = await asyncio.to_thread(Installation, directory)
    print(f"installed in {time.monotonic() - began:.1f} s", flush=True)
    total, pauses, played = Outcome(seed), [], 0
    async with apis_of([server.url for server in installation.servers]) as apis:
        for number in range(seed, seed + rounds):
            outcome, paused = await one_round(installation, apis, number, seconds, kinds)
            total.add(outcome)
            played += 1
            pauses += paused
            print(
                f"round {number}: {outcome}, {len(outcome.problems)} problems",
                *outcome.problems[:5],
                sep="\n    ",
                flush=True,
            )
            if outcome.problems:
                print(*outcome.faults, sep="\n        ", flush=True)
                break  # the next round would begin where this one has not ended
    pauses.sort()
    print(f"{played} rounds, {len(total.problems)} problems: {total}")
    if pauses:
        middle, longest = pauses[len(pauses) // 2], pauses[-1]
        print(f"after {len(pauses)} kills writes paused for {middle:.2f} s in the middle, {longest:.2f} s at most")
    return total


async def one_round(
    installation: Installation, apis: Sequence[RealApi], seed: int, seconds: float, kinds: tuple[str, ...]
) -> tuple[Outcome, list[float]]:
    """What came of it, and how long writes paused after each kill that found all others well."""
    await _remove_all(apis)
    loop, chance, history = asyncio.get_running_loop(), random.Random(seed), History()
    outcome, pauses = Outcome(seed), []
    observer = Observer([member.endpoint for member in installation.members])
    informers = [Informer(f"i{number}", apis, history, random.Random(f"{seed} i{number}")) for number in range(3)]
    watching: list[asyncio.Task[None]] = []
    try:
        await observer.start(_PREFIX)
        await prepare(apis[0])
        watching = [loop.create_task(informer.run()) for informer in informers]
        names = [f"object-{number}" for number in range(chance.randint(2, 8))]
        clients = [
            Client(f"c{number}", apis, history, random.Random(f"{seed} {number}"), names, 0.05) for number in range(5)
        ]
        faults = Faults(installation, observer, chance, kinds)
        try:
            await asyncio.gather(faults.run(seconds), *(client.run(seconds) for client in clients))
        finally:
            outcome.faults = faults.log
        pauses = _pauses(history, faults)
        outcome.problems += await unhealed(apis, history, informers, _HEALING_SECONDS)
        await _know_all(observer, history, outcome)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await observer.close()
    outcome.problems += problems_of(history, Truth(changes_of(observer.changes)))
    outcome.problems += shared_problems(observer.changes)
    outcome.problems += installation.tracebacks()
    outcome.problems += [f"writes paused for {pause:.1f} s after a kill" for pause in pauses if pause > _LONGEST_PAUSE]
    outcome.count(history, len(informers))
    return outcome, pauses


async def _remove_all(apis: Sequence[RealApi]) -> None:
    """Delete what the last round has made, and wait until every server shows none of it."""
    services = (await apis[0].request("GET", SERVICES, {}))[1].get("items", ())
    paths = [PATH, SECRETS, *(f"{SERVICES}/{each['metadata']['name']}" for each in services)]
    for path in paths:
        code, answer = await apis[0].request("DELETE", path, {})
        assert code in (200, 404), (path, code, answer)
    for api in apis:
        for path in (PATH, SECRETS, SERVICES):
            assert (await api.request("GET", path, {}))[1]["items"] == []


async def _know_all(observer: Observer, history: History, outcome: Outcome) -> None:
    """Wait until the observer knows what the last write has done."""
    last = max(write.revision for write in history.writes)
    try:
        async with asyncio.timeout(_HEALING_SECONDS):
            await observer.reached(last)
    except (TimeoutError, EtcdError) as error:
        outcome.problems.append(f"what is true is known up to {observer.revision} only, not to {last}: {error!r}")


def _pauses(history: History, faults: Faults) -> list[float]:
    """Seconds from each kill to the next acknowledged write of one that began after it; kills after which something else failed first are left out."""
    done = sorted((write.started, write.ended) for write in history.writes if write.outcome == DONE)
    found = []
    for killed, other, _ in faults.kills:
        later = done[bisect_right(done, (killed, float("inf"))) :]
        with contextlib.suppress(ValueError):
            first = min(ended for _, ended in later)
            if first < other:
                found.append(first - killed)
    return found
