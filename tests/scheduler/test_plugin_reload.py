"""Plugins from files that change while the scheduler runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types.core_v1 import Pod
from bayplan.scheduler import registry
from bayplan.scheduler.core import Outcome, SchedulerCore
from bayplan.scheduler.development.plugin_files import PluginFileError, PluginFiles
from bayplan.scheduler.development.plugin_reload import PluginReload
from bayplan.scheduler.library import typed
from bayplan.scheduler.service import SchedulerService
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from tests.scheduler.objects import node, pod
from tests.scheduler.queueing.test_queue import Clock
from tests.scheduler.running import World, play

PLUGIN = """
from bayplan.scheduler.framework.extension_points import ScalarFilterPlugin, Scope
from bayplan.scheduler.framework.verdicts import Status


class KeepOff(ScalarFilterPlugin):
    name = "KeepOff"
    filter_scope = Scope.NODE

    def filter_node(self, state, pod, row):
        {body}
        if self.snapshot.nodes[row].metadata.name not in {nodes!r}:
            return 0
        return self.reasons.code(Status.UNSCHEDULABLE, self.name, "kept off")
"""


def text(*nodes: str, body: str = "pass") -> str:
    return PLUGIN.format(nodes=nodes, body=body)


class Setup:
    """A core with two nodes and a plugin from a file."""

    def __init__(self, directory: Path, source: str = text("a")) -> None:
        self.path = directory / "keep_off.py"
        self.path.write_text(source)
        self.clock = Clock()
        self.reload = PluginReload(PluginFiles([self.path]), None)
        self.core = SchedulerCore(self.reload.settings(), self.clock, random.Random(1))
        for name in ("a", "b"):
            self.core.handle("Node", None, typed("Node", node(name)))

    def add(self, name: str, **labels: str) -> Pod:
        made: Pod = typed("Pod", pod(name, cpu="100m", labels=labels))
        self.core.handle("Pod", None, made)
        return made

    def decide(self) -> Outcome | None:
        """As the service does."""
        self.reload.look(self.core)
        outcome = self.core.schedule_one()
        if outcome is not None:
            self.reload.decided(self.core, outcome.decision)
        return outcome

    def node_of(self, name: str, **labels: str) -> str | None:
        self.add(name, **labels)
        outcome = self.decide()
        assert outcome is not None
        return outcome.decision.node


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    made = Setup(tmp_path)
    yield made
    made.reload.close()
    assert not registry.is_known("KeepOff")


def test_a_changed_file_counts_from_the_next_decision_on(setup: Setup) -> None:
    assert setup.node_of("one") == "b"
    setup.path.write_text(text("b"))
    assert setup.node_of("two") == "a"
    setup.path.write_text(text("a"))
    assert setup.node_of("three") == "b"


def test_pods_that_wait_are_tried_again(setup: Setup) -> None:
    setup.path.write_text(text("a", "b"))
    assert setup.node_of("one") is None
    assert setup.decide() is None
    setup.path.write_text(text("b"))
    outcome = setup.decide()
    assert outcome is not None
    assert outcome.decision.node == "a"


def test_a_file_that_cannot_be_loaded_is_named_and_the_last_good_plugin_goes_on(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    for broken in ("class KeepOff(", "x = 1", text("b").replace("name = ", "name = nobody + ")):
        setup.path.write_text(broken)
        caplog.clear()
        assert setup.node_of(f"pod-{len(broken)}") == "b"
        assert str(setup.path) in caplog.text
        caplog.clear()
        setup.decide()
        assert not caplog.text
    setup.path.write_text(text("b"))
    assert setup.node_of("mended") == "a"


def test_a_plugin_that_fails_in_its_first_decision_is_named_and_the_pod_placed_by_the_last_good_one(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.path.write_text(text("b", body="self.nobody()"))
    setup.add("one")
    first = setup.decide()
    assert first is not None
    assert first.decision.error_plugin == "KeepOff"
    assert "plugin KeepOff failed: AttributeError" in first.decision.error
    assert "plugin KeepOff failed, and is as it was before" in caplog.text
    setup.clock.seconds += 100
    again = setup.decide()
    assert again is not None
    assert again.decision.node == "b"


def test_a_version_that_failed_from_the_beginning_is_nothing_to_go_back_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refuses_one = 'if pod.labels.get("odd"): raise LookupError("odd")'
    setup = Setup(tmp_path, text("a", body="self.nobody()"))
    with closing(setup.reload):
        assert setup.node_of("one") is None
        assert "plugin KeepOff failed in its first decision: plugin KeepOff failed: AttributeError" in caplog.text
        setup.path.write_text(text("a", body=refuses_one))
        assert setup.node_of("two", odd="yes") is None
        assert setup.node_of("three") == "b"
        caplog.clear()
        setup.path.write_text(text("b", body="self.nobody()"))
        assert setup.node_of("four") is None
        assert "is as it was before" in caplog.text
        assert setup.node_of("five") == "b"


def test_a_plugin_that_cannot_be_made_stays_as_it_was(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    made = "    def __init__(self, args, handle):\n        raise TypeError('no such argument')\n"
    setup.path.write_text(text("b").replace("    def filter_node", f"{made}\n    def filter_node"))
    assert setup.node_of("one") == "b"
    assert "no such argument" in caplog.text


def test_a_file_that_is_away_for_a_moment_is_no_change(setup: Setup) -> None:
    before = setup.path.read_text()
    setup.path.unlink()
    assert setup.node_of("one") == "b"
    setup.path.write_text(before)
    assert setup.node_of("two") == "b"


def test_a_file_that_is_broken_from_the_beginning_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    with pytest.raises(PluginFileError, match="No such file"):
        PluginFiles([path])
    path.write_text("1 +")
    with pytest.raises(PluginFileError, match="SyntaxError"):
        PluginFiles([path])
    path.write_text(text("a").replace("def filter_node", "def filter_nodes"))
    with pytest.raises(PluginFileError, match="KeepOff is no plugin yet: it lacks filter_node"):
        PluginFiles([path])


def test_a_running_scheduler_takes_a_changed_file(tmp_path: Path) -> None:
    path, config = tmp_path / "keep_off.py", tmp_path / "config.yaml"
    path.write_text(text("a", "b"))
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: mine}]\n"
    )

    async def story(world: World) -> None:
        service = SchedulerService(
            world.client,
            clock=SystemClock(),
            randomness=SeededRandomness("reload"),
            metrics=Registry(),
            config=config,
            plugins=PluginFiles([path]),
        )
        running = asyncio.create_task(service.run())
        tree: dict[str, Any] = pod("p", cpu="100m")
        tree["spec"]["schedulerName"] = "mine"
        await world.create(node("a"), node("b"), tree)
        assert "2 kept off" in await world.refused("p", "kept off")
        path.write_text(text("a"))
        assert await world.bound("p") == "b"
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    play(story)
