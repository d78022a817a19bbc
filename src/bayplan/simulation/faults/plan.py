"""Faults as data: what goes wrong in a virtual cluster, and when. A plan is a YAML file, or drawn from a seed.

    nodes: 6
    zones: 2
    for: 15m                      # faults happen within this time; then all is mended
    workload: [app.yaml]          # files beside the plan; without any, a mix of all workload kinds
    faults:
    - {at: 1m,  do: crash-node, node: node-2, for: 3m}
    - {at: 2m,  do: fail-zone, zone: zone-a, for: 8m}
    - {at: 4m,  do: restart, component: scheduler, for: 20s}
    - {at: 5m,  do: kill-pods, selector: app=web, count: 2}
    - {at: 6m,  do: patch-pods, selector: app=web, count: 1, annotations: {bayplan.dev/oom-seconds: "5"}}
    - {at: 0s,  do: unreliable-api, for: 10m, conflict: 0.2, errorAfter: 0.1, lag: 0.3, lost: 0.05}

`crash-node` and `fail-zone` are also how heartbeats get lost: a node that is back before its grace period has passed is never
missed. `restart` ends a component as a crash does, and is how a leader is lost: it starts again with nothing but what the API tells.
`unreliable-api` is about all components: likelihoods, see `faulty_transport.Faults`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bayplan.cluster.components import CONTROLLERS, NODES, SCHEDULER
from bayplan.cluster.manifests.reading import ManifestError, documents
from bayplan.support.randomness import Randomness, SeededRandomness

COMPONENTS: Final = (CONTROLLERS, SCHEDULER, NODES)
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_API: Final = {
    "conflict": "conflict",
    "errorBefore": "error_before",
    "errorAfter": "error_after",
    "internal": "internal",
    "slow": "slow",
    "lag": "lag",
    "stutter": "stutter",
    "broken": "broken",
    "lost": "lost",
}
"""Likelihood in a plan -> attribute of `faulty_transport.Faults`."""
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "crash-node": ("node", "for"),
    "fail-zone": ("zone", "for"),
    "restart": ("component", "for"),
    "kill-pods": ("selector", "count"),
    "patch-pods": ("selector", "count", "annotations"),
    "unreliable-api": ("for", *_API),
}
"""What each fault may say besides `at` and `do`."""
_SHORTEST, _LONGEST = 60.0, 600.0


class PlanError(Exception):
    """A plan cannot be read: it names the file, the fault and the field."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    at: float
    """Seconds after the beginning."""
    do: str
    """One of `_FIELDS`."""
    lasts: float = 0.0
    target: str = ""
    """Node, zone, component, or label selector of pods."""
    count: int = 1
    details: Mapping[str, Any] = field(default_factory=dict)
    """Annotations, or likelihoods by attribute of `faulty_transport.Faults`."""

    def describe(self) -> str:
        """In a few words."""
        lasts = f" for {self.lasts:g} s" if self.lasts else ""
        extra = f" {dict(self.details)}" if self.details else ""
        return f"{self.at:g} s: {self.do} {self.target}{lasts}{extra}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A workload and what goes wrong with it."""

    nodes: int = 5
    zones: int = 2
    lasts: float = 900.0
    """Seconds of trouble."""
    workload: tuple[Path, ...] = ()
    """Manifests; none for the usual mix."""
    faults: tuple[Fault, ...] = ()


def read_plan(path: Path) -> Plan:
    """A plan from a file. Raises PlanError."""
    try:
        found = [one for one in documents(path.read_text(encoding="utf-8"), str(path)) if one is not None]
    except (OSError, UnicodeDecodeError, ManifestError) as error:
        raise PlanError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if len(found) != 1 or not isinstance(found[0], dict):
        raise PlanError(f"{path}: expected one document with `faults`")
    tree = found[0]
    unknown = set(tree) - {"nodes", "zones", "for", "workload", "faults"}
    if unknown:
        raise PlanError(f"{path}: unknown field {min(unknown)}")
    faults = tuple(_fault(one, f"{path}: faults[{number}]") for number, one in enumerate(tree.get("faults") or ()))
    return Plan(
        nodes=_whole(tree.get("nodes", 5), f"{path}: nodes"),
        zones=_whole(tree.get("zones", 2), f"{path}: zones"),
        lasts=_seconds(tree.get("for", 900), f"{path}: for"),
        workload=tuple(path.parent / str(one) for one in tree.get("workload") or ()),
        faults=tuple(sorted(faults, key=lambda one: one.at)),
    )


