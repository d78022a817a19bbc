"""Feature gates of Kubernetes and of Bayplan on command lines."""

from __future__ import annotations

import click
import pytest

from bayplan.api.feature_gates import ALL_GATES
from bayplan.cli.flags.controller_flags import parsed_settings
from bayplan.cli.flags.feature_gates import gates_in_force, gates_of, gates_without_effect, known_gates, own_gates
from bayplan.cli.flags.kube_flags import api_server_settings
from bayplan.controllers.manager import controller_filter
from bayplan.controllers.nodes.affinity_eviction import AffinityEvictionController
from bayplan.controllers.settings import ControllerSettings

GATE = "AffinityDuringExecution"


@pytest.mark.parametrize(
    ("text", "is_on"),
    [
        (f"{GATE}=true", True),
        (f"bayplan:{GATE}=true", True),
        (f"{GATE}=false", False),
        ("AllAlpha=true", False),
        ("kube:NodeSwap=true", False),
        ("", False),
    ],
)
def test_what_switches_bayplans_own_gate_on(text: str, is_on: bool) -> None:
    assert (own_gates(text) == ALL_GATES) is is_on
    settings, _, _ = api_server_settings([f"--feature-gates={text}"] if text else [])
    assert (settings.feature_gates == ALL_GATES) is is_on
    flags = [f"--feature-gates={text}"] if text else []
    assert (parsed_settings(flags, ControllerSettings()).feature_gates == ALL_GATES) is is_on


@pytest.mark.parametrize("text", [f"kube:{GATE}=true", "bayplan:NodeSwap=true", "other:NodeSwap=true", "Nothing=true"])
def test_gates_belong_to_components(text: str) -> None:
    with pytest.raises(click.UsageError):
        gates_of(text)


def test_kubernetes_does_not_have_the_gate_and_its_own_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert GATE not in known_gates()
    assert gates_without_effect(gates_of(f"{GATE}=true,HPAScaleToZero=true")) == ["HPAScaleToZero"]
    assert own_gates(f"{GATE}=true,HPAScaleToZero=true") == ALL_GATES
    assert capsys.readouterr().err == "bayplan: note: Bayplan behaves as with the default of HPAScaleToZero\n"


def test_gates_of_pod_groups_have_an_effect() -> None:
    text = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
    assert own_gates(text) == {"GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"}
    assert gates_without_effect(gates_of(text)) == []
    in_force = {name for name, _, is_on in gates_in_force(own_gates(text)) if is_on}
    assert in_force - {name for name, _, is_on in gates_in_force() if is_on} == own_gates(text)


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("WorkloadAwarePreemption=true", "GangScheduling"),
        ("WorkloadAwarePreemption=true,GangScheduling=true", "GenericWorkload"),
        ("TopologyAwareWorkloadScheduling=true", "GenericWorkload"),
        ("WorkloadWithJob=true,GenericWorkload=false", "GenericWorkload"),
    ],
)
def test_a_gate_needs_those_that_it_builds_on(text: str, needed: str) -> None:
    with pytest.raises(click.UsageError, match=rf"depends on features that are disabled: \[{needed}\]"):
        own_gates(text)


@pytest.mark.parametrize(
    ("names", "gate", "runs"),
    [
        (("*",), False, False),
        (("*",), True, True),
        ((), True, True),
        (("*", "affinity-eviction-controller"), False, True),
        (("affinity-eviction-controller",), False, True),
        (("*", "-affinity-eviction-controller"), True, False),
        (("deployment-controller",), True, False),
    ],
)
def test_when_the_controller_runs(names: tuple[str, ...], gate: bool, runs: bool) -> None:
    settings = ControllerSettings(feature_gates=ALL_GATES if gate else frozenset())
    assert controller_filter(names, settings)(AffinityEvictionController.name) is runs
