"""The feature gates of Kubernetes: which there are, and what `--feature-gates` may say of them.

Bayplan behaves as Kubernetes does with every gate at its default, so a gate that is set otherwise is named in a note.
The list beside this module is that of Kubernetes' `versioned_feature_list.yaml`, as it stands in this version.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Final, NamedTuple

import click

_COMPONENT: Final = "kube"
"""The component that may stand before a gate, as in `kube:Gate=true`."""


class Gate(NamedTuple):
    """One feature gate."""

    stage: str
    """Alpha, Beta, GA or Deprecated."""
    is_locked: bool
    """Whether it can have no other value than its default."""
    default: bool


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
        if colon and component.strip() != _COMPONENT:
            raise click.UsageError(f"--feature-gates: component not registered: {component.strip()}")
        name = (rest if colon else name).strip()
        if not equals:
            raise click.UsageError(f"--feature-gates: missing bool value for {name}")
        setting = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(
            value.strip().lower()
        )
        if setting is None:
            raise click.UsageError(f"--feature-gates: invalid value of {name}: {value.strip()!r} is not true or false")
        gate = known_gates().get(name)
        if gate is None:
            raise click.UsageError(f"--feature-gates: unrecognized feature gate: {name}")
        if gate.is_locked and setting != gate.default:
            text = str(gate.default).lower()
            raise click.UsageError(
                f"--feature-gates: cannot set feature gate {name} to {value.strip()}, feature is locked to {text}"
            )
        found[name] = setting
    return found


def gates_without_effect(gates: dict[str, bool]) -> list[str]:
    """Those that are set otherwise than Bayplan behaves."""
    return [name for name, setting in gates.items() if setting != known_gates()[name].default]