def _fault(tree: Any, where: str) -> Fault:
    if not isinstance(tree, dict) or tree.get("do") not in _FIELDS:
        raise PlanError(f"{where}: do: expected one of {', '.join(_FIELDS)}")
    do = tree["do"]
    for name in tree:
        if name not in ("at", "do", *_FIELDS[do]):
            raise PlanError(f"{where}: {do} has no field {name}; it has {', '.join(_FIELDS[do])}")
    target = next((str(tree[name]) for name in ("node", "zone", "component", "selector") if name in tree), "")
    if do in ("crash-node", "fail-zone", "restart") and not target:
        raise PlanError(f"{where}: {_FIELDS[do][0]} is missing")
    if do == "restart" and target not in COMPONENTS:
        raise PlanError(f"{where}: component: expected one of {', '.join(COMPONENTS)}")
    details: dict[str, Any] = {_API[name]: _share(tree[name], f"{where}: {name}") for name in _API if name in tree}
    if do == "patch-pods":
        details = {str(key): str(value) for key, value in (tree.get("annotations") or {}).items()}
    return Fault(
        at=_seconds(tree.get("at", 0), f"{where}: at"),
        do=do,
        lasts=_seconds(tree.get("for", 0), f"{where}: for"),
        target=target,
        count=_whole(tree.get("count", 1), f"{where}: count"),
        details=details,
    )


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PlanError(f"{where}: expected a whole number from 1, found {value!r}")
    return value


def _share(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise PlanError(f"{where}: expected a likelihood from 0 to 1, found {value!r}")
    return float(value)


def _seconds(value: Any, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value))
    if found is None:
        raise PlanError(f"{where}: expected a time such as 90s or 5m, found {value!r}")
    return float(found[1]) * _UNITS[found[2]]


# Plans from seeds


def drawn_plan(seed: int) -> Plan:
    """A plan that a seed chooses: more or less of every fault, or none of it."""
    chance = SeededRandomness(f"plan {seed}")
    nodes, zones = 3 + int(chance.random() * 5), 1 + int(chance.random() * 3)
    lasts = _SHORTEST + (_LONGEST - _SHORTEST) * chance.random()
    makers: tuple[Callable[[Randomness, int, int], Fault], ...] = (
        _crash,
        _zone,
        _restart,
        _kill,
        _memory,
        _images,
        _api,
    )
    faults: list[Fault] = []
    for make in makers:
        if chance.random() < 0.5:
            faults.extend(make(chance, nodes, zones) for _ in range(1 + int(chance.random() * 3)))
    timed = [_moved(fault, lasts * chance.random()) for fault in faults]
    return Plan(nodes=nodes, zones=zones, lasts=lasts, faults=tuple(sorted(timed, key=lambda one: one.at)))


def _moved(fault: Fault, at: float) -> Fault:
    return Fault(round(at, 3), fault.do, fault.lasts, fault.target, fault.count, fault.details)


def _crash(chance: Randomness, nodes: int, zones: int) -> Fault:
    return Fault(
        0, "crash-node", lasts=round(500 * chance.random(), 3), target=f"node-{1 + int(chance.random() * nodes)}"
    )


def _zone(chance: Randomness, nodes: int, zones: int) -> Fault:
    return Fault(
        0, "fail-zone", lasts=round(500 * chance.random(), 3), target=f"zone-{'abc'[int(chance.random() * zones)]}"
    )


def _restart(chance: Randomness, nodes: int, zones: int) -> Fault:
    return Fault(0, "restart", lasts=round(30 * chance.random(), 3), target=chance.choice(COMPONENTS))


def _kill(chance: Randomness, nodes: int, zones: int) -> Fault:
    return Fault(0, "kill-pods", target="", count=1 + int(chance.random() * 4))


def _memory(chance: Randomness, nodes: int, zones: int) -> Fault:
    """Out of memory, or a crash loop."""
    annotations = chance.choice(
        (
            {"bayplan.dev/oom-seconds": "5"},
            {"bayplan.dev/run-seconds": "10", "bayplan.dev/exit-code": "1"},
            {"bayplan.dev/ready": "false"},
        )
    )
    return Fault(0, "patch-pods", count=1 + int(chance.random() * 3), details=annotations)


def _images(chance: Randomness, nodes: int, zones: int) -> Fault:
    """Images that take long."""
    return Fault(0, "patch-pods", count=2, details={"bayplan.dev/pull-seconds": f"{int(60 * chance.random())}"})


def _api(chance: Randomness, nodes: int, zones: int) -> Fault:
    likely = {name: round(0.3 * chance.random(), 3) for name in _API.values() if chance.random() < 0.5}
    return Fault(0, "unreliable-api", lasts=round(200 * chance.random(), 3), details=likely)
