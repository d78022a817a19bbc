"""The feature gates of Kubernetes and Bayplan's own: which there are, and what `--feature-gates` may say of them.

Bayplan behaves as Kubernetes does with every gate at its default, but for those of pod groups (`WORKLOAD_GATES`) and of
the API server that it follows (`API_GATES`), so any other gate that is set otherwise is named in a note.
The list beside this module is that of Kubernetes' `versioned_feature_list.yaml`, as it stands in this version.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Final, NamedTuple

import click

from bayplan.api.feature_gates import ALL_GATES, API_GATES, NEWER_GATES, WORKLOAD_GATES, missing_gates

_COMPONENTS: Final = ("kube", "bayplan")
"""The components that may stand before a gate, as in `kube:Gate=true`: whose gate it is."""
_FOLLOWED: Final = ALL_GATES.union(API_GATES, WORKLOAD_GATES)
"""Gates that have an effect."""


class Gate(NamedTuple):
    """One feature gate."""

    stage: str
    """Alpha, Beta, GA or Deprecated."""
    is_locked: bool
    """Whether it can have no other value than its default."""
    default: bool


_OWN_GATE: Final = Gate("Alpha", False, False)
"""What Bayplan's own gates are like, and those of later versions of Kubernetes. AllAlpha does not stand for them."""


@functools.cache
def known_gates() -> dict[str, Gate]:
    """All gates by name, in the order of their names. AllAlpha and AllBeta stand for those of their stage that are not named."""
    lines = resources.files(__package__).joinpath("feature_gates.csv").read_text().splitlines()
    rows = (line.split(",") for line in lines)
    return {name: Gate(stage, locked == "locked", default == "true") for name, stage, locked, default in rows}


def gates_of(text: str) -> dict[str, bool]:
    """What `A=true,kube:B=false` sets. Raises UsageError for a gate that is not known, no truth value, and a locked gate that is set otherwise."""
    found: dict[str, bool] = {}
    for part in (each.strip() for each in text.split(",") if each.strip()):
        name, equals, value = part.partition("=")
        component, colon, rest = name.partition(":")
        if colon and component.strip() not in _COMPONENTS:
            raise click.UsageError(f"--feature-gates: component not registered: {component.strip()}")
        name = (rest if colon else name).strip()
        is_own = name in ALL_GATES and (not colon or component.strip() == "bayplan")
        is_newer = name in NEWER_GATES and (not colon or component.strip() == "kube")
        if not equals:
            raise click.UsageError(f"--feature-gates: missing bool value for {name}")
        setting = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(
            value.strip().lower()
        )
        if setting is None:
            raise click.UsageError(f"--feature-gates: invalid value of {name}: {value.strip()!r} is not true or false")
        is_kubernetes = not colon or component.strip() == "kube"
        gate = _OWN_GATE if is_own or is_newer else known_gates().get(name) if is_kubernetes else None
        if gate is None:
            raise click.UsageError(f"--feature-gates: unrecognized feature gate: {name}")
        if gate.is_locked and setting != gate.default:
            text = str(gate.default).lower()
            raise click.UsageError(
                f"--feature-gates: cannot set feature gate {name} to {value.strip()}, feature is locked to {text}"
            )
        found[name] = setting
    return found


def gates_in_force(on: frozenset[str] = frozenset()) -> tuple[tuple[str, str, bool], ...]:
    """Name, stage as metrics show it, and value of Kubernetes' gates: the default, unless a gate that has an effect is on."""
    return tuple(
        (name, "" if gate.stage == "GA" else gate.stage.upper(), gate.default or name in on)
        for name, gate in known_gates().items()
    )


def gates_without_effect(gates: dict[str, bool]) -> list[str]:
    """Those that are set otherwise than Bayplan behaves."""
    return [name for name, setting in gates.items() if name not in _FOLLOWED and setting != known_gates()[name].default]


def own_gates(text: str) -> frozenset[str]:
    """The gates that have an effect and that `A=true,B=false` switches on. Names the others in a note.

    Raises UsageError as `gates_of` does, and for a gate that needs another one which is off.
    """
    gates = gates_of(text)
    if ignored := gates_without_effect(gates):
        click.echo(f"bayplan: note: Bayplan behaves as with the default of {', '.join(ignored)}", err=True)
    found = frozenset(name for name, setting in gates.items() if setting and name in _FOLLOWED)
    for name, missing in missing_gates(found):
        raise click.UsageError(
            f"--feature-gates: {name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
        )
    return found
