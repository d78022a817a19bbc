"""A pod's binding cycle from the decision to its binding: Reserve, Permit, PreBind, Bind, PostBind, and Unreserve on failure.

Reserve and Permit run at once, as part of the scheduling cycle (`begin`). What follows may wait for the outside world
and runs beside other pods' binding cycles (`carry_out`). A failure anywhere is a `Failure`; whoever runs the binding cycle then
calls `undo` and puts the pod back into the queue. Pods whose plugins have nothing to do take no binding cycle at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bayplan.scheduler.framework.extension_points import Actions
from bayplan.scheduler.framework.meter import SUCCESS, Meter, timed_plugin, timed_point
from bayplan.scheduler.framework.state import CycleState
from bayplan.scheduler.framework.verdicts import ActionError, PluginError, Reject, Status
from bayplan.scheduler.framework.waiting import WaitingPod, WaitingPods
from bayplan.scheduler.profile import PluginPlan, Profile
from bayplan.scheduler.snapshot.pods import PodInfo

OtherBinder = Callable[[PodInfo, str], Awaitable[bool]]
"""Binds a pod in place of the Bind plugins (an extender); False leaves it to them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod does not go to its node after all.

    `unfit`: a plugin of Reserve or Permit says that the pod cannot go there, so it waits until that plugin's hints
    wake it. Otherwise something failed, and the pod is tried again after its back-off.
    """

    plugin: str
    reject: Reject
    unfit: bool
    waits_for: frozenset[str] = frozenset()
    """The plugins whose hints wake the pod, if not only `plugin`'s."""
    nominated: str = ""
    """The node that the pod is nominated to all the same."""
    whole_message: str = ""
    """The message, if it is not about the one node."""

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins whose hints wake the pod; none if it is just tried again."""
        if not self.unfit:
            return frozenset()
        return self.waits_for or frozenset((self.plugin,))

    @property
    def message(self) -> str:
        """In kube-scheduler's words."""
        if self.whole_message:
            return self.whole_message
        reasons = ", ".join(self.reject.reasons)
        return f"0/1 nodes are available: 1 {reasons}." if self.unfit else reasons

    @property
    def reason(self) -> str:
        """The reason of the pod's `PodScheduled=False` condition."""
        return "SchedulerError" if self.reject.status is Status.ERROR else "Unschedulable"


def failed(point: str, plugin: str, error: Exception) -> Failure:
    """A plugin failed at an extension point."""
    return Failure(plugin, Reject(Status.ERROR, (f'running {point} plugin "{plugin}": {error}',)), False)


def _status(failure: Failure | None) -> str:
    return failure.reject.status.value if failure is not None else SUCCESS


