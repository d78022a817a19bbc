"""From the decision to the binding: Reserve, Permit, PreBind, Bind, PostBind, and Unreserve when something fails."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from bayplan.scheduler.binding import Changes, carry_out
from bayplan.scheduler.binding_cycle import Failure
from bayplan.scheduler.core import Outcome
from bayplan.scheduler.framework.extension_points import (
    Actions,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
)
from bayplan.scheduler.framework.state import CycleState, PodInfo
from bayplan.scheduler.framework.verdicts import ActionError, PluginError, Reject, Status
from bayplan.scheduler.framework.waiting import go_duration
from bayplan.scheduler.library import typed
from bayplan.support.clock import SystemClock
from tests.scheduler.installing import install
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.test_core import Setup


class Recorder(ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin):
    """Writes down when it is called; answers as the test wishes."""

    name: ClassVar[str] = "First"
    calls: ClassVar[list[str]] = []
    answers: ClassVar[dict[str, Any]] = {}

    def _answer(self, point: str) -> Any:
        self.calls.append(f"{self.name} {point}")
        answer = self.answers.get(f"{self.name} {point}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | None:
        state.own[self.name] = f"{pod.key} on {node_name}"
        answer: Reject | None = self._answer("reserve")
        return answer

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer("unreserve")

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | float | None:
        answer: Reject | float | None = self._answer("permit")
        return answer

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, actions: Actions) -> Reject | None:
        answer: Reject | None = self._answer(f"pre-bind {state.own[self.name]}")
        return answer

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer("post-bind")


class Second(Recorder):
    """Runs after the first."""

    name: ClassVar[str] = "Second"


class Binder(Actions):
    """An API that binds, or refuses to."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.bound: list[str] = []

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        if self.refusal:
            raise ActionError(self.refusal, 409)
        self.bound.append(f"{pod.key} on {node_name}")

    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        raise AssertionError("nothing is to be updated")

    async def get(self, cls: type[Any], name: str, namespace: str = "") -> Any:
        raise AssertionError("nothing is to be read")

    async def create(self, obj: Any) -> Any:
        raise AssertionError("nothing is to be created")

    async def delete(self, obj: Any) -> None:
        raise AssertionError("nothing is to be deleted")

    def now(self) -> float:
        return 0.0

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        raise AssertionError("nothing is to be waited for")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Tree:
    Recorder.calls.clear()
    Recorder.answers.clear()
    plugins: list[type[Plugin]] = [Recorder, Second]
    return install(monkeypatch, plugins)


def attempt(setup: Setup) -> Outcome:
    outcome = setup.core.schedule_one()
    assert outcome is not None
    return outcome


def with_one_pod(config: Tree | None) -> Setup:
    setup = Setup(config)
    setup.see("Node", node("a", cpu="1"))
    setup.see("Pod", pod("p", cpu="600m"))
    return setup


def finish(outcome: Outcome, actions: Actions, then: Callable[[], None] | None = None) -> Failure | None:
    """Run the rest of a binding cycle; `then` happens while it waits."""

    async def main() -> Failure | None:
        assert outcome.binding_cycle is not None
        binding_cycle = outcome.binding_cycle
        task = asyncio.create_task(carry_out(binding_cycle, actions, SystemClock(), committed=lambda: None))
        await asyncio.sleep(0)
        if then is not None:
            then()
        return await task

    return asyncio.run(asyncio.wait_for(main(), 5))


def test_plugins_run_in_order_and_keep_what_they_know_of_the_pod(config: Tree) -> None:
    setup = with_one_pod(config)
    binder = Binder()
    assert finish(attempt(setup), binder) is None
    assert binder.bound == ["default/p on a"]
    assert Recorder.calls == [
        "First reserve",
        "Second reserve",
        "First permit",
        "Second permit",
        "First pre-bind default/p on a",
        "Second pre-bind default/p on a",
        "First post-bind",
        "Second post-bind",
    ]


def test_a_pod_that_no_plugin_cares_about_takes_no_passage() -> None:
    assert attempt(with_one_pod(None)).binding_cycle is None


def test_a_refusal_of_reserve_unreserves_all_in_reverse_order_and_frees_the_node(config: Tree) -> None:
    Recorder.answers["First reserve"] = Reject(Status.UNSCHEDULABLE, ("taken meanwhile",))
    setup = with_one_pod(config)
    outcome = attempt(setup)
    assert (outcome.binding_cycle, outcome.decision.scheduled) == (None, False)
    assert outcome.decision.message == "0/1 nodes are available: 1 taken meanwhile."
    assert outcome.decision.reason == "Unschedulable"
    assert Recorder.calls == ["First reserve", "Second unreserve", "First unreserve"]
    assert setup.core.snapshot.requested[0, 0] == 0
    queued = setup.core.queue.get("default/p")
    assert queued is not None
    assert queued.rejected_by == ("First",)


def test_a_failure_of_reserve_is_a_scheduler_error_and_is_tried_again_after_back_off(config: Tree) -> None:
    Recorder.answers["Second reserve"] = PluginError("Second", "broken")
    setup = with_one_pod(config)
    outcome = attempt(setup)
    assert outcome.decision.message == 'running Reserve plugin "Second": broken'
    assert outcome.decision.reason == "SchedulerError"
    assert setup.core.queue.sizes()["backoff"] == 1


def test_permit_can_refuse_at_once(config: Tree) -> None:
    Recorder.answers["Second permit"] = Reject(Status.UNSCHEDULABLE, ("not today",))
    outcome = attempt(with_one_pod(config))
    assert outcome.decision.message == "0/1 nodes are available: 1 not today."
    assert Recorder.calls[-2:] == ["Second unreserve", "First unreserve"]


