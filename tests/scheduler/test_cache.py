"""The cache takes shortcuts for news that change little of a pod; what it counts is what it would count of the pods as they are now."""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayplan.api.types.core_v1 import Node, Pod
from bayplan.scheduler.cache import Cache
from bayplan.scheduler.library import typed
from bayplan.scheduler.snapshot.counters import PodCounter
from bayplan.scheduler.snapshot.snapshot import Snapshot
from tests.scheduler.objects import affinity_term, node, pod

NODES = ("a", "b", "unknown")
APPS = ("web", "db")
STATUSES: tuple[dict[str, Any], ...] = (
    {},
    {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]},
    {"phase": "Succeeded"},
)
VOLUMES: tuple[list[dict[str, Any]], ...] = ([], [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])

states = st.fixed_dictionaries(
    {
        "name": st.sampled_from(("p", "q")),
        "node": st.sampled_from(NODES),
        "app": st.sampled_from(APPS),
        "cpu": st.sampled_from(("1", "2")),
        "image": st.sampled_from(("app:1", "app:2")),
        "volumes": st.sampled_from(VOLUMES),
        "deleting": st.booleans(),
        "status": st.sampled_from(STATUSES),
    }
)
histories = st.lists(st.tuples(st.sampled_from(("put", "put", "put", "assume", "remove")), states), max_size=12)
GOES = {"name": "p", "node": "a", "app": "web", "cpu": "1", "image": "app:1", "volumes": [], "status": {}}


def made(state: dict[str, Any], *, placed: bool = True) -> Pod:
    """The pod of a state."""
    apart = [affinity_term("kubernetes.io/hostname", {"app": "none"})]
    tree = pod(
        state["name"],
        on=state["node"] if placed else "",
        cpu=state["cpu"],
        labels={"app": state["app"]},
        ports=(80,),
        volumes=state["volumes"],
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
    )
    tree["spec"]["containers"][0]["image"] = state["image"]
    tree["status"] |= state["status"]
    if state["deleting"]:
        tree["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    result: Pod = typed("Pod", tree)
    return result


class Side:
    """A cache with counters, and the latest state of its pods."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        for name in NODES[:2]:
            known: Node = typed("Node", node(name))
            self.snapshot.put_node(known)
        self.cache = Cache(self.snapshot)
        self.pods: dict[str, Pod] = {}
        self._counters = [self._counter(app, live_only) for app in APPS for live_only in (False, True)]

    def _counter(self, app: str, live_only: bool) -> PodCounter:
        counter = self.snapshot.counts.counter(
            (app, live_only), lambda namespace, labels: labels["app"] == app, live_only=live_only
        )
        counter.over(self.snapshot.label_column("kubernetes.io/hostname"))
        return counter

    def take(self, action: str, state: dict[str, Any]) -> None:
        """Let something happen to a pod."""
        key = f"default/{state['name']}"
        if action == "assume":
            if key not in self.snapshot.pods and state["status"] is not STATUSES[3]:
                seen = made(state, placed=False)
                self.cache.assume(self.snapshot.pod_info(seen, pending=True), state["node"])
                self.pods[key] = made(state)
            return
        if action == "put":
            self.pods[key] = made(state)
            self.cache.put_pod(self.pods[key])
        else:
            self.pods.pop(key, None)
            self.cache.remove_pod(made(state))

    def rebuilt(self) -> Side:
        """The same from nothing."""
        other = Side()
        for one in self.pods.values():
            other.snapshot.put_pod(one)
        return other

    def counted(self) -> dict[str, Any]:
        """All that is counted."""
        snapshot = self.snapshot
        column = snapshot.label_column("kubernetes.io/hostname")
        return {
            "requested": snapshot.requested.tolist(),
            "nonzero": (snapshot.nonzero_cpu.tolist(), snapshot.nonzero_memory.tolist()),
            "pods": snapshot.pod_count.tolist(),
            "ports": {port: rows for port, rows in snapshot.ports.items() if rows},
            "claims": snapshot.claim_users,
            "counters": [counter.per_row.tolist() for counter in self._counters],
            "domains": [counter.over(column).domains().tolist() for counter in self._counters],
            "terms": [group.pods for group in snapshot.counts.terms("required-anti", {"app": "none"})],
            "infos": {
                key: (info.node_name, info.live, info.requests, info.row, info.start_time, info.shape.key)
                for key, info in sorted(snapshot.pods.items())
            },
            "on": [sorted(pods) for pods in snapshot.pods_on],
        }

    def order(self) -> list[list[str]]:
        """The pods in the order in which preemption meets them."""
        return [list(self.snapshot.pods), *(list(pods) for pods in self.snapshot.pods_on)]


@settings(max_examples=300, deadline=None)
@given(histories)
@example([("put", GOES | {"deleting": False}), ("put", GOES | {"deleting": True})])
@example([("assume", GOES | {"deleting": False}), *[("put", GOES | {"deleting": going}) for going in (False, True)]])
def test_news_are_counted_as_if_all_pods_had_come_as_they_are(history: list[tuple[str, dict[str, Any]]]) -> None:
    side, long_way = Side(), Side()
    for action, state in history:
        before = side.counted()
        position = side.snapshot.position
        side.take(action, state)
        with (
            mock.patch("bayplan.scheduler.cache.keeps_shape", return_value=False),
            mock.patch("bayplan.scheduler.snapshot.snapshot.keeps_shape", return_value=False),
        ):
            long_way.take(action, state)
        after = side.counted()
        assert after == side.rebuilt().counted()
        assert after == long_way.counted()
        assert side.order() == long_way.order()
        changed = [row for row in range(2) if _of_row(before, row) != _of_row(after, row)]
        assert set(changed) <= set(side.snapshot.changed_since(position) or ())


def _of_row(counted: dict[str, Any], row: int) -> list[Any]:
    """What is counted of one node."""
    return [counted["on"][row], counted["pods"][row], *(per_row[row] for per_row in counted["counters"])]


def test_a_pod_that_goes_keeps_its_shape_and_is_counted_by_nobody_who_leaves_such_pods_out() -> None:
    side = Side()
    side.take("put", GOES | {"deleting": False})
    before = side.snapshot.pods["default/p"]
    with mock.patch("bayplan.scheduler.snapshot.shape.ShapeTable.shape", side_effect=AssertionError):
        side.take("put", GOES | {"deleting": False, "status": STATUSES[1]})
        side.take("put", GOES | {"deleting": True, "status": STATUSES[1]})
    after = side.snapshot.pods["default/p"]
    assert (before.live, before.row, after.live, after.row) == (True, -1, False, 0)
    assert after.shape is before.shape
    assert [counter[0] for counter in side.counted()["counters"]] == [1, 0, 0, 0]
