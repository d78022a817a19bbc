"""A small policy, and how it is trained: weights of features that depend on the kind of pod, found by the cross-entropy method.

The method draws policies around a mean, plays an episode with each, and moves mean and spread to the best of them (Rubinstein, "The
Cross-Entropy Method for Combinatorial and Continuous Optimization", 1999). It needs no gradient and no library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.simulation.gym.environment import PlacementEnv
from bayplan.simulation.gym.features import FEATURES, OBSERVED, Floats

KINDS: Final = ("any pod", "part of a GPU", "whole GPUs")
"""What a policy tells apart: a weight of each feature for all pods, and what is added for those of a kind."""
Told = Callable[[int, float], object]
_PART, _WHOLE = OBSERVED.index("part of a GPU"), OBSERVED.index("whole GPUs")


@dataclass(frozen=True, slots=True)
class LinearPolicy:
    """`weights[kind, feature]`."""

    weights: NDArray[np.float64]

    def action(self, observation: Floats) -> Floats:
        """The weights of the features for the pod that was observed, from -1 to 1."""
        kinds = np.array([1.0, float(observation[_PART] > 0), float(observation[_WHOLE] > 0)])
        return np.tanh(kinds @ self.weights).astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Kind -> feature -> weight."""
        return {
            kind: {feature: float(self.weights[row, column]) for column, feature in enumerate(FEATURES)}
            for row, kind in enumerate(KINDS)
        }

    @staticmethod
    def of(tree: dict[str, dict[str, float]]) -> LinearPolicy:
        """From what `to_dict` gives. Raises KeyError."""
        return LinearPolicy(np.array([[tree[kind][feature] for feature in FEATURES] for kind in KINDS]))

    def save(self, path: Path) -> None:
        """Write it as JSON. Raises OSError."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=2) + b"\n")

    @staticmethod
    def load(path: Path) -> LinearPolicy:
        """Read it. Raises OSError, msgspec.DecodeError, KeyError."""
        return LinearPolicy.of(msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, float]]))


def play(env: PlacementEnv, policy: LinearPolicy) -> float:
    """One episode. Returns the sum of its rewards; what became of the workload is the environment's `result`."""
    observation, _ = env.reset()
    total, is_over = 0.0, env.result is not None
    while not is_over:
        observation, reward, is_over, _, _ = env.step(policy.action(observation))
        total += reward
    return total


def train(
    envs: Sequence[PlacementEnv],
    *,
    generations: int = 8,
    population: int = 24,
    elite: int = 6,
    seed: int = 0,
    told: Told | None = None,
) -> LinearPolicy:
    """A policy for workloads like these. told: told of each generation its number and the mean return of its best. Equal seeds give
    equal policies."""
    chance = np.random.default_rng(seed)
    shape = (len(KINDS), len(FEATURES))
    mean, spread = np.zeros(shape), np.ones(shape)
    for generation in range(generations):
        drawn = mean + spread * chance.standard_normal((population, *shape))
        drawn[0] = mean
        returns = [sum(play(env, LinearPolicy(one)) for env in envs) / len(envs) for one in drawn]
        best = np.argsort(returns)[::-1][:elite]
        mean, spread = drawn[best].mean(axis=0), drawn[best].std(axis=0) + 0.1 / (generation + 1)
        if told is not None:
            told(generation, float(np.mean([returns[index] for index in best])))
    return LinearPolicy(mean)
