"""One pass: all strategies of a policy over one snapshot, within the policy's limits.

`run_pass` is a generator. It yields decisions; for each `Eviction` it is sent an `Outcome`, so that limits count only
evictions that succeeded, and later strategies know what is gone. Nothing here waits or writes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from bayplan.api.selectors.syntax import parse_labels
from bayplan.api.types import core_v1
from bayplan.descheduler.better_node import better_node
from bayplan.descheduler.errors import PolicyError, StrategyError
from bayplan.descheduler.framework import Answer, Candidate, Handle, Strategy
from bayplan.descheduler.node_fit import is_ready
from bayplan.descheduler.plugins.default_evictor import DefaultEvictor, threshold_of
from bayplan.descheduler.policy import DeschedulerPolicy, Profile
from bayplan.descheduler.registry import STRATEGIES
from bayplan.descheduler.snapshot import ClusterSnapshot, SnapshotIndex

NODE_LIMIT = "maximum number of evicted pods per node reached"
NAMESPACE_LIMIT = "maximum number of evicted pods per namespace reached"
TOTAL_LIMIT = "maximum number of evicted pods per a descheduling cycle reached"
LEAST_NODES = 2
"""With fewer nodes there is nowhere to go."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an eviction."""

    evicted: bool
    message: str = ""
    """Why not."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod is to be evicted: send the outcome."""

    pod: core_v1.Pod
    profile: str
    strategy: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod that a strategy would evict is not evicted."""

    pod: core_v1.Pod
    profile: str
    strategy: str
    reason: str
    """Why the strategy would evict it."""
    objections: tuple[str, ...]
    """Why it stays."""
    by_limit: bool = False
    """Whether a limit of the policy is the objection, its only one."""


@dataclass(frozen=True, slots=True)
class StrategyStart:
    """A strategy begins."""

    profile: str
    strategy: str


@dataclass(frozen=True, slots=True)
class StrategyEnd:
    """A strategy has ended; `error` says why early."""

    profile: str
    strategy: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class PassSkipped:
    """Nothing is looked at in this pass."""

    reason: str


Decision = Eviction | Refusal | StrategyStart | StrategyEnd | PassSkipped
Pass = Generator[Decision, Outcome | None, None]


@dataclass(slots=True)
class Limits:
    """How many pods have been evicted in a pass, and how many may be."""

    policy: DeschedulerPolicy
    total: int = 0
    by_node: dict[str, int] = field(default_factory=dict)
    by_namespace: dict[str, int] = field(default_factory=dict)

    def objection(self, pod: core_v1.Pod) -> str:
        """Which limit forbids one more eviction; empty if none does."""
        node, namespace = pod.spec.node_name, pod.metadata.namespace
        if self.policy.max_total is not None and self.total >= self.policy.max_total:
            return TOTAL_LIMIT
        if self.policy.max_per_node is not None and self.by_node.get(node, 0) >= self.policy.max_per_node:
            return NODE_LIMIT
        limit = self.policy.max_per_namespace
        if limit is not None and self.by_namespace.get(namespace, 0) >= limit:
            return NAMESPACE_LIMIT
        return ""

    def count(self, pod: core_v1.Pod) -> None:
        """Count an eviction that succeeded."""
        node, namespace = pod.spec.node_name, pod.metadata.namespace
        self.total += 1
        self.by_node[node] = self.by_node.get(node, 0) + 1
        self.by_namespace[namespace] = self.by_namespace.get(namespace, 0) + 1


@dataclass(frozen=True, slots=True)
class _Runner:
    """A profile in one pass."""

    profile: Profile
    evictor: DefaultEvictor
    index: SnapshotIndex
    limits: Limits

    def run(self, name: str, nodes: Sequence[core_v1.Node]) -> Pass:
        """Run one strategy."""
        yield StrategyStart(self.profile.name, name)
        error = ""
        try:
            kind = STRATEGIES[name]
            strategy = kind(self.profile.arguments[name], Handle(self.index, self.evictor))
            yield from self._follow(strategy, nodes)
        except StrategyError as problem:
            error = str(problem)
        yield StrategyEnd(self.profile.name, name, error)

    def _follow(self, strategy: Strategy, nodes: Sequence[core_v1.Node]) -> Pass:
        """Decide about each candidate until there is none left, or the limit of the pass is reached."""
        candidates = strategy.candidates(nodes)
        candidate = next(candidates, None)
        while candidate is not None:
            answer = yield from self._decide(strategy, candidate)
            if answer is None:
                candidates.close()
                return
            try:
                candidate = candidates.send(answer)
            except StopIteration:
                return

    def _decide(self, strategy: Strategy, candidate: Candidate) -> Generator[Decision, Outcome | None, Answer | None]:
        """The answer for a candidate; None if nothing more can be evicted in this pass."""
        pod = candidate.pod
        if not self.index.has(pod):  # such as a pod that has too many fellows by each of two owners
            return Answer.REFUSED
        about = (pod, self.profile.name, strategy.name, candidate.reason)
        objections = self.evictor.protections(pod) + self.evictor.last_objections(pod)
        if objections:
            yield Refusal(*about, objections)
            return Answer.REFUSED
        limit = self.limits.objection(pod)
        if limit:
            yield Refusal(*about, (limit,), by_limit=True)
            return {TOTAL_LIMIT: None, NODE_LIMIT: Answer.NODE_LIMIT}.get(limit, Answer.REFUSED)
        target = ""
        if self.evictor.arguments.require_better_node:
            better = better_node(pod, self.evictor.nodes, self.index, packs=strategy.packs)
            if better is None:
                yield Refusal(*about, ("no other node fits the pod that is not worse than its own",))
                return Answer.REFUSED
            target = better.metadata.name
        outcome = yield Eviction(*about)
        if outcome is None:
            raise RuntimeError("run_pass: send an Outcome for each Eviction")
        if not outcome.evicted:
            return Answer.REFUSED
        self.limits.count(pod)
        self.index.remove(pod, target)
        return Answer.EVICTED


def run_pass(policy: DeschedulerPolicy, snapshot: ClusterSnapshot) -> Pass:
    """Yield the decisions of one pass over a snapshot, which it uses up. Raises PolicyError for a priority class that does not exist."""
    index = snapshot.index
    selector = parse_labels(policy.node_selector)
    nodes = [node for node in index.nodes.values() if is_ready(node) and selector.matches(node.metadata.labels)]
    limits = Limits(policy)
    runners = [_Runner(profile, DefaultEvictor(profile.evictor, index), index, limits) for profile in policy.profiles]
    if len(nodes) < LEAST_NODES:
        yield PassSkipped(f"requires at least {LEAST_NODES} ready nodes, found {len(nodes)}")
        return
    for runner in runners:
        for name in runner.profile.deschedule:
            yield from runner.run(name, nodes)
    for runner in runners:
        for name in runner.profile.balance:
            yield from runner.run(name, nodes)


def decisions(
    policy: DeschedulerPolicy, snapshot: ClusterSnapshot, evict: Callable[[Eviction], Outcome] | None = None
) -> list[Decision]:
    """All decisions of a pass with the outcomes that `evict` gives; without it every eviction succeeds, as in a dry run.

    Raises PolicyError.
    """
    found: list[Decision] = []
    running = run_pass(policy, snapshot)
    outcome: Outcome | None = None
    while True:
        try:
            decision = running.send(outcome)
        except StopIteration:
            return found
        found.append(decision)
        outcome = None
        if isinstance(decision, Eviction):
            outcome = Outcome(True) if evict is None else evict(decision)


def check_priority_classes(policy: DeschedulerPolicy, snapshot: ClusterSnapshot) -> None:
    """Whether the priority classes that a policy names exist. Raises PolicyError."""
    errors: list[str] = []
    for profile in policy.profiles:
        try:
            threshold_of(profile.evictor.priority_threshold, snapshot.index.priorities)
        except PolicyError as error:
            errors += [f"profile {profile.name}: DefaultEvictor: {one}" for one in error.errors]
    if errors:
        raise PolicyError(errors)
