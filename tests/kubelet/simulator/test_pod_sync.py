"""Whatever annotations say, a simulated pod goes the way of a kubelet's pods."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.types import core_v1
from bayplan.kubelet.core.pod_status import TERMINAL, illegal_transition
from bayplan.kubelet.simulator.pod_sync import Place
from bayplan.kubelet.simulator.pods import next_step, synced
from bayplan.kubelet.simulator.references import NO_SURROUNDINGS
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.support.timestamps import parse_rfc3339
from bayplan.testing.builders import CREATED, changed, container, pod

NOW = parse_rfc3339(CREATED)
SETTINGS = SimulatorSettings(nodes=1, run_seconds=2.0)
MOST_STEPS = 40

behaviours = st.fixed_dictionaries(
    {},
    optional={
        "bayplan.dev/run-seconds.main": st.sampled_from(("0", "1", "30", "1000")),
        "bayplan.dev/exit-code.main": st.sampled_from(("0", "1", "3@50%")),
        "bayplan.dev/exit-code.init": st.sampled_from(("0", "1")),
        "bayplan.dev/init-seconds": st.sampled_from(("0", "5")),
        "bayplan.dev/oom-seconds.other": st.sampled_from(("7", "700")),
        "bayplan.dev/ready-seconds": st.just("4"),
        "bayplan.dev/live.other": st.just("false"),
        "bayplan.dev/probes": st.just("follow"),
    },
)
probe = core_v1.Probe(initial_delay_seconds=3, period_seconds=1, failure_threshold=2)
other = container("other", liveness_probe=probe, startup_probe=probe)
images = st.sampled_from(("app:1", "app:1", "nonexistent", "Bad:Name:"))
sidecar = container("side", restart_policy="Always", startup_probe=probe)
inits = st.sampled_from(((), (container("init"),), (sidecar, container("init")), (sidecar,)))


@st.composite
def pods(draw: st.DrawFn) -> core_v1.Pod:
    main = container("main", image=draw(images), command=draw(st.sampled_from(((), ("nonexistent",)))))
    return pod(
        "web",
        meta={"generation": 1, "uid": draw(st.sampled_from("abc")), "annotations": draw(behaviours)},
        node_name="n",
        restart_policy=draw(st.sampled_from(("Always", "OnFailure", "Never"))),
        containers=draw(st.sampled_from(((main,), (main, other)))),
        init_containers=draw(inits),
        active_deadline_seconds=draw(st.sampled_from((None, None, 60))),
    )


@settings(max_examples=200)
@given(pods())
def test_every_step_is_one_that_a_kubelet_may_take_and_is_taken_once(one: core_v1.Pod) -> None:
    now = NOW
    for _ in range(MOST_STEPS):
        step = next_step(one, now, SETTINGS, "172.18.0.1", "10.128.0.2", 0.25)
        if one.status.start_time:
            slow = synced(one, now, SETTINGS, Place("172.18.0.1", "10.128.0.2"), NO_SURROUNDINGS)
            assert step.status == slow.status, "the fast path comes to the same"
            assert step.wait == (None if slow.wait is None else pytest.approx(slow.wait, abs=0.002))
        if step.status is not None:
            assert illegal_transition(one, one.status, step.status) == ""
            before, one = one, changed(one, status=step.status)
            counts = {each.name: each.restart_count for each in before.status.container_statuses}
            assert all(each.restart_count >= counts.get(each.name, 0) for each in one.status.container_statuses)
        if one.status.phase in TERMINAL:
            assert next_step(one, now + 1000, SETTINGS, "172.18.0.1", "10.128.0.2", 0.25).status is None
            assert not any(each.state.running for each in one.status.container_statuses)
            return
        if step.wait is None:
            return
        assert step.wait > 0
        now += step.wait


@settings(max_examples=200)
@given(pods(), st.sampled_from((0.5, 3.0, 11.0, 61.0, 400.0)))
def test_a_look_at_the_same_moment_finds_nothing_new(one: core_v1.Pod, after: float) -> None:
    for moment in (NOW, NOW + 0.25, NOW + after):
        status = next_step(one, moment, SETTINGS, "172.18.0.1", "10.128.0.2", 0.25).status
        one = changed(one, status=status) if status is not None else one
    looks = []
    for _ in range(8):
        looks.append(next_step(one, NOW + after, SETTINGS, "172.18.0.1", "10.128.0.2", 0.25).status)
        one = changed(one, status=looks[-1]) if looks[-1] is not None else one
    assert None in looks, "it comes to rest"
    assert looks[-1] is None
