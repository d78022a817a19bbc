"""pytest fixtures: `bayplan_cluster`, a live cluster for any client, and `bayplan_sim`, a cluster in virtual time.

    def test_my_operator(bayplan_cluster):
        bayplan_cluster.apply("operator.yaml")
        ...                                    # any client, with bayplan_cluster.kubeconfig

    async def test_a_day(bayplan_sim):
        await bayplan_sim.apply("app.yaml")
        await bayplan_sim.advance(hours=24)

`@pytest.mark.bayplan(nodes=10)` says how the cluster is to be: `nodes` (a number or SimulatorSettings), `settings`
(ClusterSettings), `seed` (of virtual clusters; the option --bayplan-seed decides otherwise), `orders` (runs the test so many
times, each with another order of watch events; --bayplan-order N runs one of them alone). This module is loaded by every
pytest run, so it imports nothing of Bayplan before a fixture is used.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bayplan.simulation.virtual_cluster import VirtualCluster
    from bayplan.testing.handle import ClusterHandle, LoopThread

_NODES = 3
_RUNNER = pytest.StashKey[asyncio.Runner]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """See pytest."""
    group = parser.getgroup("bayplan", "clusters in tests")
    group.addoption(
        "--bayplan-seed", type=int, default=0, help="seed of clusters in virtual time: other seeds, other timing (0)"
    )
    group.addoption(
        "--bayplan-order",
        type=int,
        default=None,
        help="of tests that run under many orders of watch events: this one alone",
    )


def pytest_configure(config: pytest.Config) -> None:
    """See pytest."""
    config.addinivalue_line(
        "markers",
        "bayplan(nodes, settings, seed, orders): how the clusters of bayplan_cluster and bayplan_sim are to be",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """See pytest. Tests under many orders of events are as many tests, each of which is named after its order."""
    marker = metafunc.definition.get_closest_marker("bayplan")
    orders = marker.kwargs.get("orders") if marker is not None else None
    if orders is None or "bayplan_sim" not in metafunc.fixturenames:
        return
    if not isinstance(orders, int) or orders < 1:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: pytest.mark.bayplan takes a number of orders, from 1")
    chosen = metafunc.config.getoption("--bayplan-order")
    numbers = range(orders) if chosen is None else (chosen,)
    metafunc.parametrize("bayplan_order", numbers, ids=[f"order-{number}" for number in numbers], indirect=True)


@pytest.fixture
def bayplan_order(request: pytest.FixtureRequest) -> int | None:
    """The order of watch events in which this test runs; None if it does not say that it runs under many."""
    number: int | None = getattr(request, "param", None)
    return number


def _wishes(request: pytest.FixtureRequest, allowed: tuple[str, ...]) -> dict[str, Any]:
    """What the nearest marker says. Raises UsageError."""
    marker = request.node.get_closest_marker("bayplan")
    wishes = dict(marker.kwargs) if marker is not None else {}
    unknown = [name for name in wishes if name not in allowed]
    if unknown or (marker is not None and marker.args):
        raise pytest.UsageError(f"{request.node.nodeid}: pytest.mark.bayplan takes {', '.join(allowed)} by name only")
    return wishes


@pytest.fixture(scope="session")
def bayplan_thread() -> Iterator[LoopThread]:
    """The loop of all live clusters of this run."""
    from bayplan.testing.handle import LoopThread

    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def bayplan_cluster(
    request: pytest.FixtureRequest, bayplan_thread: LoopThread, tmp_path: Path
) -> Iterator[ClusterHandle]:
    """A live cluster of this test's own, with a kubeconfig for any client."""
    import dataclasses

    from bayplan.cluster.settings import ClusterSettings
    from bayplan.kubelet.simulator.settings import SimulatorSettings
    from bayplan.testing.handle import ClusterHandle

    wishes = _wishes(request, ("nodes", "settings", "seed"))
    settings = wishes.get("settings")
    if settings is None or "nodes" in wishes:
        nodes = wishes.get("nodes", _NODES)
        nodes = SimulatorSettings(nodes=nodes) if isinstance(nodes, int) else nodes
        settings = dataclasses.replace(settings or ClusterSettings(), nodes=nodes)
    handle = ClusterHandle(bayplan_thread, settings, tmp_path)
    handle.start()
    try:
        yield handle
    finally:
        handle.stop()


@pytest.fixture
def bayplan_sim(request: pytest.FixtureRequest, bayplan_order: int | None) -> Iterator[VirtualCluster]:
    """A cluster in virtual time; the test is a coroutine on the same loop."""
    from bayplan.simulation.virtual_cluster import VirtualCluster
    from bayplan.support.virtual_time import VirtualTimeLoop

    wishes = _wishes(request, ("nodes", "settings", "seed", "orders"))
    seed = wishes.get("seed", request.config.getoption("--bayplan-seed"))
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        request.node.stash[_RUNNER] = runner
        cluster = VirtualCluster(seed=seed, nodes=wishes.get("nodes", _NODES), settings=wishes.get("settings"))
        runner.run(cluster.start())
        if bayplan_order is not None:
            cluster.permute(bayplan_order)
        try:
            yield cluster
        finally:
            runner.run(cluster.stop())
        if cluster.has_forgotten_validations:
            pytest.fail("validate() was called without await, so nothing was looked at", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutines that use `bayplan_sim` in its virtual time."""
    runner = pyfuncitem.stash.get(_RUNNER, None)
    if runner is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
