"""The extension points of the scheduling framework, and the contract of each.

The order of a scheduling cycle: pre-enqueue (may the pod enter the queue), queue sort, pre-filter, filter, post-filter
(only if no node fits), pre-score, score, normalize, reserve, permit, pre-bind, bind, post-bind. A plugin is a class
that derives from one or more of the bases below; one instance serves one profile.

Filter and Score work on columns: `rows` is an index array, or a slice for all rows, and the answer has one entry per
row. The same function serves the first full pass and the few rows that changed since. Pods of one shape share the
answers, so an answer may depend on the pod's shape and the snapshot only.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bayplan.scheduler.framework.events import EventHint
from bayplan.scheduler.framework.state import CycleState, Handle
from bayplan.scheduler.framework.verdicts import Codes, Narrow, Reject, Skip, Status
from bayplan.scheduler.framework.what_if import WhatIf
from bayplan.scheduler.snapshot.labels import Bools, ChangedRows, IntRows, Ints, Rows
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.scheduler.snapshot.shape import PodShape

if TYPE_CHECKING:
    from bayplan.scheduler.framework.post_filter import PostFilterContext, PostFilterOutcome

MAX_NODE_SCORE = 100
"""The best normalised score."""

Moved = list[int] | slice
"""Rows whose answer may have changed: a few (repeats do no harm), or a slice over all."""

FEW_ROWS = 32
"""Up to so many rows it pays to look at them one by one; beyond, a pass over all rows costs less."""

EVERY_ROW = slice(None)


def joined(parts: Sequence[IntRows]) -> Moved:
    """Groups of rows as one list, if they are few."""
    if sum(map(len, parts)) > FEW_ROWS:
        return EVERY_ROW
    return [row for part in parts for row in part.tolist()]


class Scope(enum.IntEnum):
    """What an answer about a node can depend on; it says when the answer has to be worked out again."""

    NODE = 0
    """Nodes and catalog objects only: pods on nodes do not matter."""
    ROW = 1
    """Also the pods on that very node."""
    CLUSTER = 2
    """Also pods on other nodes."""


class Plugin:
    """Base of all plugins. `args` are the plugin's typed arguments from the profile, None if it takes none."""

    name: ClassVar[str]

    def __init__(self, args: object, handle: Handle) -> None:
        self.handle = handle
        self.snapshot = handle.snapshot
        self.reasons = handle.reasons

    def events(self) -> tuple[EventHint, ...]:
        """Which cluster events may help a pod that this plugin rejected. None given: any event may."""
        return ()

    def partition_of(self, pod: PodInfo) -> Hashable:
        """The partition of a rejected pod among those of its shape, for plugins whose hints do not answer alike for all of these.

        Hints that are `per_shape` are asked about one pod per shape and partition.
        """
        return None

    def reads(self, pod: PodShape) -> Hashable | None:
        """All of a pod that PreFilter, and (with `Scope.NODE`) Filter, PreScore and Score, look at besides nodes and objects of the catalog.

        Pods of which a plugin reads the same share its answers while nodes and objects stay as they are: a Skip, and
        what is said of the nodes. PreScore must not look at which nodes are feasible then. None (the default): the pod
        as a whole; every shape is asked about.
        """
        return None


class PreEnqueuePlugin(Plugin, ABC):
    """Decides whether a pod may enter the active queue."""

    tells: ClassVar[bool] = False
    """Whether a pod that is kept out gets an event that says why; kube-scheduler's plugins give none."""
    tells_after: ClassVar[float] = 0.0
    """Seconds for which it is kept out before it gets the event."""

    def concerns(self, pod: PodShape) -> bool:
        """Whether the plugin may have something against such a pod; asked once per shape."""
        return True

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        """None to let the pod in. Must be cheap: it is asked at every change of the pod, and before each attempt."""

    def explained(self, pod: PodInfo, rejection: Reject) -> str:
        """What the event says after the plugin's name."""
        return ", ".join(rejection.reasons)

    def asked_again(self, pod: PodInfo) -> float | None:
        """Seconds after which the verdict on a pod that was kept out may change without any event; None if it does not."""
        return None