class BindingCycle:
    """One pod on its way to `node_name`, where it is assumed."""

    __slots__ = ("_waiting_pods", "meter", "node_name", "plugin_plan", "pod", "profile", "state", "waiting")

    def __init__(
        self, plugin_plan: PluginPlan, state: CycleState, pod: PodInfo, node_name: str, profile: Profile
    ) -> None:
        self.plugin_plan = plugin_plan
        self.state = state.for_pod()
        self.pod = pod
        self.node_name = node_name
        self.profile = profile.name
        self.meter: Meter | None = profile.meter
        self._waiting_pods: WaitingPods = profile.waiting
        self.waiting: WaitingPod | None = None
        """The pod's place among the waiting ones, if a Permit plugin holds it back."""

    def begin(self) -> Failure | None:
        """Reserve, then Permit. After a failure everything is undone already."""
        with timed_point(self.meter, "Reserve", self.profile) as timing:
            failure = self.reserve()
            timing.status = _status(failure)
        if failure is None:
            with timed_point(self.meter, "Permit", self.profile) as timing:
                failure = self._permit()
                timing.status = _status(failure) if self.waiting is None else "Wait"
        if failure is not None:
            self.undo()
        return failure

    def undo(self) -> None:
        """Unreserve in reverse order; the pod waits no more."""
        self.settle()
        for plugin in reversed(self.plugin_plan.reserve):
            plugin.unreserve(self.state, self.pod, self.node_name)

    def settle(self) -> None:
        """The pod waits no more."""
        self._waiting_pods.remove(self.pod.uid)

    def conclude(self) -> None:
        """The pod is on its node, and nobody is going to write anything: what was reserved counts as written. `undo` still takes it back."""
        for plugin in self.plugin_plan.reserve:
            plugin.conclude(self.state, self.pod, self.node_name)

    @property
    def has_work(self) -> bool:
        """Whether binding is going to take a while: a plugin holds the pod back or has to prepare something."""
        if self.waiting is not None and not self.waiting.settled:
            return True
        return any(plugin.has_work(self.state, self.pod, self.node_name) for plugin in self.plugin_plan.pre_bind)

    @property
    def is_ready_to_bind(self) -> bool:
        """Whether nothing but the Binding is left to be done."""
        waiting = self.waiting
        return self.plugin_plan.binds_plainly and (waiting is None or (waiting.settled and waiting.refusal is None))

    def reserve(self) -> Failure | None:
        """Reserve alone; after a failure `undo` is due."""
        for plugin in self.plugin_plan.reserve:
            try:
                with timed_plugin(self.meter, plugin.name, "Reserve"):
                    answer = plugin.reserve(self.state, self.pod, self.node_name)
            except PluginError as error:
                return failed("Reserve", plugin.name, error)
            if answer is not None:
                return Failure(plugin.name, answer, True)
        return None

    def _permit(self) -> Failure | None:
        waits: dict[str, float] = {}
        for plugin in self.plugin_plan.permit:
            try:
                with timed_plugin(self.meter, plugin.name, "Permit"):
                    answer = plugin.permit(self.state, self.pod, self.node_name)
            except PluginError as error:
                return failed("Permit", plugin.name, error)
            if isinstance(answer, Reject):
                return Failure(plugin.name, answer, True)
            if answer is not None:
                waits[plugin.name] = answer
        if waits:
            self.waiting = self._waiting_pods.add(self.pod, self.node_name, waits)
        return None

    async def prepare(self, actions: Actions) -> Failure | None:
        """PreBind."""
        with timed_point(self.meter, "PreBind", self.profile) as timing:
            failure = await self._pre_bind(actions)
            timing.status = _status(failure)
        return failure

    async def _pre_bind(self, actions: Actions) -> Failure | None:
        for plugin in self.plugin_plan.pre_bind:
            try:
                with timed_plugin(self.meter, plugin.name, "PreBind"):
                    answer = await plugin.pre_bind(self.state, self.pod, self.node_name, actions)
            except (PluginError, ActionError) as error:
                return failed("PreBind", plugin.name, error)
            if answer is not None:
                return Failure(plugin.name, answer, False)
        return None

    async def release(self, actions: Actions) -> list[ActionError]:
        """After `undo`: take back what was written. Returns what could not be."""
        errors: list[ActionError] = []
        for plugin in reversed(self.plugin_plan.reserve):
            try:
                await plugin.release(self.state, self.pod, actions)
            except ActionError as error:
                errors.append(error)
        return errors

    async def bind(self, actions: Actions, other: OtherBinder | None = None) -> Failure | None:
        """Bind (by `other`, if it takes the pod), then PostBind."""
        with timed_point(self.meter, "Bind", self.profile) as timing:
            failure = await self._bind(actions, other)
            timing.status = _status(failure)
        if failure is None:
            for plugin in self.plugin_plan.post_bind:
                plugin.post_bind(self.state, self.pod, self.node_name)
        return failure

    async def _bind(self, actions: Actions, other: OtherBinder | None) -> Failure | None:
        try:
            if other is not None and await other(self.pod, self.node_name):
                return None
        except ActionError as error:
            return Failure("", Reject(Status.ERROR, (str(error),)), False)
        for plugin in self.plugin_plan.bind:
            try:
                if await plugin.bind(self.state, self.pod, self.node_name, actions):
                    return None
            except (PluginError, ActionError) as error:
                return failed("Bind", plugin.name, error)
        return Failure("", Reject(Status.ERROR, ("no Bind plugin binds the pod",)), False)
