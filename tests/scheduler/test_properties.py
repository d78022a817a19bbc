"""Properties that hold for every cluster: caching changes nothing, order changes nothing, nothing is over-committed."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bayplan.scheduler import Planner
from bayplan.scheduler.cache import Cache
from tests.scheduler.objects import affinity_term, apart, node, pod, spread, taint, together

ZONES = ("a", "b", "c")
APPS = ("web", "db")
HOSTNAME = "kubernetes.io/hostname"

nodes = st.lists(
    st.tuples(
        st.sampled_from(("1", "2", "4")),
        st.sampled_from(("1Gi", "4Gi")),
        st.sampled_from(("2", "5", "110")),
        st.sampled_from((*ZONES, None)),
        st.sampled_from((None, "NoSchedule", "PreferNoSchedule")),
    ),
    min_size=1,
    max_size=8,
)
affinities = st.one_of(
    st.none(),
    st.builds(apart, st.sampled_from(("zone", HOSTNAME)), st.sampled_from([{"app": app} for app in APPS])),
    st.builds(together, st.just("zone"), st.sampled_from([{"app": app} for app in APPS])),
    st.builds(
        lambda app, weight: {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": weight, "podAffinityTerm": affinity_term("zone", {"app": app})}
                ]
            }
        },
        st.sampled_from(APPS),
        st.sampled_from((1, 50)),
    ),
    st.builds(
        lambda zone: {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 7,
                        "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]},
                    }
                ]
            }
        },
        st.sampled_from(ZONES),
    ),
)
spreads = st.one_of(
    st.just(()),
    st.builds(
        lambda key, app, when: (spread(key, {"app": app}, when=when),),
        st.sampled_from(("zone", HOSTNAME)),
        st.sampled_from(APPS),
        st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
    ),
)
pods = st.lists(
    st.tuples(
        st.sampled_from(("", "100m", "500m")),
        st.sampled_from(("", "64Mi", "512Mi")),
        st.sampled_from(APPS),
        affinities,
        spreads,
        st.sampled_from(((), (80,))),
        st.sampled_from((0, 0, 10)),
    ),
    min_size=1,
    max_size=14,
)


def make_nodes(drawn: list[Any]) -> list[dict[str, Any]]:
    return [
        node(
            f"node-{index:02}",
            labels={} if zone is None else {"zone": zone},
            taints=() if effect is None else (taint("dedicated", effect),),
            cpu=cpu,
            memory=memory,
            pods=limit,
        )
        for index, (cpu, memory, limit, zone, effect) in enumerate(drawn)
    ]


def make_pods(drawn: list[Any]) -> list[dict[str, Any]]:
    made = []
    for index, (cpu, memory, app, affinity, constraints, ports, priority) in enumerate(drawn):
        spec: dict[str, Any] = {}
        if affinity is not None:
            spec["affinity"] = affinity
        if constraints:
            spec["topologySpreadConstraints"] = list(constraints)
        labels = {"app": app}
        made.append(
            pod(f"pod-{index:02}", cpu=cpu, memory=memory, labels=labels, ports=ports, priority=priority, **spec)
        )
    return made


@settings(max_examples=150, deadline=None)
@given(nodes, pods, st.data())
def test_cached_decisions_equal_those_of_a_fresh_scheduler(
    drawn: list[Any], queue: list[Any], data: st.DataObject
) -> None:
    cluster = make_nodes(drawn)
    lasting = Planner({"nodes": cluster})
    for item in make_pods(queue):
        fresh = Planner({"nodes": cluster})
        for info in lasting.snapshot.pods.values():
            fresh.snapshot.place(fresh.snapshot.pod_info(info.pod), info.node_name)
        expected = fresh.decide(item, explain=True).to_dict()
        assert lasting.decide(item, explain=True).to_dict() == expected
        lasting.schedule(item)
        placed = sorted(lasting.snapshot.pods)
        if placed and data.draw(st.integers(0, 3)) == 0:
            lasting.remove(data.draw(st.sampled_from(placed)))
        elif placed and data.draw(st.integers(0, 2)) == 0:
            labels = {"app": data.draw(st.sampled_from(APPS))}
            more = data.draw(st.sampled_from(({}, {"topology.kubernetes.io/zone": "z"}, {"zone": "z"})))
            info = lasting.snapshot.pods[data.draw(st.sampled_from(placed))]
            Cache(lasting.snapshot).put_pod(
                replace(
                    info.pod,
                    metadata=replace(info.pod.metadata, labels={**labels, **more}),
                    spec=replace(info.pod.spec, node_name=info.node_name),
                )
            )


@settings(max_examples=60, deadline=None)
@given(nodes, pods, st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(drawn: list[Any], queue: list[Any], shuffler: Any) -> None:
    cluster = make_nodes(drawn)
    shuffled = list(cluster)
    shuffler.shuffle(shuffled)
    one, other = Planner({"nodes": cluster}), Planner({"nodes": shuffled})
    for item in make_pods(queue):
        assert one.decide(item, explain=True).to_dict() == other.decide(item, explain=True).to_dict()
        assert one.schedule(item).node == other.schedule(item).node


@settings(max_examples=60, deadline=None)
@given(nodes, pods)
def test_no_node_is_over_committed(drawn: list[Any], queue: list[Any]) -> None:
    planner = Planner({"nodes": make_nodes(drawn)})
    for item in make_pods(queue):
        planner.schedule(item)
    snapshot = planner.snapshot
    size = snapshot.size
    assert (snapshot.requested[:, :size] <= snapshot.allocatable[:, :size]).all()
    assert (snapshot.pod_count[:size] <= snapshot.pod_limit[:size]).all()
    assert sum(len(pods_on) for pods_on in snapshot.pods_on) == len(snapshot.pods)


@settings(max_examples=60, deadline=None)
@given(nodes, pods)
def test_removing_every_pod_leaves_the_columns_as_they_were(drawn: list[Any], queue: list[Any]) -> None:
    planner = Planner({"nodes": make_nodes(drawn)})
    for item in make_pods(queue):
        planner.schedule(item)
    for key in list(planner.snapshot.pods):
        planner.remove(key)
    snapshot = planner.snapshot
    assert not snapshot.requested.any()
    assert not snapshot.nonzero_cpu.any()
    assert not snapshot.nonzero_memory.any()
    assert not snapshot.pod_count.any()
    assert not any(rows for rows in snapshot.ports.values())