def test_a_pod_waits_until_every_plugin_has_approved(config: Tree) -> None:
    Recorder.answers |= {"First permit": 60.0, "Second permit": 60.0}
    setup = with_one_pod(config)
    outcome = attempt(setup)
    binder = Binder()
    waiting = setup.core.waiting.get("uid-p")
    assert waiting is not None

    def approve() -> None:
        waiting.allow("First")
        assert (waiting.settled, binder.bound) == (False, [])
        waiting.allow("Second")

    assert finish(outcome, binder, approve) is None
    assert binder.bound == ["default/p on a"]
    assert len(setup.core.waiting) == 0


def test_a_waiting_pod_that_is_refused_waits_for_the_plugin_that_refused(config: Tree) -> None:
    Recorder.answers["First permit"] = 60.0
    setup = with_one_pod(config)
    outcome = attempt(setup)
    waiting = setup.core.waiting.get("uid-p")
    assert waiting is not None
    failure = finish(outcome, Binder(), lambda: waiting.reject("First", "the gang is incomplete"))
    assert failure is not None
    assert failure.message == "0/1 nodes are available: 1 the gang is incomplete."
    setup.core.binding_failed(outcome.queued.pod, failure)
    assert setup.core.snapshot.requested[0, 0] == 0
    assert setup.core.queue.sizes()["unschedulable"] == 1


def test_a_wait_ends_when_its_time_is_over(config: Tree) -> None:
    Recorder.answers |= {"First permit": 0.02, "Second permit": 60.0}
    failure = finish(attempt(with_one_pod(config)), Binder())
    assert failure is not None
    assert failure.reject.reasons == ("rejected due to timeout after waiting 20ms at plugin First",)


def test_a_deleted_pod_waits_no_longer(config: Tree) -> None:
    Recorder.answers["First permit"] = 60.0
    setup = Setup(config)
    setup.see("Node", node("a", cpu="1"))
    pending = setup.see("Pod", pod("p"))
    failure = finish(attempt(setup), Binder(), lambda: setup.gone("Pod", pending))
    assert failure is not None
    assert failure.reject.reasons == ("removed",)


@pytest.mark.parametrize(
    ("point", "error", "message"),
    [
        ("pre-bind default/p on a", PluginError("Second", "no volume"), 'running PreBind plugin "Second": no volume'),
        ("pre-bind default/p on a", ValueError("bug"), 'running PreBind plugin "Second": ValueError: bug'),
    ],
)
def test_a_failure_of_pre_bind_undoes_everything(config: Tree, point: str, error: Exception, message: str) -> None:
    Recorder.answers[f"Second {point}"] = error
    setup = with_one_pod(config)
    outcome = attempt(setup)
    failure = finish(outcome, Binder())
    assert failure is not None
    assert (failure.reason, failure.unfit) == ("SchedulerError", False)
    assert re.fullmatch(rf"{re.escape(message)}( \(test_binding_cycle\.py:\d+\))?", failure.message)
    assert Recorder.calls[-2:] == ["Second unreserve", "First unreserve"]
    setup.core.binding_failed(outcome.queued.pod, failure)
    assert setup.core.queue.sizes()["backoff"] == 1


def test_a_refused_binding_says_what_the_server_said(config: Tree) -> None:
    failure = finish(attempt(with_one_pod(config)), Binder("pod p is already assigned"))
    assert failure is not None
    assert failure.message == 'running Bind plugin "DefaultBinder": pod p is already assigned'
    assert Recorder.calls[-2:] == ["Second unreserve", "First unreserve"]


def test_the_place_of_a_refused_pod_wakes_others_but_not_itself(config: Tree) -> None:
    Recorder.answers["First permit"] = 60.0
    setup = with_one_pod(config)
    outcome = attempt(setup)
    setup.see("Pod", pod("q", cpu="600m"))
    assert not attempt(setup).decision.scheduled
    waiting = setup.core.waiting.get("uid-p")
    assert waiting is not None
    failure = finish(outcome, Binder(), lambda: waiting.reject("First", "no"))
    assert failure is not None
    setup.core.binding_failed(outcome.queued.pod, failure)
    sizes = setup.core.queue.sizes()
    assert (sizes["unschedulable"], sizes["backoff"]) == (1, 1)


def test_a_change_of_an_assumed_pod_is_known_when_it_comes_back(config: Tree) -> None:
    Recorder.answers["Second permit"] = Reject(Status.UNSCHEDULABLE, ("no",))
    setup = Setup(config)
    setup.see("Node", node("a", cpu="1"))
    pending = setup.see("Pod", pod("p"))
    setup.core.queue.pop()
    setup.core.cache.assume(setup.core.snapshot.pod_info(pending), "a")
    tree = pod("p")
    tree["status"]["nominatedNodeName"] = "a"
    setup.core.handle("Pod", pending, typed("Pod", tree))
    queued = setup.core.queue.get("default/p")
    assert queued is not None
    assert queued.pod.pod.status.nominated_node_name == "a"


def test_waiting_for_a_condition_ends_with_the_condition_or_with_time() -> None:
    async def main() -> None:
        changes, facts = Changes(SystemClock()), list[str]()
        waiter = asyncio.create_task(changes.wait_until(lambda: "bound" in facts, 5))
        await asyncio.sleep(0)
        changes.tell()
        await asyncio.sleep(0)
        assert not waiter.done()
        facts.append("bound")
        changes.tell()
        assert await waiter
        started = time.monotonic()
        assert not await changes.wait_until(lambda: False, 0.01)
        assert time.monotonic() - started < 1

    asyncio.run(asyncio.wait_for(main(), 5))


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5s"), (90, "1m30s"), (300, "5m0s"), (3600.5, "1h0m0.5s"), (0.02, "20ms"), (0, "0s")]
)
def test_durations_read_as_in_go(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
