"""Fairness between queues of pods: dominant shares, weights, quotas and borrowing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.extra.cores import Setup, sorting

LABEL = "bayplan.dev/queue"


def fair(*queues: Tree, **args: Any) -> Tree:
    return sorting("TenantFairness", queues=list(queues), **args)


def wanting(queue: str, name: str, cpu: str = "1", memory: str = "", **more: Any) -> Tree:
    return pod(name, cpu=cpu, memory=memory, labels={LABEL: queue}, **more)


def counts(names: list[str]) -> dict[str, int]:
    return {queue: sum(1 for name in names if name.startswith(queue)) for queue in ("a", "b", "c")}


def test_shares_are_those_of_the_paper() -> None:
    """9 cpu and 18 GiB; tasks of 1 cpu and 4 GiB, and of 3 cpu and 1 GiB: three and two of them."""
    pods = [wanting("a", f"a{number}", "1", "4Gi") for number in range(5)]
    pods += [wanting("b", f"b{number}", "3", "1Gi") for number in range(5)]
    setup = Setup(fair(), node("n", cpu="9", memory="18Gi"), *pods)
    assert counts(setup.placed()) == {"a": 3, "b": 2, "c": 0}


def test_who_came_first_does_not_get_more() -> None:
    pods = [wanting("a", f"a{number}") for number in range(20)] + [wanting("b", f"b{number}") for number in range(4)]
    setup = Setup(fair(), node("n", cpu="8", memory="64Gi"), *pods)
    assert setup.placed() == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]


def test_a_weight_of_three_is_three_times_as_much() -> None:
    pods = [wanting(queue, f"{queue}{number}") for queue in "ab" for number in range(20)]
    setup = Setup(fair({"name": "a", "weight": 3}), node("n", cpu="8", memory="64Gi"), *pods)
    assert counts(setup.placed()) == {"a": 6, "b": 2, "c": 0}


def test_within_a_queue_priority_comes_first() -> None:
    pods = [wanting("a", "a0"), wanting("a", "a1", priority=5), wanting("b", "b0")]
    assert Setup(fair(), node("n"), *pods).placed() == ["a1", "b0", "a0"]


def test_pods_that_run_count_and_those_that_end_do_not() -> None:
    there = [wanting("a", f"old{number}", on="n") for number in range(2)]
    setup = Setup(fair(), node("n", cpu="5", memory="64Gi"), *there)
    for one in [wanting(queue, f"{queue}{number}") for queue in "ab" for number in range(5)]:
        setup.see(one)
    assert setup.placed() == ["b0", "b1", "a0"]
    setup.gone("old0")
    setup.gone("old1")
    setup.clock.seconds += 20
    assert setup.placed() == ["a1", "b2"]


def test_the_queue_of_a_pod_without_the_label_is_its_namespace() -> None:
    one = pod("p", cpu="1")
    one["metadata"]["namespace"] = "team"
    setup = Setup(fair({"name": "team", "quota": {"cpu": "500m"}}), node("n"))
    assert setup.why(one).startswith('queue "team" would use 1 cpu of its quota of 500m')


def test_only_named_resources_are_compared() -> None:
    pods = [wanting("a", f"a{number}", "1", "4Gi") for number in range(5)]
    pods += [wanting("b", f"b{number}", "1", "1Gi") for number in range(5)]
    setup = Setup(fair(resources=["cpu"]), node("n", cpu="4", memory="64Gi"), *pods)
    assert counts(setup.placed()) == {"a": 2, "b": 2, "c": 0}


def test_a_queue_borrows_what_others_leave_of_their_quotas() -> None:
    quotas = [{"name": name, "quota": {"cpu": "2"}} for name in "ab"]
    pods = [wanting("a", f"a{number}") for number in range(6)]
    setup = Setup(fair(*quotas), node("n", cpu="8", memory="64Gi"), *pods)
    assert counts(setup.placed()) == {"a": 4, "b": 0, "c": 0}, "all of both quotas, though the node has more"
    assert setup.why(wanting("a", "a9")) == ('queue "a" would use 5 cpu of its quota of 2, and all queues leave 0')
    assert setup.why(wanting("b", "b9")) == "", "its own quota it has, whoever has borrowed it"


def test_a_queue_has_its_quota_to_the_full_whatever_others_have_borrowed() -> None:
    quotas = [{"name": name, "quota": {"cpu": "2"}} for name in "ab"]
    there = [wanting("b", "b0", "3", on="n"), wanting("a", "a0", on="n")]
    setup = Setup(fair(*quotas), node("n", cpu="8", memory="64Gi"), *there)
    assert setup.why(wanting("a", "a1")) == ""
    assert setup.why(wanting("a", "a1", "1001m")).endswith("and all queues leave 0")


def test_what_no_node_has_does_not_count_for_the_share() -> None:
    there = wanting("a", "old", on="n")
    there["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "3"
    without = node("n", cpu="4")
    without["status"]["allocatable"]["example.com/gpu"] = "0"
    setup = Setup(fair(), without, there, wanting("a", "a0"), wanting("b", "b0"), wanting("a", "a1"))
    assert setup.placed() == ["b0", "a0", "a1"]


def test_a_queue_borrows_no_more_than_its_limit() -> None:
    quotas = [
        {"name": "a", "quota": {"cpu": "2"}, "borrowingLimit": {"cpu": "1"}},
        {"name": "b", "quota": {"cpu": "2"}},
    ]
    pods = [wanting("a", f"a{number}") for number in range(6)]
    setup = Setup(fair(*quotas), node("n", cpu="8", memory="64Gi"), *pods)
    assert counts(setup.placed()) == {"a": 3, "b": 0, "c": 0}
    assert setup.why(wanting("a", "a9")) == 'queue "a" would use 4 cpu of its quota of 2 and may borrow 1'


def test_pods_over_quota_come_in_when_others_end() -> None:
    pods = [wanting("a", f"a{number}") for number in range(4)]
    setup = Setup(fair({"name": "a", "quota": {"cpu": "2"}}), node("n", cpu="8", memory="64Gi"), *pods)
    assert setup.placed() == ["a0", "a1"]
    setup.clock.seconds += 600
    assert setup.placed() == [], "time alone helps nobody"
    setup.gone("a0")
    setup.clock.seconds += 20
    assert setup.placed() == ["a2"]


def test_a_pod_that_was_refused_when_it_was_tried_waits_for_its_quota() -> None:
    pods = [wanting("a", f"a{number}") for number in range(3)]
    setup = Setup(fair({"name": "a", "quota": {"cpu": "2"}}), node("n", cpu="8", memory="64Gi"), *pods)
    assert setup.placed() == ["a0", "a1"]
    setup.gone("a0")
    setup.clock.seconds += 2
    assert setup.placed() == ["a2"]


def test_a_queue_with_less_goes_first_even_if_its_pods_are_in_back_off() -> None:
    there = [wanting("a", f"old{number}", on="n") for number in range(2)]
    setup = Setup(fair(), node("n", cpu="2", memory="64Gi"), *there, wanting("b", "b0"))
    assert setup.placed() == []
    setup.see(wanting("a", "a0"))
    setup.gone("old0")
    assert setup.core.queue.sizes()["backoff"] == 1
    assert setup.placed() == ["b0"]


def test_a_queue_with_more_does_not_go_first_because_it_is_in_back_off() -> None:
    there = [wanting("a", "old0", on="n"), wanting("c", "old1", on="n")]
    setup = Setup(fair(), node("n", cpu="2", memory="64Gi"), *there, wanting("a", "a0"))
    assert setup.placed() == []
    setup.see(wanting("b", "b0"))
    setup.gone("old1")
    assert setup.placed() == ["b0"]


def test_a_resource_without_a_quota_is_not_limited() -> None:
    setup = Setup(fair({"name": "a", "quota": {"cpu": "2"}}), node("n", memory="64Gi"))
    assert setup.why(wanting("a", "a0", "1", "32Gi")) == ""
    assert setup.why(wanting("c", "c0", "4")) == ""


@pytest.mark.parametrize("seed", range(10))
def test_the_shares_that_are_kept_are_those_of_a_recount(seed: int) -> None:
    source = random.Random(seed)
    setup = Setup(fair(), *(node(f"n{number}", cpu="8", memory="64Gi") for number in range(6)))
    plugin: Any = setup.core.cycles["default-scheduler"].profile.plugins["TenantFairness"]
    for step in range(40):
        if setup.pods and source.random() < 0.4:
            setup.gone(name := source.choice(sorted(setup.pods)))
            del setup.pods[name]
        else:
            queue, size = source.choice("abc"), str(source.randint(1, 3))
            setup.see(wanting(queue, f"p{step}", size, on=f"n{source.randrange(6)}"))
        for queue in "abc":
            used = sum(
                int(one.spec.containers[0].resources.requests["cpu"])
                for one in setup.pods.values()
                if one.metadata.labels[LABEL] == queue
            )
            assert plugin.share(queue) == used / 48


def test_pods_that_want_nothing_of_what_is_over_quota_come_in() -> None:
    there = [wanting("a", f"old{number}", on="n") for number in range(2)]
    setup = Setup(fair({"name": "a", "quota": {"cpu": "1"}}), node("n", cpu="8", memory="64Gi"), *there)
    assert setup.why(wanting("a", "a0")).startswith('queue "a" would use 3 cpu of its quota of 1')
    assert setup.why(pod("light", memory="1Gi", labels={LABEL: "a"})) == ""