class QueueSortPlugin(Plugin, ABC):
    """Orders the active queue. Exactly one per profile, the same for all."""

    @abstractmethod
    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[float, ...]:
        """Pods with smaller keys are scheduled first. `queued_at`: seconds, when the pod entered the queue."""


class GroupedQueueSortPlugin(QueueSortPlugin, ABC):
    """Orders groups of pods as things are whenever a pod is taken; within a group the keys count, of equal groups as well."""

    @abstractmethod
    def group_of(self, pod: PodInfo) -> Hashable:
        """The group of a pod; it does not change while the pod waits, unless the pod changes."""

    @abstractmethod
    def rank(self, group: Hashable) -> tuple[float, ...]:
        """A pod of the group with the lowest rank is next. Asked about each group with active pods, at every attempt."""


class PreFilterPlugin(Plugin, ABC):
    """Looks at the pod once, before nodes are filtered."""

    filter_alone: ClassVar[str | None] = ""
    """How Filter fails if a profile leaves PreFilter out; empty if PreFilter is asked all the same, None if Filter sees to it itself."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodShape) -> Skip | Narrow | Reject | None:
        """Keep in `state.data[self.name]` what Filter needs. `Skip` leaves this plugin's Filter out for the pod."""


class FilterPlugin(Plugin, ABC):
    """Says which nodes cannot run the pod."""

    filter_scope: ClassVar[Scope] = Scope.ROW
    sparse: ClassVar[bool] = False
    """Asking about a node is costly: ask only about nodes that no earlier plugin refused."""

    @abstractmethod
    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        """A verdict per row: 0 or a code from `self.reasons`. Raises PluginError."""

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        """The verdict on one row, equal to `filter` on it; override where plain Python beats an array of one."""
        return int(self.filter(state, pod, np.array([row], dtype=np.intp))[0])

    def failed(self, message: str) -> int:
        """The verdict on a row about which the plugin cannot tell: the pod is then not scheduled at all."""
        return self.reasons.code(Status.ERROR, self.name, f'running "{self.name}" filter plugin: {message}')

    def scope_of(self, state: CycleState, pod: PodShape) -> Scope:
        """The scope for this pod, where it is narrower than the class's."""
        return self.filter_scope

    def row_what_if(self, state: CycleState, pod: PodShape, row: int) -> WhatIf | None:
        """For plugins of `Scope.ROW`: the verdict on a row while pods there come and go, worked out aside.

        The what-if evaluation starts with the pods as they are. None (the default) to be asked with the snapshot changed for a
        while, which costs more.
        """
        return None

    def refresh_filter(self, state: CycleState, pod: PodShape) -> None:
        """Pods came or went since PreFilter: bring `state.data` up to date. PreFilter's Skip stays as it was."""

    def catch_up(self, state: CycleState, pod: PodShape, rows: ChangedRows) -> Moved:
        """As `refresh_filter`, knowing that pods came or went on these rows only; for plugins of `Scope.CLUSTER`.

        Returns the other rows on which the verdict may be different now. Override where a plugin can tell which.
        """
        self.refresh_filter(state, pod)
        return EVERY_ROW


class PreScorePlugin(Plugin, ABC):
    """Looks at the pod and the feasible nodes once, before they are scored."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodShape, feasible: Rows) -> Skip | None:
        """Keep in `state.score_data[self.name]` what Score needs. `Skip` leaves this plugin's Score out for the pod."""


