"""Placing pods as an environment of gymnasium: an agent weighs features of nodes, pod after pod, over virtual time.

    env = gymnasium.make("bayplan/Placement-v0", workload=workload)     # or make_vec(..., num_envs=4)

One step is one decision about a pod that fits somewhere. The scheduler's filters say which nodes take it, pods that fit nowhere wait (or
preempt) as in a replay, and time passes until the next decision. Needs the extra `bayplan[gym]`.

| | |
|---|---|
| observation | `PodView`: what the pod asks for, how full the cluster is; `OBSERVED` names the numbers |
| action | a weight from -1 to 1 for each of `FEATURES`; the node with the largest weighted sum is taken, of equal ones the first |
| reward | minus the time that the pod waited, times its dominant share of the cluster, by the span of the workload |

The rewards of an episode add up to minus the share of the cluster that waits in the mean over time (`waiting_share` of a replay), so that
what the scheduler reaches by itself is known: `baseline`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import gymnasium
import numpy as np

from bayplan.scheduler.decision import Decision
from bayplan.scheduler.library import Config
from bayplan.simulation.gym.features import FEATURES, MOST, OBSERVED, Floats, node_features, pod_view
from bayplan.simulation.replay.figures import amounts_of, dominant_share
from bayplan.simulation.replay.result import Replay
from bayplan.simulation.replay.run import Asked, Player, Workload, replay

ENVIRONMENT: Final = "bayplan/Placement-v0"


class PlacementEnv(gymnasium.Env[Floats, Floats]):
    """One workload, played anew with each episode."""

    def __init__(self, workload: Workload, config: Config = None) -> None:
        """config: the scheduler configuration whose filters hold. Raises SettingsError with the first episode."""
        self.observation_space = gymnasium.spaces.Box(0.0, MOST, (len(OBSERVED),), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (len(FEATURES),), np.float32)
        self._workload = workload
        self._config = config
        self._total = amounts_of(workload.nodes)
        self._span = span_of(workload)
        self._player: Player | None = None
        self._steps: Generator[Asked, Decision, Replay] | None = None
        self._asked: Asked | None = None
        self._decision: Decision | None = None
        self._credited = 0.0
        """The waiting that rewards have told of."""
        self.result: Replay | None = None
        """What became of the workload, once the episode is over."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Begin anew. seed: decides nothing, as a workload has no chance in it. options: none."""
        super().reset(seed=seed, options=options)
        self._player = Player(self._workload, self._config, samples=1)
        self._steps = self._player.steps()
        self._credited, self.result = 0.0, None
        self._go_on(None)
        return self._observation(), self._about()

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Place the pod that was observed. Raises RuntimeError if the episode is over."""
        player, asked, decision = self._player, self._asked, self._decision
        if player is None or asked is None or decision is None:
            raise RuntimeError("the episode is over; call reset()")
        rows = np.flatnonzero(decision.codes == 0)
        sums = node_features(player.planner, asked.info, rows) @ np.asarray(action, dtype=np.float64)
        decision.row = int(rows[int(sums.argmax())])
        before = player.result.records.waiting_of(asked.name, asked.at)
        player.planner.settle(player.planner.cycle_for(asked.info), asked.info, decision)
        waited = before * dominant_share(asked.info.pod, self._total) if decision.row >= 0 else 0.0
        self._credited += waited
        self._go_on(decision)
        reward = -waited
        if self.result is not None:
            rest = waiting_of(self._workload, self.result, self._total) - self._credited
            reward -= rest
        return self._observation(), reward / self._span, self.result is not None, False, self._about()

    def _go_on(self, decision: Decision | None) -> None:
        """Let time pass up to the next pod that fits somewhere."""
        assert self._player is not None
        assert self._steps is not None
        planner = self._player.planner
        try:
            asked = next(self._steps) if decision is None else self._steps.send(decision)
            while True:
                found = planner.decide_in(planner.cycle_for(asked.info), asked.info, full=True, explain=False)
                if found.row >= 0:
                    self._asked, self._decision = asked, found
                    return
                asked = self._steps.send(found)
        except StopIteration as end:
            self._asked, self._decision, self.result = None, None, end.value

    def _observation(self) -> Floats:
        if self._player is None or self._asked is None or self._decision is None:
            return np.zeros(len(OBSERVED), dtype=np.float32)
        fitting = float((self._decision.codes == 0).mean())
        return pod_view(self._player.planner, self._asked.info, len(self._player.pending), fitting)

    def _about(self) -> dict[str, Any]:
        if self._asked is None:
            return {}
        return {"pod": self._asked.name, "at": self._asked.at}


def span_of(workload: Workload) -> float:
    """Seconds from the first arrival to the last arrival or end that is known; 1 if that is no time."""
    ends = [one.ends or one.at + (one.lasts or 0.0) for one in workload.arrivals]
    starts = [one.at for one in workload.arrivals]
    return max(max(ends, default=0.0), max(starts, default=0.0)) - min(starts, default=0.0) or 1.0


def waiting_of(workload: Workload, result: Replay, total: dict[str, float]) -> float:
    """Seconds that pods waited, times their dominant shares of the cluster."""
    arrivals = sorted(workload.arrivals, key=lambda one: one.at)
    pairs = zip(arrivals, result.records.of.values(), strict=True)
    return sum(dominant_share(one.pod, total) * record.waiting for one, record in pairs)


def waiting_share(workload: Workload, result: Replay) -> float:
    """The share of the cluster that waits in the mean over the span of a workload: minus the return of such an episode."""
    return waiting_of(workload, result, amounts_of(workload.nodes)) / span_of(workload)


def baseline(workload: Workload, config: Config = None) -> Replay:
    """What the scheduler makes of a workload by itself. Raises SettingsError."""
    return replay(workload, config)


gymnasium.register(ENVIRONMENT, entry_point="bayplan.simulation.gym.environment:PlacementEnv", disable_env_checker=True)
