"""Every flag of Kubernetes' binaries is known: it works, it is taken with a note, or it is refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from bayplan.cli.components import apiserver, controller_manager, kubelet, proxy, scheduler
from bayplan.cli.flags.feature_gates import known_gates
from bayplan.cli.flags.kube_command import KubeCommand
from bayplan.cli.flags.kube_flag_tables import API_SERVER, CONTROLLER_MANAGER, KUBELET, PROXY, SCHEDULER, FlagTable

COMMANDS: list[Any] = [apiserver.command, scheduler.command, controller_manager.command, kubelet.command, proxy.command]
TABLE = FlagTable(
    without_effect={"watch-cache": "all is in memory", "vmodule": "logs are lines"},
    refused={"oidc-issuer-url": "there is no OIDC"},
    fixed={"storage-backend": ("etcd3",)},
    former={"insecure-port": "--secure-port"},
    switches=frozenset({"watch-cache"}),
)


def parsed(*words: str) -> tuple[dict[str, Any], str, str]:
    """Options as the command gets them, its notes, and the error."""
    found: dict[str, Any] = {}

    @click.command(cls=KubeCommand, table=TABLE)
    @click.option("--anonymous-auth", type=bool)
    @click.option("--cluster-cidr")
    @click.option("--controllers", default="*")
    @click.option("--v", type=int, default=0)
    def command(**options: Any) -> None:
        found.update(options)

    result = CliRunner().invoke(command, words)
    lines = result.stderr.splitlines()
    return found, "\n".join(line for line in lines if "note:" in line), lines[-1] if result.exit_code else ""


def test_words_are_read_as_go_programs_read_them() -> None:
    for words in (
        ("--anonymous-auth", "--cluster-cidr", "10.0.0.0/16", "-v=4"),
        ("--anonymous-auth=true", "--cluster_cidr=10.0.0.0/16", "-v", "4"),
        ("-v4", "--anonymous_auth", "--cluster-cidr=10.0.0.0/16"),
    ):
        assert parsed(*words)[0] == {
            "anonymous_auth": True,
            "cluster_cidr": "10.0.0.0/16",
            "controllers": "*",
            "v": 4,
        }, words


def test_lists_that_are_given_several_times_add_up() -> None:
    options, _, error = parsed(
        "--controllers=*", "--cluster-cidr=a", "--controllers", "-job,-cronjob", "--cluster-cidr=b"
    )
    assert (options["controllers"], options["cluster_cidr"], error) == ("*,-job,-cronjob", "b", "")
    assert "Nonsense" in parsed("--feature-gates=Nonsense=true", "--feature-gates=AllAlpha=false")[2]
    assert parsed("--controllers", "", "--cluster-cidr=b")[0] == {**options, "controllers": "", "cluster_cidr": "b"}
    assert parsed("--controllers=", "--controllers=a")[0]["controllers"] == "a"
    assert "requires an argument" in parsed("--controllers")[2]


def test_a_flag_without_effect_takes_its_value_along_and_says_why() -> None:
    options, notes, error = parsed("--vmodule", "a=1", "--watch-cache", "--cluster-cidr=x", "--watch-cache=false")
    assert (options["cluster_cidr"], error) == ("x", "")
    assert notes.splitlines() == [
        "bayplan: note: --vmodule has no effect: logs are lines",
        "bayplan: note: --watch-cache has no effect: all is in memory",
    ]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--insecure-port=8080", "--insecure-port is a flag of older versions; today: --secure-port"),
        ("--oidc-issuer-url=https://x", "--oidc-issuer-url is not supported: there is no OIDC"),
        ("--storage-backend=etcd2", "--storage-backend=etcd2 is not supported: it can only be 'etcd3'"),
        ("--feature-gates=Nosuch=true", "unrecognized feature gate: Nosuch"),
        ("--feature-gates=HPAScaleToZero", "missing bool value for HPAScaleToZero"),
        ("--feature-gates=HPAScaleToZero=maybe", "invalid value of HPAScaleToZero"),
        ("--feature-gates=other:HPAScaleToZero=true", "component not registered: other"),
        ("--feature-gates=APIServerTracing=false", "feature is locked to true"),
        ("--nosuch", "No such option"),
    ],
)
def test_what_is_refused(word: str, message: str) -> None:
    options, _, error = parsed(word)
    assert not options
    assert message in error


def test_what_says_what_is_done_anyway_needs_no_note() -> None:
    gates = "--feature-gates=HPAScaleToZero=false,kube:GracefulNodeShutdown=true,APIServerTracing=true"
    assert parsed("--storage-backend=etcd3", gates)[1:] == ("", "")
    assert "the default of HPAScaleToZero, AllBeta" in parsed("--feature-gates=HPAScaleToZero=true,AllBeta=true")[1]


def test_the_version() -> None:
    result = CliRunner().invoke(COMMANDS[0], ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("Kubernetes v1.36")


def test_gates_are_those_of_this_version() -> None:
    gates = known_gates()
    assert len(gates) == 232
    assert list(gates) == sorted(gates)
    assert not any(gate.stage == "Alpha" and gate.default for gate in gates.values())


def names_of(table: FlagTable) -> Iterator[str]:
    yield from (*table.without_effect, *table.refused, *table.fixed, *table.former)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.callback.__module__.rpartition(".")[2])
def test_no_flag_has_two_meanings(command: KubeCommand) -> None:
    names = list(names_of(command.table))
    own = {name.removeprefix("--") for option in command.params for name in option.opts}
    assert len(names) == len(set(names))
    assert not own & set(names)


@pytest.mark.parametrize("table", [API_SERVER, SCHEDULER, CONTROLLER_MANAGER, KUBELET, PROXY])
def test_switches_are_flags(table: FlagTable) -> None:
    assert table.switches <= set(names_of(table))