class ScorePlugin(Plugin, ABC):
    """Ranks nodes that can run the pod."""

    score_scope: ClassVar[Scope] = Scope.ROW
    normalizes: ClassVar[bool] = False
    """Whether `normalize` changes anything, that is, whether a score depends on those of other nodes."""
    equal_stays_equal: ClassVar[bool] = False
    """Equal raw scores on all nodes normalise to one value, however many nodes there are."""
    score_prepared_at: ClassVar[str] = "preScore"
    """The extension point that makes ready what Score needs."""
    score_alone: ClassVar[str] = ""
    """How Score fails if a profile leaves that point out; empty if PreScore is asked all the same."""

    @abstractmethod
    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        """A raw score per row, int64. Without `normalize` it must be within 0..100. Raises PluginError.

        Rows that are not feasible may be asked about too; their answers are not used.
        """

    def score_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        """The raw score of one row; equal to `score` on it."""
        return int(self.score(state, pod, np.array([row], dtype=np.intp))[0])

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        """Scores of all feasible rows brought to 0..100. `scores[i]` belongs to `feasible[i]`."""
        return scores

    def score_empty(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints | None:
        """`score`, as if the nodes held neither pods nor images; None if that makes no difference.

        kube-scheduler scores nodes so that an extender has sent back whole (`HTTPExtender.Filter`: `NewNodeInfo`, `SetNode`).
        What PreScore counts on all nodes counts all the same.
        """
        return None


class ScaledScorePlugin(ScorePlugin, ABC):
    """A score plugin that normalises by the least and the greatest raw score among the feasible nodes.

    Such scores are kept: after a placement only the rows that moved are scaled again, unless an extreme moved.
    """

    normalizes = True

    def counted(self, state: CycleState, pod: PodShape) -> Bools | None:
        """Per row, whether it takes part; the others get 0. None if all do. May depend on nodes only."""
        return None

    @abstractmethod
    def scale(self, state: CycleState, pod: PodShape, scores: Ints, lowest: int, highest: int) -> Ints:
        """Raw scores brought to 0..100, each by itself. Scores beyond the extremes may be there; they are not used."""

    def scale_one(self, state: CycleState, pod: PodShape, score: int, lowest: int, highest: int) -> int:
        """`scale` of one score."""
        return int(self.scale(state, pod, np.array([score], dtype=np.int64), lowest, highest)[0])

    def rescore(self, state: CycleState, pod: PodShape, codes: Codes, rows: ChangedRows) -> Moved | None:
        """Pods came or went on these rows, or their verdict (0 in `codes` is feasible) changed: bring `score` up to date.

        Returns the rows whose raw score changed; None to have PreScore asked again. Only for `Scope.CLUSTER`.
        """
        return None

    def normalize(self, state: CycleState, pod: PodShape, feasible: Rows, scores: Ints) -> Ints:
        counted = self.counted(state, pod)
        if counted is None:
            if not len(scores):
                return scores
            return self.scale(state, pod, scores, int(scores.min()), int(scores.max()))
        taking_part = counted[feasible]
        part = scores[taking_part]
        if not len(part):
            return np.zeros_like(scores)
        scaled = self.scale(state, pod, scores, int(part.min()), int(part.max()))
        return np.where(taking_part, scaled, 0)


class PostFilterPlugin(Plugin, ABC):
    """Tries to make room when no node fits."""

    @abstractmethod
    def post_filter(self, context: PostFilterContext) -> PostFilterOutcome:
        """What can be done, or the words that say why nothing can. Changes nothing itself."""


class ReservePlugin(Plugin, ABC):
    """Keeps state of its own about pods that are on their way to a node.

    From Reserve on, `state.own[self.name]` is the plugin's memory of this very pod; all of `state` is the pod's alone.
    """

    def concerns(self, pod: PodShape) -> bool:
        """Whether the plugin may have anything to reserve for such a pod; asked once per shape."""
        return True

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | None:
        """The pod is assumed on a node. A rejection (or PluginError) calls `unreserve` of all plugins."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """The pod will not go there after all. Must not fail, and be harmless without a `reserve` before."""

    def conclude(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """In a planner, where PreBind never comes: take what was reserved to be as PreBind would have written it, until `unreserve`."""

    async def release(self, state: CycleState, pod: PodInfo, actions: Actions) -> None:
        """After `unreserve`, undo what PreBind has written for the pod. Raises ActionError, which is logged."""


class PermitPlugin(Plugin, ABC):
    """May hold a pod back before it is bound; approves or refuses it later through `handle.waiting`."""

    def concerns(self, pod: PodShape) -> bool:
        """Whether the plugin may have something against such a pod; asked once per shape."""
        return True

    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Reject | float | None:
        """None: go on. A number: wait at most so many seconds for an approval. A rejection: do not bind."""


class Actions(ABC):
    """What plugins may do to the outside world before and while binding; given by the service around the scheduler."""

    @abstractmethod
    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Create the pod's Binding. Raises ActionError with what the API answered."""

    @abstractmethod
    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        """Replace an object, or its status; with a resourceVersion only if nobody has changed it since.

        Returns the object as it is now. Raises ActionError.
        """

    @abstractmethod
    async def get(self, cls: type[Any], name: str, namespace: str = "") -> Any:
        """Read an object from the API. Raises ActionError."""

    @abstractmethod
    async def create(self, obj: Any) -> Any:
        """Create an object. Raises ActionError."""

    @abstractmethod
    async def delete(self, obj: Any) -> None:
        """Delete an object, if it is still this one; that it is gone already is no error. Raises ActionError."""

    @abstractmethod
    def now(self) -> float:
        """The time, in seconds since the Unix epoch."""

    @abstractmethod
    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition on what the scheduler knows (nodes, pods, catalog) holds; False if it does not in time.

        The condition is asked at once and after every event; what it raises ends the wait.
        """


class PreBindPlugin(Plugin, ABC):
    """Does what must be done before the pod is bound, such as binding its volumes."""

    def concerns(self, pod: PodShape) -> bool:
        """Whether the plugin may have anything to do for such a pod; asked once per shape."""
        return True

    def has_work(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        """Whether `pre_bind` will do anything for this pod; asked after Reserve."""
        return True

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str, actions: Actions) -> Reject | None:
        """None when all is done. A rejection or an error puts the pod back into the queue."""


class BindPlugin(Plugin, ABC):
    """Binds the pod to its node."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str, actions: Actions) -> bool:
        """True if this plugin bound the pod; False leaves it to the next one. Raises ActionError, PluginError."""


class PostBindPlugin(Plugin, ABC):
    """Is told that a pod was bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """For information and for clearing up."""


class ScalarFilterPlugin(FilterPlugin):
    """For authors who would rather look at one node at a time: implement `filter_node`."""

    @abstractmethod
    def filter_node(self, state: CycleState, pod: PodShape, row: int) -> int:
        """0 or a code from `self.reasons` for one node. Raises PluginError."""

    def filter(self, state: CycleState, pod: PodShape, rows: Rows) -> Codes:
        answers = [self.filter_node(state, pod, row) for row in self.snapshot.rows_of(rows)]
        return np.array(answers, dtype=np.int32)

    def filter_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        return self.filter_node(state, pod, row)


class ScalarScorePlugin(ScorePlugin):
    """For authors who would rather score one node at a time: implement `score_node`."""

    @abstractmethod
    def score_node(self, state: CycleState, pod: PodShape, row: int) -> int:
        """The raw score of one node. Raises PluginError."""

    def score(self, state: CycleState, pod: PodShape, rows: Rows) -> Ints:
        answers = [self.score_node(state, pod, row) for row in self.snapshot.rows_of(rows)]
        return np.array(answers, dtype=np.int64)

    def score_row(self, state: CycleState, pod: PodShape, row: int) -> int:
        return self.score_node(state, pod, row)


def default_scale(scores: Ints, highest: int, *, reverse: bool) -> Ints:
    """Scale so that the largest raw score becomes 100; `reverse` turns it round. All zero stays zero (or 100)."""
    if highest <= 0:
        return np.full_like(scores, MAX_NODE_SCORE if reverse else 0)
    scaled = scores * MAX_NODE_SCORE // highest
    result: Ints = MAX_NODE_SCORE - scaled if reverse else scaled
    return result


def default_normalize(scores: Ints, *, reverse: bool) -> Ints:
    """`default_scale` by the greatest of the scores."""
    return default_scale(scores, int(scores.max(initial=0)), reverse=reverse)
