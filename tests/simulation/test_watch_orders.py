"""Watches that lag, each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.types import core_v1, meta_v1
from bayplan.simulation.faults.watch_orders import LONGEST, LaggingTransport
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run

pytest_plugins = ["pytester"]


class _Source:
    """A transport whose watches have given batches, then end."""

    def __init__(self, batches: list[list[int]]) -> None:
        self.batches = batches
        self.is_closed = False

    async def request(
        self, method: str, path: str, query: Mapping[str, str], body: bytes = b"", content_type: str = ""
    ) -> bytes:
        return f"{method} {path}".encode()

    async def watch(self, *_: Any) -> Any:
        left = list(self.batches)

        class Watch:
            async def next_batch(self) -> Sequence[tuple[str, Any]]:
                return [("ADDED", number) for number in left.pop(0)] if left else []

            def close(watch: Any) -> None:
                self.is_closed = True

        return Watch()

    async def close(self) -> None:
        """Nothing is open."""


@given(batches=st.lists(st.lists(st.integers(), min_size=1, max_size=5), max_size=5), seed=st.integers(0, 1000))
def test_events_stay_in_their_order_and_all_come(batches: list[list[int]], seed: int) -> None:
    async def read() -> None:
        source, clock = _Source(batches), LoopClock(0.0)
        transport = LaggingTransport(source, clock, SeededRandomness(str(seed)))  # type: ignore[arg-type]
        watch = await transport.watch(None, "", {}, None)  # type: ignore[arg-type]
        seen: list[tuple[str, Any]] = []
        while batch := await watch.next_batch():
            seen += batch
        assert seen == [("ADDED", number) for batch in batches for number in batch]
        assert clock.monotonic() <= LONGEST * sum(map(len, batches))
        watch.close()
        assert source.is_closed
        assert await transport.request("GET", "/x", {}) == b"GET /x"

    run(read())


async def _seen(order: int | None) -> list[str]:
    """In which order a client hears of objects of two kinds that are made in turn."""
    async with VirtualCluster(nodes=0) as cluster:
        if order is not None:
            cluster.permute(order)
        client, seen = cluster.connect("operator"), []
        watches = [await client.watch(kind, "default") for kind in (core_v1.ConfigMap, core_v1.Secret)]

        async def follow(watch: Any) -> None:
            async for event in watch:
                name = event.object.metadata.name
                seen.extend([f"{type(event.object).__name__} {name}"] if name.startswith("x-") else [])

        tasks = [asyncio.create_task(follow(watch)) for watch in watches]
        for number in range(3):
            metadata = meta_v1.ObjectMeta(name=f"x-{number}", namespace="default")
            await cluster.client.create(core_v1.Secret(metadata=metadata))
            await cluster.client.create(core_v1.ConfigMap(metadata=metadata))
        await cluster.advance(seconds=60)
        for task in tasks:
            task.cancel()
        return seen


def test_seeds_give_orders_of_their_own_that_can_be_had_again() -> None:
    orders = [tuple(run(_seen(seed))) for seed in range(12)]
    assert len(set(orders)) > 4
    assert orders[3] == tuple(run(_seen(3)))
    usual = run(_seen(None))
    for order in orders:
        assert sorted(order) == sorted(usual)
        for kind in ("Secret", "ConfigMap"):
            assert [each for each in order if each.startswith(kind)] == [f"{kind} x-{number}" for number in range(3)]


OPERATOR = """
import pytest
from bayplan.api.types import core_v1, meta_v1
from bayplan.informers import Handler, InformerFactory
from bayplan.support.randomness import SeededRandomness


class Greeter(Handler):
    '''Greets by name as the ConfigMap `who` comes, with a word that the Secret `word` has. If it is careful, also as the Secret comes.'''

    def __init__(self, factory):
        self.words = factory.informer(core_v1.Secret)
        self.names = factory.informer(core_v1.ConfigMap)
        self.names.add_handler(self)
        if CAREFUL:
            self.words.add_handler(self)
        self.said = []

    def on_add(self, obj):
        word, name = self.words.cache.get("default", "word"), self.names.cache.get("default", "who")
        if obj.metadata.name in ("who", "word") and name is not None:
            self.said.append("nothing to say" if word is None else "hello")


@pytest.mark.bayplan(nodes=0, orders=20)
async def test_greeting(bayplan_sim):
    factory = InformerFactory(bayplan_sim.connect("greeter"), bayplan_sim.clock, SeededRandomness("x"))
    greeter = Greeter(factory)
    factory.start()
    await factory.wait_for_sync()
    for made in (core_v1.Secret(metadata=meta_v1.ObjectMeta(name="word", namespace="default")),
                 core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="who", namespace="default"))):
        await bayplan_sim.client.create(made)
    await bayplan_sim.advance(seconds=30)
    await factory.stop()
    assert greeter.said[-1] == "hello"
"""


@pytest.mark.parametrize("careful", [False, True])
def test_an_operator_that_counts_on_an_order_is_found(pytester: pytest.Pytester, careful: bool) -> None:
    pytester.makepyfile(test_operator=OPERATOR.replace("CAREFUL", str(careful)))
    result = pytester.runpytest("-p", "no:cacheprovider", "-q")
    outcomes = result.parseoutcomes()
    if careful:
        assert outcomes == {"passed": 20}
        return
    assert 0 < outcomes["failed"] < 20
    name = next(line for line in result.outlines if line.startswith("FAILED"))
    number = name.partition("[order-")[2].partition("]")[0]
    again = pytester.runpytest("-p", "no:cacheprovider", "-q", f"--bayplan-order={number}")
    again.assert_outcomes(failed=1)


def test_a_number_of_orders_that_makes_no_sense_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.bayplan(orders=0)
        async def test_it(bayplan_sim):
            pass
        """
    )
    result = pytester.runpytest("-p", "no:cacheprovider")
    assert "pytest.mark.bayplan takes a number of orders, from 1" in result.stdout.str() + result.stderr.str()
