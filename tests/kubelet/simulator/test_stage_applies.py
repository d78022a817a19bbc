"""Stages that apply objects, in virtual time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.simulator.errors import StageError
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.stages.stages import Apply, Stage, object_of, read_stage
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import pod

BIND = """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ printf "of-%s" .metadata.name | Quote }}}
data: {node: {{ .spec.nodeName | Quote }}}
"""
TELL = """
apiVersion: v1
kind: Node
metadata: {name: {{ .spec.nodeName | Quote }}}
status: {capacity: {"example.com/seen": "1"}}
"""
RUNS = {"subresource": "status", "root": "status", "template": "phase: Running"}


def stage(*applies: dict[str, Any]) -> Stage:
    spec = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchExpressions": [{"key": ".status.phase", "operator": "In", "values": ["Pending"]}]},
        "steps": [*({"apply": one} for one in applies), {"patch": RUNS}],
    }
    found = read_stage({"metadata": {"name": "applies"}, "spec": spec})
    assert found is not None
    return found


async def plays(cluster: VirtualCluster) -> None:
    await cluster.client.create(pod("one"))
    await cluster.advance(seconds=30)
    phase = (await cluster.client.get(core_v1.Pod, "one", "default")).status.phase
    assert phase == "Running"


def play(found: Stage, case: Any) -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=SimulatorSettings(nodes=1, stages=(found,))) as cluster:
            await cluster.advance(seconds=5)
            await case(cluster)

    run(main())


class TestApply:
    def test_creates_in_the_namespace_of_the_pod(self) -> None:
        async def case(cluster: VirtualCluster) -> None:
            await plays(cluster)
            made = await cluster.client.get(core_v1.ConfigMap, "of-one", "default")
            assert list(made.data) == ["node"]
            assert made.data["node"] == (await cluster.client.get(core_v1.Pod, "one", "default")).spec.node_name

        play(stage({"template": BIND}), case)

    @pytest.mark.parametrize("kind", ["apply", "merge", "strategic"])
    def test_patches_what_is_there(self, kind: str) -> None:
        async def case(cluster: VirtualCluster) -> None:
            there = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "of-one"},
                "data": {"node": "?", "kept": "1"},
            }
            path = "/api/v1/namespaces/default/configmaps"
            await cluster.client.raw("POST", path, body=json.dumps(there).encode())
            await plays(cluster)
            found = await cluster.client.get(core_v1.ConfigMap, "of-one", "default")
            assert found.data["kept"] == "1"
            assert found.data["node"] not in ("", "?")
            managers = {(one.manager, one.operation) for one in found.metadata.managed_fields}
            assert (("kwok", "Apply") in managers) == (kind == "apply")

        play(stage({"template": BIND, "type": kind}), case)

    def test_a_subresource_of_another_object(self) -> None:
        async def case(cluster: VirtualCluster) -> None:
            await plays(cluster)
            name = (await cluster.client.get(core_v1.Pod, "one", "default")).spec.node_name
            node = await cluster.client.get(core_v1.Node, name)
            assert str(node.status.capacity["example.com/seen"]) == "1"

        play(stage({"template": TELL, "subresource": "status", "type": "merge"}), case)

    @pytest.mark.parametrize(
        ("template", "message"),
        [
            ("kind: ConfigMap", "no object with apiVersion and kind"),
            ("{apiVersion: v1, kind: ConfigMap, metadata: [a]}", "metadata are none"),
            ("{a: b: c}", "the template makes no YAML"),
        ],
        ids=["no version", "odd metadata", "no YAML"],
    )
    def test_what_is_no_object(self, template: str, message: str) -> None:
        action = stage({"template": template}).actions[0]
        assert isinstance(action, Apply)
        with pytest.raises(StageError, match=message):
            object_of(action, {}, {})
