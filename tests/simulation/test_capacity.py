"""How many more pods fit, and how many nodes are missing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.cli.main import main
from bayplan.cluster.manifests.unserved import UnservedKinds
from bayplan.simulation.questions.capacity import capacity, mix_capacity
from bayplan.simulation.snapshots.planner import QuestionError, node_shape, pod_named, pod_of_file, pod_of_requests
from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.testing.builders import container, deployment, node, pod, selector, taint, template
from tests.simulation.objects import copy_of, running


def daemon(cpu: str) -> apps_v1.DaemonSet:
    made = apps_v1.DaemonSet(metadata=meta_v1.ObjectMeta(name="agent", namespace="kube-system"))
    made.spec.template = template({"app": "agent"}, cpu=cpu)
    return made


def test_what_fits_is_counted_per_node() -> None:
    copy = copy_of(node("a", cpu="2"), node("b", cpu="1"), running("p", "a", cpu="500m"))
    answer = capacity(copy, pod_of_requests({"cpu": "500m"}))
    assert (answer.room.per_node, answer.enough) == ({"a": 3, "b": 2}, True)
    assert answer.spread() == [(3, 1), (2, 1)]


def test_missing_nodes_are_counted_with_their_daemons() -> None:
    copy = copy_of(node("a", cpu="2"), daemon("500m"))
    answer = capacity(copy, pod_of_requests({"cpu": "1"}), wanted=5, shape=lambda: node_shape(copy))
    assert answer.missing is not None
    assert (answer.room.total, answer.missing.nodes, answer.missing.per_node) == (2, 3, 1)


def test_one_node_less_than_said_is_not_enough() -> None:
    copy = copy_of(node("a", cpu="4"))
    answer = capacity(
        copy, pod_of_requests({"cpu": "1500m"}), wanted=23, shape=lambda: node_shape(copy, "", {"cpu": "8"})
    )
    assert answer.missing is not None
    assert (answer.missing.nodes, answer.missing.per_node) == (5, 5)  # 2 are there already, 21 = 4 * 5 + 1


def test_pods_that_exclude_one_another_need_a_node_each() -> None:
    term = core_v1.PodAffinityTerm(label_selector=selector({"app": "x"}), topology_key="kubernetes.io/hostname")
    apart = core_v1.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    asked = pod("x", meta={"labels": {"app": "x"}}, affinity=core_v1.Affinity(pod_anti_affinity=apart))
    copy = copy_of(node("a"), node("b"))
    answer = capacity(copy, asked, wanted=6, shape=lambda: node_shape(copy))
    assert answer.missing is not None
    assert (answer.room.total, answer.missing.nodes) == (2, 4)


def test_nodes_that_never_help_are_said_to() -> None:
    copy = copy_of(node("a", cpu="2"))
    answer = capacity(copy, pod_of_requests({"cpu": "3"}), wanted=1, shape=lambda: node_shape(copy))
    assert answer.missing is not None
    assert answer.missing.nodes == -1
    assert answer.missing.limits[0].reasons == ("Insufficient cpu",)


def test_the_usual_node_is_one_that_takes_pods() -> None:
    closed = [node(f"c{number}", cpu="64", taints=(taint("only", "NoSchedule"),)) for number in range(3)]
    assert node_shape(copy_of(*closed, node("open", cpu="8"))).base.metadata.name == "open"


def test_added_nodes_take_turns_over_the_zones() -> None:
    zone = "topology.kubernetes.io/zone"
    copy = copy_of(*(node(name, meta={"labels": {zone: name}}) for name in "ab"))
    shape = node_shape(copy)
    assert [shape.node(number).metadata.labels[zone] for number in (1, 2, 3)] == ["a", "b", "a"]


def test_a_mix() -> None:
    copy = copy_of(node("a", cpu="4"))
    answer = mix_capacity(copy, [(pod("x", cpu="1"), 1), (pod("y", cpu="500m"), 2)], wanted=3)
    assert (answer.answer.sets, answer.enough, answer.to_dict()["fits"]) == (2, False, {"default/x": 2, "default/y": 4})


def test_a_pod_that_is_not_there_is_named_with_one_that_is() -> None:
    with pytest.raises(QuestionError, match="no pod wen in namespace default; did you mean web"):
        pod_named(copy_of(node("a"), running("web", "a")), "wen")


def limits(cpu: str, **more: dict[str, Any]) -> core_v1.LimitRange:
    amounts: dict[str, Any] = {"cpu": cpu}
    item = core_v1.LimitRangeItem(type="Container", default_request=amounts, default=amounts, **more)
    metadata = meta_v1.ObjectMeta(name="usual", namespace="default")
    return core_v1.LimitRange(metadata=metadata, spec=core_v1.LimitRangeSpec(limits=(item,)))


def quota(name: str, hard: dict[str, Any], used: dict[str, Any] | None = None, **spec: Any) -> core_v1.ResourceQuota:
    status = core_v1.ResourceQuotaStatus(hard=hard if used is not None else {}, used=used or {})
    metadata = meta_v1.ObjectMeta(name=name, namespace="default")
    return core_v1.ResourceQuota(metadata=metadata, spec=core_v1.ResourceQuotaSpec(hard=hard, **spec), status=status)


def file_of(directory: Path, *objects: Any) -> str:
    file = directory / "pod.json"
    trees = [json.loads(line) for line in gzip.decompress(to_bytes(copy_of(*objects))).splitlines()[1:]]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": trees}))
    return str(file)


def test_a_pod_of_a_manifest_gets_the_defaults_of_its_namespace(tmp_path: Path) -> None:
    copy = copy_of(node("a", cpu="4"), limits("1500m"))
    file = file_of(tmp_path, deployment("web", 1, pod_spec={"containers": (container(),)}))
    made = pod_of_file(file, copy, UnservedKinds())
    assert capacity(copy, made).room.total == 2
    assert made.spec.containers[0].resources.limits == {"cpu": "1500m"}


def test_daemons_on_added_nodes_get_the_defaults_of_their_namespace() -> None:
    copy = copy_of(node("a", cpu="4"), replace(daemon(""), metadata=meta_v1.ObjectMeta(name="x", namespace="default")))
    copy.objects["LimitRange"] = [limits("3")]
    answer = capacity(copy, pod_of_requests({"cpu": "1"}), wanted=6, shape=lambda: node_shape(copy))
    assert answer.missing is not None
    assert answer.missing.per_node == 1


@pytest.mark.parametrize(
    ("hard", "used", "allowed", "why"),
    [
        ({"pods": "5"}, {"pods": "2"}, 3, "pods: 2 of 5 used, 1 more each"),
        (
            {"requests.cpu": "3", "pods": "9"},
            {"requests.cpu": "1500m"},
            1,
            "requests.cpu: 1500m of 3 used, 1 more each",
        ),
        ({"requests.cpu": "3"}, None, 2, "requests.cpu: 500m of 3 used, 1 more each"),
        ({"pods": "1"}, {"pods": "7"}, 0, "pods: 7 of 1 used, 1 more each"),
        ({"limits.memory": "1Gi"}, {}, 0, "must specify limits.memory for: main"),
    ],
)
def test_a_quota_that_allows_fewer_than_fit_is_named(
    hard: dict[str, Any], used: dict[str, Any] | None, allowed: int, why: str
) -> None:
    copy = copy_of(
        node("a", cpu="16"), running("p", "a", cpu="500m"), quota("team", hard, used), quota("wide", {"pods": "99"})
    )
    answer = capacity(copy, pod("x", cpu="1"), wanted=4)
    assert answer.room.total == 15
    assert not answer.enough
    assert answer.missing is None
    assert answer.to_dict()["allowed"] == {"pods": allowed, "by": "ResourceQuota default/team", "why": why}


def test_a_quota_that_allows_enough_is_not_mentioned() -> None:
    copy = copy_of(
        node("a", cpu="2"), quota("team", {"pods": "5"}), quota("other", {"pods": "0"}, scopes=("BestEffort",))
    )
    answer = capacity(copy, pod("x", cpu="1"))
    assert (answer.room.total, answer.allowed, "allowed" in answer.to_dict()) == (2, None, False)


def test_what_a_limit_range_forbids_is_not_allowed() -> None:
    most: dict[str, Any] = {"cpu": "2"}
    copy = copy_of(node("a", cpu="16"), limits("1", max=most))
    answer = capacity(copy, pod("x", cpu="4"))
    assert answer.allowed is not None
    assert (answer.allowed.pods, answer.allowed.by, answer.enough) == (0, "LimitRange default/usual", False)
    assert "maximum cpu usage per Container is 2" in answer.allowed.why


def test_a_quota_counts_all_pods_of_a_mix() -> None:
    copy = copy_of(node("a", cpu="16"), quota("team", {"requests.cpu": "7"}))
    answer = mix_capacity(copy, [(pod("x", cpu="1"), 1), (pod("y", cpu="500m"), 2)], wanted=4)
    assert answer.allowed is not None
    assert (answer.answer.sets, answer.allowed.pods, answer.enough) == (8, 3, False)


def test_the_command_names_the_quota(tmp_path: Path) -> None:
    file = tmp_path / "copy"
    file.write_bytes(to_bytes(copy_of(node("a", cpu="4"), quota("team", {"pods": "3"}, {"pods": "1"}))))
    page = tmp_path / "page.html"
    arguments = ["capacity", "--cluster", str(file), "--cpu", "1", "--replicas", "3", "--html", str(page)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "ResourceQuota default/team allows 2 of them (pods: 1 of 3 used, 1 more each)" in result.output
    assert "do not fit" not in result.output
    assert "ResourceQuota default/team allows" in page.read_text()
