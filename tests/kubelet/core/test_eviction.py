"""When a node is short of something, and which pod has to go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.core.admission import CRITICAL_PRIORITY
from bayplan.kubelet.core.eviction import (
    Amount,
    Observation,
    Pressure,
    Threshold,
    local_storage_violation,
    observations,
    parse_amount,
    parse_thresholds,
    pressure_rejection,
    ranked,
    soft_grace,
    threshold_message,
)
from bayplan.kubelet.core.usage import ContainerUsage, DiskUsage, Filesystem, NodeUsage, PodUsage
from bayplan.kubelet.errors import ConfigurationError

MI = 1 << 20
HARD = Threshold("memory.available", Amount(100 * MI, text="100Mi"))
SOFT = Threshold("memory.available", Amount(300 * MI), grace_seconds=60)


def pod(name: str, *, request: str = "", priority: int | None = None, **spec: object) -> core_v1.Pod:
    """A pod with one container, named after it, that requests memory and disk."""
    amounts: dict[str, str | int | float] = {"memory": request, "ephemeral-storage": request} if request else {}
    container = core_v1.Container(name=name, resources=core_v1.ResourceRequirements(requests=amounts))
    body = core_v1.PodSpec(containers=(container,), priority=priority, **spec)  # type: ignore[arg-type]
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, uid=name), spec=body)


def memory(mebibytes: int) -> PodUsage:
    return PodUsage(memory=mebibytes * MI)


def disk(name: str, *, root: int = 0, logs: int = 0, volume: int = 0) -> PodUsage:
    container = ContainerUsage(root=DiskUsage(root * MI, root), logs=DiskUsage(logs * MI, logs))
    return PodUsage(containers={name: container}, volumes={"data": DiskUsage(volume * MI, volume)})


def seen(available: int, capacity: int = 1000) -> dict[str, Observation]:
    return {"memory.available": Observation(available * MI, capacity * MI)}


def test_defaults_hold_where_nothing_is_configured() -> None:
    found = {each.signal: each for each in parse_thresholds(None, {}, {}, {})}
    assert found["memory.available"].amount == found["allocatableMemory.available"].amount == Amount(100 * MI)
    assert found["nodefs.available"].amount == Amount(share=0.1)
    assert all(each.is_hard for each in found.values())
    assert parse_thresholds({}, {}, {}, {}) == ()
    merged = parse_thresholds({"memory.available": "1Gi"}, {}, {}, {}, merge_defaults=True, pods_are_limited=False)
    assert {each.signal: each.amount for each in merged}["memory.available"] == Amount(1024 * MI)
    assert len(merged) == 5


def test_soft_thresholds_have_a_grace_period_and_all_a_minimum() -> None:
    (found,) = parse_thresholds(
        {}, {"nodefs.available": "20%"}, {"nodefs.available": "1m30s"}, {"nodefs.available": "500Mi"}
    )
    assert (found.grace_seconds, found.reclaim, found.is_hard) == (90, Amount(500 * MI), False)


@pytest.mark.parametrize(
    ("hard", "soft", "text"),
    [
        ({"memory.free": "1Gi"}, {}, "evictionHard: unsupported eviction signal memory.free"),
        (
            {},
            {"memory.available": "1Gi"},
            "grace period must be specified for the soft eviction threshold memory.available",
        ),
        (
            {"memory.available": "much"},
            {},
            "evictionHard memory.available: 'much' is neither a quantity nor a percentage",
        ),
        ({"memory.available": "x%"}, {}, "evictionHard memory.available: 'x%' is no percentage"),
        ({"memory.available": "120%"}, {}, "evictionHard memory.available: 120% is not between 0% and 100%"),
        ({"memory.available": "-1"}, {}, "evictionHard memory.available: -1 must be positive"),
    ],
)
def test_what_makes_no_sense_is_refused(hard: dict[str, str], soft: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_thresholds(hard, soft, {}, {})
    assert str(caught.value) == text


@pytest.mark.parametrize("text", ["100Mi", "100M", "1500Ki"])
def test_a_quantity_is_shown_as_it_was_given(text: str) -> None:
    amount = parse_amount("x", text)
    assert amount is not None
    assert amount.text == text


def test_nothing_and_everything_switch_a_threshold_off() -> None:
    assert parse_amount("x", "0%") is None
    assert parse_amount("x", "100%") is None
    assert parse_thresholds({"memory.available": "0%"}, {}, {}, {}) == ()


def test_a_hard_threshold_asks_at_once_until_its_minimum_is_free_again() -> None:
    hard = replace(HARD, reclaim=Amount(50 * MI))
    pressure = Pressure((hard,), transition_seconds=300)
    assert pressure.look(seen(100), 0) == ()
    assert not pressure.conditions
    assert pressure.look(seen(99), 10) == (hard,)
    assert pressure.conditions == ("MemoryPressure",)
    assert pressure.look(seen(149), 20) == (hard,)
    assert pressure.look(seen(150), 30) == ()
    assert pressure.look(seen(149), 40) == ()  # it was over


def test_a_soft_threshold_asks_after_its_grace_period_only() -> None:
    pressure = Pressure((SOFT,), transition_seconds=0)
    assert pressure.look(seen(200), 0) == ()
    assert pressure.conditions == ("MemoryPressure",)
    assert pressure.look(seen(200), 59) == ()
    assert pressure.look(seen(200), 60) == (SOFT,)
    assert pressure.look(seen(400), 61) == ()
    assert pressure.look(seen(200), 62) == ()  # the period starts again
    assert pressure.look(seen(200), 122) == (SOFT,)


def test_a_condition_lasts_for_the_transition_period() -> None:
    pressure = Pressure((HARD,), transition_seconds=300)
    found = []
    for at, available in ((0, 50), (299, 500), (300, 500)):
        pressure.look(seen(available), at)
        found.append(pressure.conditions)
    assert found == [("MemoryPressure",), ("MemoryPressure",), ()]


def test_memory_is_more_urgent_than_disk_and_hard_more_than_soft() -> None:
    disks = Threshold("nodefs.available", Amount(share=0.1))
    processes = Threshold("pid.available", Amount(10))
    soft = replace(SOFT, grace_seconds=1)
    pressure = Pressure((processes, disks, soft, HARD), transition_seconds=0)
    short = {
        **seen(50),
        "nodefs.available": Observation(0, 100),
        "pid.available": Observation(1, 100),
    }
    pressure.look(short, 0)
    assert pressure.look(short, 5) == (HARD, soft, disks, processes)
    assert pressure.conditions == ("DiskPressure", "MemoryPressure", "PIDPressure")


def test_signals_follow_from_the_usage_of_the_node() -> None:
    own = Filesystem(10, 100, 5, 50)
    usage = NodeUsage(7, 70, own)
    found = observations(usage)
    assert found["imagefs.available"] == found["nodefs.available"] == Observation(10, 100)
    assert found["nodefs.inodesFree"] == Observation(5, 50)
    assert "pid.available" not in found
    found = observations(
        replace(
            usage,
            image_filesystem=Filesystem(1, 2, 3, 4),
            processes=90,
            processes_most=100,
            pods_memory_available=6,
            pods_memory_capacity=60,
        )
    )
    assert found["imagefs.inodesFree"] == Observation(3, 4)
    assert found["pid.available"] == Observation(10, 100)
    assert found["allocatableMemory.available"] == Observation(6, 60)


def names(pods: list[core_v1.Pod]) -> list[str]:
    return [each.metadata.name for each in pods]


def test_pods_above_their_requests_go_first_then_those_of_low_priority_then_the_largest() -> None:
    pods = [
        pod("within", request="200Mi"),
        pod("within-high", request="200Mi", priority=10),
        pod("above-high", priority=10),
        pod("above", request="50Mi"),
        pod("above-more", request="10Mi"),
        pod("unknown"),
    ]
    usages = {"within": memory(100), "within-high": memory(150), "above-high": memory(500), "above": memory(100)}
    usages["above-more"] = memory(100)
    assert names(ranked(pods, "memory.available", usages, separate_images=False)) == [
        "unknown",
        "above-more",
        "above",
        "above-high",
        "within",
        "within-high",
    ]


def test_disks_are_ranked_by_what_is_on_them() -> None:
    pods = [pod("root"), pod("logs"), pod("volume")]
    usages = {"root": disk("root", root=30), "logs": disk("logs", logs=20), "volume": disk("volume", volume=10)}
    assert names(ranked(pods, "nodefs.available", usages, separate_images=False)) == ["root", "logs", "volume"]
    on_node = ranked(pods, "nodefs.available", usages, separate_images=True)
    assert names(on_node)[:2] == ["logs", "volume"]
    on_images = ranked(pods, "imagefs.inodesFree", usages, separate_images=True)
    assert names(on_images)[0] == "root"


def test_processes_are_ranked_by_their_number_within_a_priority() -> None:
    pods = [pod("few"), pod("many"), pod("high", priority=10), pod("unknown")]
    usages = {"few": PodUsage(processes=1), "many": PodUsage(processes=9), "high": PodUsage(processes=99)}
    assert names(ranked(pods, "pid.available", usages, separate_images=False)) == ["unknown", "many", "few", "high"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300), st.integers(0, 300)), max_size=8))
def test_no_pod_within_its_request_goes_before_one_above(sizes: list[tuple[int, int, int]]) -> None:
    pods = [
        pod(str(index), request=f"{request}Mi" if request else "", priority=priority)
        for index, (priority, request, _) in enumerate(sizes)
    ]
    usages = {str(index): memory(used) for index, (_, _, used) in enumerate(sizes)}
    order = [sizes[int(each.metadata.name)] for each in ranked(pods, "memory.available", usages, separate_images=False)]
    above = [used > request for _, request, used in order]
    assert above == sorted(above, reverse=True)
    for group in (True, False):
        priorities = [priority for (priority, _, _), each in zip(order, above, strict=True) if each is group]
        assert priorities == sorted(priorities)


def test_the_message_names_what_was_short_and_what_used_it() -> None:
    usage = PodUsage(memory=200 * MI, containers={"web": ContainerUsage(memory=200 * MI)})
    text = threshold_message(pod("web", request="100Mi"), HARD, seen(90), usage)
    assert text == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. "
        "Container web was using 200Mi, request is 100Mi, has larger consumption of memory. "
    )
    share = Threshold("memory.available", Amount(share=0.1))
    short = threshold_message(pod("web"), share, seen(90, 999), None)
    assert short == "The node was low on resource: memory. Threshold quantity: 104752742, available: 90Mi. "
    short = threshold_message(pod("web"), HARD, seen(90), None)
    assert short == "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. "


def _with_volume(limit: str) -> core_v1.Pod:
    volume = core_v1.Volume(name="data", empty_dir=core_v1.EmptyDirVolumeSource(size_limit=limit))
    return pod("web", volumes=(volume,))


def _limited(limit: str) -> core_v1.Pod:
    container = core_v1.Container(
        name="web", resources=core_v1.ResourceRequirements(limits={"ephemeral-storage": limit})
    )
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name="web"), spec=core_v1.PodSpec(containers=(container,)))


@pytest.mark.parametrize(
    ("what", "usage", "text"),
    [
        (
            _with_volume("5Mi"),
            disk("web", volume=6),
            'Usage of EmptyDir volume "data" exceeds the limit "5Mi". ',
        ),
        (_with_volume("6Mi"), disk("web", volume=6), ""),
        (
            _limited("5Mi"),
            disk("web", volume=6),
            "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ",
        ),
        (_limited("10Mi"), disk("web", root=5, logs=5), ""),
        (pod("web"), disk("web", root=500), ""),
    ],
    ids=["a volume", "a volume that just fits", "the pod", "the pod, just within", "no limit"],
)
def test_pods_go_for_limits_that_they_gave_themselves(what: core_v1.Pod, usage: PodUsage, text: str) -> None:
    assert local_storage_violation(what, usage, separate_images=False) == text


def test_a_container_goes_beyond_its_own_limit_although_the_pod_does_not() -> None:
    limits = core_v1.ResourceRequirements(limits={"ephemeral-storage": "5Mi"})
    containers = tuple(core_v1.Container(name=name, resources=limits) for name in ("a", "b"))
    both = core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p"), spec=core_v1.PodSpec(containers=containers))
    assert local_storage_violation(both, disk("a", root=4, logs=2), separate_images=False) == (
        'Container a exceeded its local ephemeral storage limit "5Mi". '
    )
    assert local_storage_violation(both, disk("a", root=4, logs=2), separate_images=True) == ""


def test_a_soft_eviction_gives_a_pod_its_grace_period_up_to_a_limit() -> None:
    assert soft_grace(pod("p", termination_grace_period_seconds=30), 60) == 30
    assert soft_grace(pod("p", termination_grace_period_seconds=90), 60) == 60


TOLERATES = core_v1.Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists")


@pytest.mark.parametrize(
    ("conditions", "wanted", "taken"),
    [
        ((), pod("p"), True),
        (("MemoryPressure",), pod("p", request="1Mi"), True),
        (("MemoryPressure",), pod("p"), False),
        (("MemoryPressure",), pod("p", tolerations=(TOLERATES,)), True),
        (("DiskPressure",), pod("p", request="1Mi"), False),
        (("DiskPressure", "MemoryPressure"), pod("p", tolerations=(TOLERATES,)), False),
        (("DiskPressure",), pod("p", priority=CRITICAL_PRIORITY), True),
    ],
)
def test_a_node_under_pressure_takes_few_pods(conditions: tuple[str, ...], wanted: core_v1.Pod, taken: bool) -> None:
    found = pressure_rejection(wanted, conditions)
    assert (found is None) is taken
    assert found is None or found.message == f"The node had condition: [{' '.join(conditions)}]. "
