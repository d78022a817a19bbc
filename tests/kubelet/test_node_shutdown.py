"""Pods end in order before their machine goes down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.configuration import KubeletConfiguration, from_tree
from bayplan.kubelet.core.admission import CRITICAL_PRIORITY
from bayplan.kubelet.core.shutdown import GracePeriod, grace_periods, in_order
from bayplan.kubelet.errors import ConfigurationError
from bayplan.kubelet.kubelet import Kubelet
from bayplan.kubelet.node_shutdown import STATE_FILE, NodeShutdown, ShutdownTimes
from bayplan.kubelet.runtime.behaviour import Behaviour
from bayplan.support.blocking import at_once
from tests.kubelet.simulator.played import NODE, Played, container, phase, play, ready

SECOND_GROUP = GracePeriod(1000, 20)
PERIODS = (GracePeriod(0, 10), SECOND_GROUP)


class FakeInhibitor:
    """A machine that says when it goes down. `most`: the delay that it can be made to allow."""

    def __init__(self, most: float = 100) -> None:
        self.allowed = 5.0
        self.most = most
        self.locks = 0
        self.heard: asyncio.Queue[bool | None] = asyncio.Queue()

    async def longest_delay(self) -> float:
        return self.allowed

    async def set_longest_delay(self, seconds: float) -> None:
        self.allowed = min(seconds, self.most)

    async def delay(self) -> Callable[[], None]:
        self.locks += 1

        def release() -> None:
            self.locks -= 1

        return release

    async def announcements(self) -> AsyncIterator[bool]:
        while (heard := await self.heard.get()) is not None:
            yield heard

    async def close(self) -> None:
        """Nothing is open."""


class Setup:
    """A manager that runs beside a kubelet."""

    def __init__(self, kubelet: Kubelet, root: Path, inhibitor: FakeInhibitor) -> None:
        self.inhibitor = inhibitor
        self.reports = 0
        self.times: list[ShutdownTimes] = []
        self.connections = 0
        self.manager = NodeShutdown(
            PERIODS,
            self._connect,
            kubelet.pods.active,
            kubelet.workers,
            kubelet.events,
            kubelet.node,
            self._report,
            at_once,
            root,
            kubelet.clock,
        )
        self.manager.on_times = self.times.append

    async def _connect(self) -> FakeInhibitor:
        self.connections += 1
        return self.inhibitor

    async def _report(self) -> None:
        self.reports += 1


async def until(played: Played, condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await played.clock.sleep(0.05)
    raise AssertionError("not within 50 s")


def test_pods_end_from_the_lowest_priority_to_the_highest(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            setup = Setup(kubelet, tmp_path, FakeInhibitor())
            running = asyncio.create_task(setup.manager.run())
            await played.create(container("low"), name="low", termination_grace_period_seconds=60)
            await played.create(container("high"), name="high", priority_class_name="system-node-critical")
            for name in ("low", "high"):
                await played.until(ready, name)
            await until(played, lambda: setup.inhibitor.locks == 1)
            assert setup.inhibitor.allowed == 30
            started = played.clock.monotonic()
            setup.inhibitor.heard.put_nowait(True)
            await until(played, lambda: setup.inhibitor.locks == 0)
            assert 13 <= played.clock.monotonic() - started < 15  # 10 s, all that the low one gets, then 3 s
            ends = {each.config.name: each.finished_at for each in played.runtime.all_containers()}
            assert ends["high"] > ends["low"] > 0
            for name in ("low", "high"):
                failed = await played.until(phase("Failed"), name)
                assert (failed.status.reason, failed.status.message) == (
                    "Terminated",
                    "Pod was terminated in response to imminent node shutdown.",
                )
                condition = next(each for each in failed.status.conditions if each.type == "DisruptionTarget")
                assert condition.reason == "TerminationByKubelet"
            assert setup.reports == 1
            assert setup.manager.error == "node is shutting down"
            assert setup.times[-1].end > setup.times[-1].start > 0
            (event,) = await played.events("Shutdown")
            assert event.message == "Shutdown manager detected shutdown event"
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    play(case, behaviours={"low": Behaviour(stop_seconds=40), "high": Behaviour(stop_seconds=3)})


def test_a_node_that_goes_down_takes_no_pods_until_that_is_called_off(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            setup = Setup(kubelet, tmp_path, FakeInhibitor())
            played.admit = setup.manager.rejection
            running = asyncio.create_task(setup.manager.run())
            await until(played, lambda: setup.inhibitor.locks == 1)
            setup.inhibitor.heard.put_nowait(True)
            await until(played, lambda: setup.manager.is_shutting_down)
            await played.create(name="late")
            failed = await played.until(phase("Failed"), "late")
            assert (failed.status.reason, failed.status.message) == (
                "NodeShutdown",
                "Pod was rejected: Pod was rejected as the node is shutting down.",
            )
            setup.inhibitor.heard.put_nowait(False)
            await until(played, lambda: setup.inhibitor.locks == 1)
            assert setup.manager.error == ""
            await played.create()
            await played.until(ready)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert setup.inhibitor.locks == 0

    play(case)


def test_a_bus_that_is_lost_is_found_again(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            setup = Setup(kubelet, tmp_path, FakeInhibitor())
            running = asyncio.create_task(setup.manager.run())
            await until(played, lambda: setup.inhibitor.locks == 1)
            setup.inhibitor.heard.put_nowait(None)
            await played.clock.sleep(5)
            assert (setup.connections, setup.inhibitor.locks) == (2, 1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    play(case)


def test_a_machine_that_does_not_wait_long_enough_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            setup = Setup(kubelet, tmp_path, FakeInhibitor(most=8))
            running = asyncio.create_task(setup.manager.run())
            await until(played, lambda: setup.connections == 3)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    play(case)
    said = [each for each in caplog.messages if "shutdowns are delayed by 8 s at most, the kubelet needs 30 s" in each]
    assert len(said) == 1


def test_the_times_of_a_shutdown_outlive_the_kubelet(tmp_path: Path) -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            first = Setup(kubelet, tmp_path, FakeInhibitor())
            running = asyncio.create_task(first.manager.run())
            first.inhibitor.heard.put_nowait(True)
            await until(played, lambda: bool(first.times) and first.times[-1].end > 0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            second = Setup(kubelet, tmp_path, FakeInhibitor())
            running = asyncio.create_task(second.manager.run())
            await until(played, lambda: bool(second.times))
            assert second.times[0].start == pytest.approx(first.times[-1].start, abs=1)
            assert second.times[0].end == pytest.approx(first.times[-1].end, abs=1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    play(case)
    assert (tmp_path / STATE_FILE).stat().st_mode & 0o777 == 0o600


def test_times_that_cannot_be_read_are_told_and_forgotten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def case(played: Played) -> None:
        async with played.running() as kubelet:
            (tmp_path / STATE_FILE).write_text('{"startTime": 3')
            setup = Setup(kubelet, tmp_path, FakeInhibitor())
            running = asyncio.create_task(setup.manager.run())
            await until(played, lambda: setup.inhibitor.locks == 1)
            assert setup.times == [ShutdownTimes()]
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    play(case)
    assert any(f"cannot read {tmp_path / STATE_FILE}" in each for each in caplog.messages)


def _configured(**fields: object) -> KubeletConfiguration:
    return from_tree(
        {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **fields}, "kubelet.yaml"
    )


def test_periods_follow_from_the_configuration() -> None:
    assert grace_periods(_configured()) == ()
    both = _configured(shutdownGracePeriod="30s", shutdownGracePeriodCriticalPods="10s")
    assert grace_periods(both) == (GracePeriod(0, 20), GracePeriod(CRITICAL_PRIORITY, 10))
    by_priority = [{"priority": priority, "shutdownGracePeriodSeconds": priority + 1} for priority in (1000, 0, 10)]
    found = grace_periods(_configured(shutdownGracePeriodByPodPriority=by_priority))
    assert found == (GracePeriod(0, 1), GracePeriod(10, 11), GracePeriod(1000, 1001))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"shutdownGracePeriod": "5s", "shutdownGracePeriodCriticalPods": "10s"},
            "shutdownGracePeriodCriticalPods 10s must be <= shutdownGracePeriod 5s",
        ),
        ({"shutdownGracePeriod": "500ms"}, "shutdownGracePeriod 500ms must be either zero or otherwise >= 1 sec"),
        (
            {"shutdownGracePeriod": "5s", "shutdownGracePeriodByPodPriority": [{"priority": 1}]},
            "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time",
        ),
    ],
    ids=["critical ones get more than all", "a fraction of a second", "both ways"],
)
def test_periods_that_make_no_sense_are_refused(fields: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _configured(**fields)
    assert str(caught.value) == f"kubelet.yaml: {text}"


@pytest.mark.parametrize(
    ("priority", "group"), [(None, 0), (-5, 0), (0, 0), (999, 0), (1000, 1), (CRITICAL_PRIORITY, 1)]
)
def test_a_pod_belongs_to_the_highest_period_that_it_reaches(priority: int | None, group: int) -> None:
    pod = core_v1.Pod(spec=core_v1.PodSpec(node_name=NODE, priority=priority))
    found = in_order(PERIODS, [pod])
    assert [bool(pods) for _, pods in found] == [index == group for index in range(2)]
