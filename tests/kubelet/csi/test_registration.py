"""Drivers come and go, and Node and CSINode say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayplan.api.types import core_v1, storage_v1
from bayplan.kubelet.csi.node_info import NODE_IDS
from bayplan.kubelet.csi.registration import newest_version
from bayplan.kubelet.plugin_watcher import PluginRefused
from bayplan.testing.csi_driver import NAME
from tests.kubelet.csi.scenario import NODE, CsiNode, play

ZONE = "topology.fake.csi/zone"


def test_a_driver_is_known_while_it_is_there(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        node = await here.client.get(core_v1.Node, NODE)
        assert json.loads(node.metadata.annotations[NODE_IDS]) == {NAME: "node-0"}
        assert node.metadata.labels[ZONE] == "a"
        csi_node = await here.client.get(storage_v1.CSINode, NODE)
        (driver,) = csi_node.spec.drivers
        assert (driver.name, driver.node_id, driver.topology_keys) == (NAME, "node-0", (ZONE,))
        (owner,) = csi_node.metadata.owner_references
        assert (owner.kind, owner.uid) == ("Node", node.metadata.uid)
        await here.registration.deregister(NAME, Path("/csi.sock"))
        node = await here.client.get(core_v1.Node, NODE)
        assert NODE_IDS not in node.metadata.annotations
        assert (await here.client.get(storage_v1.CSINode, NODE)).spec.drivers == ()

    play(tmp_path, test, topology={ZONE: "a"})


def test_a_node_is_not_in_two_places(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        here.driver.topology = {ZONE: "b"}
        await here.registration.deregister(NAME, Path("/csi.sock"))
        with pytest.raises(PluginRefused, match="topology value collision"):
            await here.register()
        assert here.drivers.find(NAME) is None

    play(tmp_path, test, topology={ZONE: "a"})


def test_a_driver_that_does_not_answer_is_not_taken(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.registration.deregister(NAME, Path("/csi.sock"))
        here.driver.fail("NodeGetInfo", "INTERNAL", "no idea where I am")
        with pytest.raises(PluginRefused, match="no idea where I am"):
            await here.register()
        assert here.drivers.find(NAME) is None
        await here.register()
        assert here.drivers.get(NAME).version == (1, 0, 0)

    play(tmp_path, test)


def test_a_csi_node_of_an_earlier_node_is_made_anew(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.client.patch(
            storage_v1.CSINode,
            NODE,
            "",
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "gone"}]}},
        )
        await here.node_info.ensure()
        assert here.node_info.error == ""
        found = await here.client.get(storage_v1.CSINode, NODE)
        assert found.metadata.owner_references[0].uid == here.node.metadata.uid
        assert found.spec.drivers == ()

    play(tmp_path, test)


def test_a_second_driver_of_the_same_version_is_refused(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        assert "already registered" in here.registration.refusal(Path("/s"), NAME, "/s", ("1.0.0",))
        assert here.registration.refusal(Path("/s"), NAME, "/s", ("1.0.1",)) == ""
        assert "empty list" in here.registration.refusal(Path("/s"), "other", "/s", ())
        assert "None of the versions" in here.registration.refusal(Path("/s"), "other", "/s", ("2.0.0",))

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [(("1.0.0",), (1, 0, 0)), (("0.3", "v1.2", "1.1"), (1, 2)), (("2.0.0", "0.9.0"), (0, 9, 0)), (("x", "3.0"), None)],
)
def test_the_newest_version_that_is_known(versions: tuple[str, ...], expected: tuple[int, ...] | None) -> None:
    assert newest_version(versions) == expected
