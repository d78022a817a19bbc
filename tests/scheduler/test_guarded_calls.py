"""Plugins of other people that fail before and after the decision: the pod names them, and the scheduler goes on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from bayplan.scheduler import guards
from bayplan.scheduler.core import Outcome
from bayplan.scheduler.framework import extension_points as points
from bayplan.scheduler.framework.events import Action, EventHint
from bayplan.scheduler.framework.extension_points import FilterPlugin, QueueSortPlugin
from bayplan.scheduler.framework.placements import PlacementGeneratePlugin
from bayplan.scheduler.framework.state import CycleState, PodInfo, PodShape
from bayplan.scheduler.framework.verdicts import ActionError, Codes, Reject, Status
from bayplan.scheduler.guarded_calls import guard_calls
from bayplan.scheduler.snapshot.labels import Rows
from bayplan.support.time_limit import TimeLimit
from tests.scheduler.installing import install
from tests.scheduler.objects import node, pod
from tests.scheduler.test_core import Setup

Deed = Callable[[], Any]


def raising() -> Any:
    raise LookupError("no such thing")


def leaving() -> Any:
    sys.exit(7)


def looping() -> Any:
    while True:
        try:
            sum(range(100))
        except Exception:
            sum(range(10))


class Odd(points.ReservePlugin, points.PermitPlugin, points.PreBindPlugin, points.PostBindPlugin, FilterPlugin):
    """Does at one of its methods what a test says, for pods labelled `odd`."""

    name = "Odd"
    method = ""
    deed: Deed = staticmethod(raising)

    def _at(self, method: str, pod: PodInfo | PodShape, otherwise: Any = None) -> Any:
        shape = pod.shape if isinstance(pod, PodInfo) else pod
        return self.deed() if method == self.method and "odd" in shape.labels else otherwise

    def concerns(self, pod: PodShape) -> bool:
        return bool(self._at("concerns", pod, True))

    def reads(self, pod: PodShape) -> Any:
        return self._at("reads", pod)

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        found: Codes = self.snapshot.pod_count[rows] * 0
        return self._at("filter", pod, found.astype("int32"))  # type: ignore[no-any-return]

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | None:
        return self._at("reserve", pod)  # type: ignore[no-any-return]

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._at("unreserve", pod)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | float | None:
        refused = Reject(Status.UNSCHEDULABLE, ("later",)) if self.method == "unreserve" else None
        return self._at("permit", pod, refused)  # type: ignore[no-any-return]

    def has_work(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        return self._at("has_work", pod, True)  # type: ignore[no-any-return]

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, actions: points.Actions) -> Reject | None:
        await asyncio.sleep(0)
        return self._at("pre_bind", pod)  # type: ignore[no-any-return]

    async def release(self, state: CycleState, pod: PodInfo, actions: points.Actions) -> None:
        self._at("release", pod)

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._at("post_bind", pod)


def odd(method: str, deed: Deed) -> type[Odd]:
    """The plugin as a class of its own: what it is to do belongs to it."""
    return type("OddOne", (Odd,), {"method": method, "deed": staticmethod(deed), "__module__": __name__})


class Binder(points.Actions):
    """Binds."""

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        pass

    async def _nothing(self, *arguments: Any, **options: Any) -> Any:
        raise AssertionError

    update = get = create = delete = wait_until = _nothing

    def now(self) -> float:
        return 0.0


async def carried_out(outcome: Outcome) -> str:
    """What binding the pod says; empty if it is bound."""
    cycle = outcome.binding_cycle
    assert cycle is not None
    assert cycle.has_work
    failure = await cycle.prepare(Binder()) or await cycle.bind(Binder())
    if failure is None:
        return ""
    cycle.undo()
    return "; ".join((*failure.reject.reasons, *(str(one) for one in await cycle.release(Binder()))))


def said(setup: Setup, name: str, **labels: str) -> str:
    """What becomes of a pod: nothing is said if it is bound."""
    setup.see("Pod", pod(name, cpu="100m", labels=labels))
    outcome = setup.core.schedule_one()
    assert outcome is not None
    if not outcome.decision.scheduled:
        return outcome.decision.error or outcome.decision.message
    return asyncio.run(carried_out(outcome))


@pytest.mark.parametrize(
    ("method", "deed", "message"),
    [
        ("filter", leaving, "plugin Odd failed: SystemExit: 7 (test_guarded_calls.py:"),
        ("reserve", raising, 'running Reserve plugin "Odd": LookupError: no such thing (test_guarded_calls.py:'),
        ("reserve", leaving, 'running Reserve plugin "Odd": SystemExit: 7 (test_guarded_calls.py:'),
        ("reserve", lambda: "no", "running Reserve plugin \"Odd\": it answered 'no', neither None nor a Reject"),
        ("permit", raising, 'running Permit plugin "Odd": LookupError: no such thing (test_guarded_calls.py:'),
        ("permit", lambda: "5s", "it answered '5s', neither None, a number of seconds nor a Reject"),
        ("pre_bind", raising, 'running PreBind plugin "Odd": LookupError: no such thing (test_guarded_calls.py:'),
        ("pre_bind", leaving, 'running PreBind plugin "Odd": SystemExit: 7'),
        ("pre_bind", lambda: 5, 'running PreBind plugin "Odd": it answered 5, neither None nor a Reject'),
        ("pre_bind", looping, 'running PreBind plugin "Odd": took longer than 0.05 s'),
        ("unreserve", raising, "0/1 nodes are available: 1 later."),
        *((method, deed, "") for method in ("concerns", "reads", "has_work", "post_bind") for deed in (raising, leaving)),
        ("reads", list, ""),
    ],
)  # fmt: skip
def test_a_plugin_that_fails_is_named_and_others_go_on(
    method: str, deed: Deed, message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(guards, "SECONDS", 0.05)
    setup = Setup(install(monkeypatch, (odd(method, deed),)))
    setup.see("Node", node("a"))
    found = said(setup, "one", odd="yes")
    assert message in found if message else not found
    assert not said(setup, "two") or method == "unreserve"
    if method in ("concerns", "reads", "has_work", "post_bind", "unreserve"):
        assert f"plugin Odd: {method} " in caplog.text
        assert caplog.text.count("plugin Odd: ") == 1


def test_what_cannot_be_taken_back_is_told_as_an_error_of_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(install(monkeypatch, (odd("release", raising),)))
    setup.see("Node", node("a"))
    setup.see("Pod", pod("one", labels={"odd": "yes"}))
    outcome = setup.core.schedule_one()
    assert outcome is not None
    assert outcome.binding_cycle is not None
    (error,) = asyncio.run(outcome.binding_cycle.release(Binder()))
    assert isinstance(error, ActionError)
    assert str(error).startswith("plugin Odd failed: LookupError: no such thing (")


def test_waiting_is_not_limited_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waits(points.PreBindPlugin):
        name = "Waits"
        seen: list[str] = []  # noqa: RUF012
        has_slept: asyncio.Event

        async def pre_bind(self, state: Any, pod: PodInfo, node_name: str, actions: points.Actions) -> Reject | None:
            try:
                await asyncio.sleep(0.03)
                self.seen.append("slept")
                self.has_slept.set()
                await asyncio.sleep(100)
            finally:
                self.seen.append("ended")
            return None

    async def story(outcome: Outcome) -> None:
        Waits.has_slept = asyncio.Event()
        task = asyncio.create_task(carried_out(outcome))
        await Waits.has_slept.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(guards, "SECONDS", 0.02)
    setup = Setup(install(monkeypatch, (Waits,)))
    setup.see("Node", node("a"))
    setup.see("Pod", pod("one"))
    outcome = setup.core.schedule_one()
    assert outcome is not None
    asyncio.run(story(outcome))
    assert Waits.seen == ["slept", "ended"]


def test_one_kind_of_pod_that_makes_a_plugin_loop_does_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "SECONDS", 0.02)
    setup = Setup(install(monkeypatch, (odd("filter", looping),)))
    setup.see("Node", node("a"))
    assert said(setup, "one", odd="yes") == "plugin Odd took longer than 0.02 s"
    assert said(setup, "like-it", odd="yes").endswith("before, and is not asked for 60 s")
    assert said(setup, "two") == ""
    assert said(setup, "three", odd="very") == "plugin Odd took longer than 0.02 s"
    assert said(setup, "four").endswith("before, and is not asked for 60 s"), "it loops for one kind after the other"


@pytest.mark.parametrize("deed", [raising, lambda: "first", lambda: (float("nan"),), lambda: ("a",)])
def test_pods_whose_place_in_the_queue_is_not_known_come_last(deed: Deed, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sorts(QueueSortPlugin):
        name = "Sorts"

        def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[float, ...]:
            return deed() if "odd" in pod.shape.labels else (queued_at,)

    config = install(monkeypatch, (Sorts,))
    config["profiles"][0]["plugins"]["queueSort"] = {"disabled": [{"name": "PrioritySort"}]}
    setup = Setup(config)
    setup.see("Node", node("a"))
    setup.see("Pod", pod("one", labels={"odd": "yes"}))
    setup.see("Pod", pod("two"))
    outcomes = [setup.core.schedule_one() for _ in range(2)]
    assert [one.queued.pod.key for one in outcomes if one is not None] == ["default/two", "default/one"]


def test_an_event_may_help_if_its_hint_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hints(FilterPlugin):
        name = "Hints"

        def events(self) -> tuple[EventHint, ...]:
            return (EventHint("Node", Action.ADD, lambda pod, old, new: raising()), EventHint("Pod", Action.DELETE))

        def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
            full = self.reasons.code(Status.UNSCHEDULABLE, self.name, "full")
            codes: Codes = (self.snapshot.pod_count[rows] * 0 + (full if self.snapshot.node_count < 2 else 0)).astype(
                "int32"
            )
            return codes

    setup = Setup(install(monkeypatch, (Hints,)))
    setup.see("Node", node("a"))
    assert "1 full" in said(setup, "one")
    setup.see("Node", node("b"))
    setup.clock.seconds += 100
    again = setup.core.schedule_one()
    assert again is not None
    assert again.decision.scheduled


def test_placements_that_cannot_be_made_refuse_the_group() -> None:
    class Sets(PlacementGeneratePlugin):
        name = "Sets"

        def generate_placements(self, group: Any, placed: Any) -> Any:
            return raising()

    plugin = object.__new__(Sets)
    guard_calls(plugin, TimeLimit(1.0, 1.0))
    refused = plugin.generate_placements(None, ())
    assert isinstance(refused, Reject)
    assert refused.reasons[0].startswith("plugin Sets failed: LookupError: no such thing (test_guarded_calls.py:")
