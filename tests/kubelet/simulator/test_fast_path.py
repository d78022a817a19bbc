"""The fast path of plain pods comes to exactly what the kubelet's core comes to."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.simulator.fast_path import is_settled, may_start
from bayplan.kubelet.simulator.pod_sync import Place
from bayplan.kubelet.simulator.pods import next_step, start_at_once, synced
from bayplan.kubelet.simulator.references import NO_SURROUNDINGS
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.statuses import created_status

NOW = 1_767_323_045.25
SETTINGS = SimulatorSettings(nodes=1)
PLACE = Place("172.18.0.1", "10.128.0.2")

amounts = st.dictionaries(st.sampled_from(("cpu", "memory", "example.com/gpu")), st.sampled_from(("1", "2", "500m")))
mounts = st.builds(
    core_v1.VolumeMount,
    name=st.sampled_from(("token", "cache")),
    mount_path=st.sampled_from(("/var/run/secrets", "/cache")),
    read_only=st.booleans(),
)
containers = st.builds(
    core_v1.Container,
    name=st.sampled_from("abcdef"),
    image=st.sampled_from(("nginx", "nginx:1.29", "registry.example.com:5000/team/app:v2", f"app@sha256:{'0' * 64}")),
    resources=st.builds(core_v1.ResourceRequirements, requests=amounts, limits=amounts),
    volume_mounts=st.lists(mounts, max_size=2).map(tuple),
    readiness_probe=st.none() | st.builds(core_v1.Probe, initial_delay_seconds=st.integers(0, 5)),
    startup_probe=st.none() | st.builds(core_v1.Probe, initial_delay_seconds=st.integers(0, 5)),
)
conditions = st.builds(
    core_v1.PodCondition,
    type=st.sampled_from(("PodScheduled", "example.com/Seen", "DisruptionTarget", "Initialized")),
    status=st.sampled_from(("True", "False")),
    last_transition_time=st.just("2026-01-02T03:00:00Z"),
    reason=st.sampled_from(("", "Because")),
)
specs = st.builds(
    core_v1.PodSpec,
    node_name=st.just("n"),
    restart_policy=st.sampled_from(("", "Always")),
    host_network=st.booleans(),
    containers=st.lists(containers, min_size=1, max_size=3, unique_by=lambda one: one.name).map(tuple),
)
statuses = st.builds(
    core_v1.PodStatus,
    phase=st.just("Pending"),
    nominated_node_name=st.sampled_from(("", "n")),
    conditions=st.lists(conditions, max_size=3, unique_by=lambda one: one.type).map(tuple),
    qos_class=st.just(""),
)
pods = st.builds(
    core_v1.Pod,
    metadata=st.builds(
        meta_v1.ObjectMeta,
        name=st.just("web"),
        namespace=st.just("default"),
        uid=st.sampled_from(("u1", "u2")),
        generation=st.integers(1, 3),
    ),
    spec=specs,
    status=statuses,
)


def written(pod: core_v1.Pod, status: core_v1.PodStatus) -> core_v1.Pod:
    """The pod after a write that leaves generation and spec."""
    changed: core_v1.Pod = msgspec.structs.replace(pod, status=status)
    return changed


@given(pods, st.sampled_from((0.0, 0.3, 0.9)))
def test_a_plain_pod_that_starts_unseen(pod: core_v1.Pod, after: float) -> None:
    assert may_start(pod)
    fast = start_at_once(pod, NOW, NOW + after, SETTINGS, PLACE, NO_SURROUNDINGS)
    created = written(pod, created_status(pod, NOW, PLACE.host_ip))
    slow = synced(created, NOW + after, SETTINGS, PLACE, NO_SURROUNDINGS)
    assert fast.status == slow.status
    assert fast.wait == slow.wait is None
    assert all(one.ordinary for one in slow.told), "nothing is told of it by default"


@given(pods, st.sampled_from((0.3, 7.0)))
def test_a_plain_pod_that_is_seen_to_start(pod: core_v1.Pod, after: float) -> None:
    created = written(pod, created_status(pod, NOW, PLACE.host_ip))
    fast = next_step(created, NOW + after, SETTINGS, PLACE.host_ip, PLACE.pod_ip, 0.3)
    slow = synced(created, NOW + after, SETTINGS, PLACE, NO_SURROUNDINGS)
    assert fast.status == slow.status


@given(pods, st.sampled_from((1.0, 5000.0)))
def test_a_plain_pod_that_runs_is_left_alone_by_both(pod: core_v1.Pod, later: float) -> None:
    fast = start_at_once(pod, NOW, NOW, SETTINGS, PLACE, NO_SURROUNDINGS)
    assert fast.status is not None
    running = written(pod, fast.status)
    assert is_settled(running)
    assert synced(running, NOW + later, SETTINGS, PLACE, NO_SURROUNDINGS).status is None
