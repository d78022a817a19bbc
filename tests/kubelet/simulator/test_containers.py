"""Containers of simulated pods: durations by distribution, init containers and sidecars, probes, crashes and kills."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.containers import ending, exit_code, start_seconds
from bayplan.kubelet.simulator.durations import chance, draw, parse_seconds
from bayplan.kubelet.simulator.pods import next_step
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, changed, container, pod

SETTINGS = SimulatorSettings(nodes=1, run_seconds=2.0)
NOW = parse_rfc3339(CREATED)


def bound(*containers: core_v1.Container, uid: str = "u", policy: str = "Always", **annotations: str) -> core_v1.Pod:
    inits = tuple(one for one in containers if one.name.startswith(("init", "side")))
    main = tuple(one for one in containers if one not in inits) or (container(),)
    named = {f"bayplan.dev/{name}": value for name, value in annotations.items()}
    meta = {"generation": 1, "uid": uid, "annotations": named}
    return pod("web", meta=meta, node_name="n", restart_policy=policy, containers=main, init_containers=inits)


def at(one: core_v1.Pod, *moments: float) -> core_v1.Pod:
    """The pod after a look at each of these moments."""
    for moment in moments:
        status = next_step(one, NOW + moment, SETTINGS, "172.18.0.1", "10.128.0.2", 0.0).status
        one = changed(one, status=status) if status is not None else one
    return one


def wait(one: core_v1.Pod, moment: float) -> float | None:
    return next_step(one, NOW + moment, SETTINGS, "172.18.0.1", "10.128.0.2", 0.0).wait


def state(one: core_v1.Pod, name: str) -> core_v1.ContainerState:
    statuses = (*one.status.container_statuses, *one.status.init_container_statuses)
    return next(each.state for each in statuses if each.name == name)


def named(name: str, **fields: Any) -> core_v1.Container:
    return container(name, **fields)


SIDE = named("side", restart_policy="Always")


class TestDurations:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("2", 2.0),
            ("1.5s", 1.5),
            ("1m30s", 90.0),
            ("250ms", 0.25),
            ("1..3", 2.0),
            ("normal(5,1)", 5.0),
            ("lognormal(7,2)", 7.0),
        ],
    )
    def test_in_the_middle(self, text: str, seconds: float) -> None:
        assert draw(text, 0.5) == pytest.approx(seconds)

    def test_a_distribution_has_its_mean_and_never_goes_below_zero(self) -> None:
        parts = [chance("pod", str(index)) for index in range(2000)]
        assert all(0 <= part < 1 for part in parts)
        assert mean(draw("exponential(3)", part) for part in parts) == pytest.approx(3.0, rel=0.1)
        assert mean(draw("1..3", part) for part in parts) == pytest.approx(2.0, rel=0.05)
        assert min(draw("normal(1,5)", part) for part in parts) == 0.0
        assert draw("exponential(3)", 0.0) >= 0.0

    @pytest.mark.parametrize("text", ["", "soon", "1..", "normal(1)", "exponential(1,2)", "uniform(1,2)", "1x"])
    def test_what_cannot_be_read(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"is no duration|takes"):
            draw(text, 0.5)
        if "(" not in text and ".." not in text:
            with pytest.raises(ValueError, match=r"is no duration|takes"):
                parse_seconds(text)

    def test_a_pod_has_one_fate_and_others_have_others(self) -> None:
        one, other = bound(uid="a", **{"start-seconds": "0..100"}), bound(uid="b", **{"start-seconds": "0..100"})

        def jitter(base: float, factor: float) -> float:
            raise AssertionError("a distribution is not jittered")

        assert start_seconds(one, SETTINGS, jitter) == start_seconds(one, SETTINGS, jitter)
        assert start_seconds(one, SETTINGS, jitter) != start_seconds(other, SETTINGS, jitter)

    def test_every_image_is_pulled(self) -> None:
        one = bound(named("a"), named("b"), **{"start-seconds": "1", "pull-seconds": "2", "pull-seconds.b": "5"})
        assert start_seconds(one, SETTINGS, lambda base, factor: base) == 8.0


class TestInit:
    def test_init_containers_run_one_after_the_other_beside_sidecars(self) -> None:
        one = bound(named("init-a"), SIDE, named("init-b"), **{"init-seconds": "10"})
        first = at(one, 0, 0)
        assert state(first, "init-a").running is not None
        assert state(first, "side").waiting is not None
        assert first.status.phase == "Pending"
        assert wait(first, 0) == pytest.approx(10.0)
        second = at(first, 10)
        assert state(second, "init-a").terminated is not None
        assert state(second, "side").running is not None
        assert state(second, "init-b").running is not None
        assert state(second, "main").waiting is not None
        done = at(second, 20)
        assert done.status.phase == "Running"
        assert state(done, "main").running is not None
        assert all(each.status == "True" for each in done.status.conditions)

    def test_an_init_container_that_fails_is_tried_again_or_fails_the_pod(self) -> None:
        again = at(bound(named("init"), **{"init-seconds": "10", "exit-code.init": "1"}), 0, 0, 10)
        assert state(again, "init").running is not None
        assert again.status.init_container_statuses[0].restart_count == 1
        waiting = state(at(again, 20), "init").waiting
        assert waiting is not None
        assert waiting.reason == "CrashLoopBackOff"
        failed = at(bound(named("init"), policy="Never", **{"init-seconds": "10", "exit-code.init": "1"}), 0, 0, 10)
        assert failed.status.phase == "Failed"


class TestEnds:
    def test_containers_end_on_their_own(self) -> None:
        annotations = {"run-seconds.fast": "5", "run-seconds.slow": "20"}
        one = at(bound(named("fast"), named("slow"), policy="Never", **annotations), 0, 0, 5)
        assert state(one, "fast").terminated is not None
        assert state(one, "slow").running is not None
        assert one.status.phase == "Running"
        ready = next(each for each in one.status.conditions if each.type == "ContainersReady")
        assert ready.message == "containers with unready status: [fast]"
        assert at(one, 20).status.phase == "Succeeded"

    def test_a_crash_restarts_one_container_and_leaves_the_others(self) -> None:
        one = at(bound(named("a"), named("b"), **{"run-seconds.a": "5", "exit-code.a": "2"}), 0, 0, 5, 10)
        counts = {each.name: each.restart_count for each in one.status.container_statuses}
        assert counts == {"a": 1, "b": 0}
        waiting = state(one, "a").waiting
        assert waiting is not None
        assert waiting.reason == "CrashLoopBackOff"
        assert wait(one, 10) == pytest.approx(10.0)
        assert state(at(one, 20), "a").running is not None

    def test_sidecars_stop_when_the_work_is_done(self) -> None:
        one = at(bound(named("job"), SIDE, policy="Never"), 0, 0, 2)
        assert one.status.phase == "Succeeded"
        assert state(one, "side").terminated is not None

    def test_part_of_the_runs_fail(self) -> None:
        codes = [exit_code(bound(uid=str(index), **{"exit-code": "3@25%"}), named("main")) for index in range(1000)]
        assert set(codes) == {0, 3}
        assert codes.count(3) == pytest.approx(250, rel=0.2)
        assert exit_code(bound(**{"exit-code": "boom"}), named("main")) == 0

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            (("/bin/sh", "-c", "exit 1"), 1),
            (("sh", "-c", "echo bye; sleep 1 && exit 300"), 44),
            (("/bin/false",), 1),
            (("/bin/true",), 0),
            (("sh", "-c", "test -f /done && exit 0 || exit 1"), 0),
            (("sh", "-c", "if true; then exit 1; fi"), 0),
            (("echo", "exit 1"), 0),
            ((), 0),
        ],
    )
    def test_a_command_says_with_which_code_it_ends(self, command: tuple[str, ...], code: int) -> None:
        assert exit_code(bound(), named("main", command=command)) == code
        assert exit_code(bound(**{"exit-code": "7"}), named("main", command=command)) == 7
        failed = at(bound(named("init", command=command), policy="Never"), 0, 0, 0)
        assert (failed.status.phase == "Failed") is bool(code)

    def test_too_much_memory_kills(self) -> None:
        killed = at(bound(**{"oom-seconds": "7"}), 0, 0, 7)
        [status] = killed.status.container_statuses
        assert status.last_state.terminated is not None
        assert (status.last_state.terminated.reason, status.last_state.terminated.exit_code) == ("OOMKilled", 137)
        limits = core_v1.ResourceRequirements(limits={"memory": "100Mi"}, requests={"memory": "100Mi"})
        small = named("main", resources=limits)
        over = at(bound(small, **{"memory-usage": "50Mi..200Mi"}), 0, 0)
        plan = ending(over, small, SETTINGS)
        assert plan is not None
        assert plan.reason == "OOMKilled"
        assert ending(at(bound(small, **{"memory-usage": "90Mi"}), 0, 0), small, SETTINGS) is None

    def test_a_leak_kills_when_the_limit_is_reached_and_begins_anew(self) -> None:
        limits = core_v1.ResourceRequirements(limits={"memory": "100Mi"}, requests={"memory": "100Mi"})
        leaking = bound(named("main", resources=limits), **{"memory-usage": "20Mi@0s 180Mi@160s"})
        one = at(leaking, 0, 0)
        assert wait(one, 0) == pytest.approx(80.0)
        again = at(one, 81)
        [status] = again.status.container_statuses
        assert status.last_state.terminated is not None
        assert status.last_state.terminated.reason == "OOMKilled"
        assert status.restart_count == 1
        assert wait(again, 81) == pytest.approx(80.0)


class TestProbes:
    def test_a_container_is_ready_when_its_time_has_come(self) -> None:
        one = at(bound(**{"ready-seconds": "30"}), 0, 0)
        assert not one.status.container_statuses[0].ready
        assert wait(one, 0) == pytest.approx(30.0)
        assert at(one, 30).status.container_statuses[0].ready

    def test_initial_delays_count_if_they_are_asked_for(self) -> None:
        slow = named("main", readiness_probe=core_v1.Probe(initial_delay_seconds=15))
        assert at(bound(slow), 0, 0).status.container_statuses[0].ready
        following = at(bound(slow, probes="follow"), 0, 0)
        assert not following.status.container_statuses[0].ready
        assert at(following, 15).status.container_statuses[0].ready

    def test_a_liveness_probe_that_fails_kills(self) -> None:
        watched = named("main", liveness_probe=core_v1.Probe(period_seconds=5, failure_threshold=2))
        one = at(bound(watched, live="false"), 0, 0)
        assert wait(one, 0) == pytest.approx(10.0)
        assert at(one, 10).status.container_statuses[0].restart_count == 1
