"""Probes of a kubelet over a simulated runtime, in virtual time: what they start, restart and keep from being ready."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.prober.handlers import ProbeRunner
from bayplan.kubelet.runtime.behaviour import Behaviour, Command
from tests.kubelet.simulator.played import Played, container, phase, play, ready, status_of


def test_a_failing_liveness_probe_restarts_the_container() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            probe = core_v1.Probe(
                exec=core_v1.ExecAction(command=("alive",)),
                period_seconds=1,
                timeout_seconds=1,
                failure_threshold=3,
                success_threshold=1,
            )
            await played.create(container(liveness_probe=probe))
            await played.until(
                lambda pod: pod is not None and any(s.restart_count for s in pod.status.container_statuses)
            )
            unhealthy = await played.events("Unhealthy")
            assert unhealthy[0].message == "Liveness probe failed: dead"
            assert unhealthy[0].involved_object.field_path == "spec.containers{c}"

    dies = Behaviour(commands={"alive": lambda seconds: Command(1 if seconds > 5 else 0, b"dead")})
    play(case, behaviours={"c": dies})


def test_readiness_follows_the_probe() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            probe = core_v1.Probe(
                exec=core_v1.ExecAction(command=("ready",)),
                period_seconds=1,
                timeout_seconds=1,
                failure_threshold=1,
                success_threshold=1,
            )
            await played.create(container(readiness_probe=probe))
            running = await played.until(phase("Running"))
            assert not ready(running)
            conditions = {each.type: each for each in running.status.conditions}
            assert conditions["Ready"].message == "containers with unready status: [c]"
            began = played.clock.monotonic()
            await played.until(ready)
            assert 4 < played.clock.monotonic() - began < 8
            await played.until(lambda pod: not ready(pod))

    comes = Behaviour(commands={"ready": lambda seconds: Command(0 if 5 < seconds < 20 else 1)})
    play(case, behaviours={"c": comes})


def test_readiness_follows_the_probe_while_the_pod_ends() -> None:
    async def case(played: Played) -> None:
        async with played.running():
            probe = core_v1.Probe(exec=core_v1.ExecAction(command=("ready",)), period_seconds=1, failure_threshold=1)
            await played.create(container(readiness_probe=probe), termination_grace_period_seconds=1000)
            before = await played.until(ready)
            await played.client.delete(core_v1.Pod, "p", "default")
            unready = await played.until(lambda pod: not ready(pod))
            assert unready.metadata.deletion_timestamp is not None
            assert unready.status.phase == "Running"
            assert status_of(unready).state == status_of(before).state
            conditions = {each.type: each for each in unready.status.conditions}
            for each in ("Ready", "ContainersReady"):
                assert conditions[each].status == "False"
                assert conditions[each].message == "containers with unready status: [c]"
            again = await played.until(ready)
            assert {each.type: each.status for each in again.status.conditions}["Ready"] == "True"

    comes_back = Behaviour(
        stop_seconds=float("inf"), commands={"ready": lambda seconds: Command(1 if 20 < seconds < 40 else 0)}
    )
    play(case, behaviours={"c": comes_back})


def test_a_fault_in_a_probe_does_not_end_the_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    probe, faults = ProbeRunner.probe, [RuntimeError("a fault of its own")]

    async def failing(self: ProbeRunner, *arguments: Any) -> Any:
        if faults:
            raise faults.pop()
        return await probe(self, *arguments)

    async def case(played: Played) -> None:
        monkeypatch.setattr(ProbeRunner, "probe", failing)
        command = core_v1.Probe(exec=core_v1.ExecAction(command=("ready",)))
        async with played.running():
            await played.create(container(readiness_probe=command))
            await played.until(ready)
        assert not faults

    play(case, behaviours={"c": Behaviour(commands={"ready": Command(exit_code=0)})})


def test_a_startup_probe_holds_back_the_others() -> None:
    async def case(played: Played) -> None:
        async with played.running():

            def probe(word: str, failures: int) -> core_v1.Probe:
                return core_v1.Probe(
                    exec=core_v1.ExecAction(command=(word,)),
                    period_seconds=1,
                    timeout_seconds=1,
                    failure_threshold=failures,
                    success_threshold=1,
                )

            await played.create(container(startup_probe=probe("up", 60), liveness_probe=probe("alive", 1)))
            running = await played.until(phase("Running"))
            assert status_of(running).started is False
            started = await played.until(ready)
            assert status_of(started).restart_count == 0

    slow = Behaviour(
        commands={
            "up": lambda seconds: Command(0 if seconds > 10 else 1),
            "alive": lambda seconds: Command(0 if seconds > 10 else 1),
        }
    )
    play(case, behaviours={"c": slow})
