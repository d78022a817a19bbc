"""A DeschedulerPolicy as the planner uses it, after defaults and checks. `policy_reader` makes it of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayplan.descheduler.arguments import Arguments
from bayplan.descheduler.plugins.default_evictor import DefaultEvictorArguments


@dataclass(frozen=True, slots=True)
class Profile:
    """Strategies that are run with one evictor."""

    name: str = ""
    evictor: DefaultEvictorArguments = field(default_factory=DefaultEvictorArguments)
    deschedule: tuple[str, ...] = ()
    """Strategies that look at one pod after the other."""
    balance: tuple[str, ...] = ()
    """Strategies that look at all pods; those of all profiles come after all of `deschedule`."""
    arguments: Mapping[str, Arguments] = field(default_factory=dict)
    """Those of the strategies, by name."""


@dataclass(frozen=True, slots=True)
class DeschedulerPolicy:
    """What to evict, and how much at most in one pass; None means without limit."""

    profiles: tuple[Profile, ...] = ()
    node_selector: str = ""
    """Label selector of the nodes that are looked at."""
    max_per_node: int | None = None
    max_per_namespace: int | None = None
    max_total: int | None = None
    grace_period_seconds: int | None = None
    """None: that of the pod."""
    notifies_of_failures: bool = False
    """Whether evictions that fail are told by events on their pods."""
    collects_usage: bool = False
    """Whether metrics.k8s.io is to be read."""
