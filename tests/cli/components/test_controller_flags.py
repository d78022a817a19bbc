"""Flags of the controllers, on their own and through `up`."""

from __future__ import annotations

from dataclasses import fields

import click
import pytest
from click.testing import CliRunner

from bayplan.cli.flags.controller_flags import FLAGS, parsed_settings
from bayplan.cli.main import main
from bayplan.controllers.manager import CONTROLLERS, DISABLED_BY_DEFAULT, controller_filter
from bayplan.controllers.settings import ControllerSettings


def test_flags_are_read_in_their_own_forms() -> None:
    base = ControllerSettings(node_eviction_rate=7.0)
    given = [
        "--node-monitor-grace-period=1m10s",
        "--cluster-cidr=10.0.0.0/16,fd00::/48",
        "--terminated-pod-gc-threshold=5",
        "--allocate-node-cidrs=false",
    ]
    settings = parsed_settings(given, base)
    assert settings.node_monitor_grace_period == 70.0
    assert settings.cluster_cidr == ("10.0.0.0/16", "fd00::/48")
    assert settings.terminated_pod_threshold == 5
    assert settings.allocate_node_cidrs is False
    assert settings.node_eviction_rate == 7.0, "what is not given stays"


@pytest.mark.parametrize("cidr", ["10.0.0.0/16,10.1.0.0/16", "10.0.0.1/16", "nonsense"])
def test_networks_are_checked(cidr: str) -> None:
    with pytest.raises(click.UsageError):
        parsed_settings([f"--cluster-cidr={cidr}"], ControllerSettings())


def test_an_unknown_flag_names_the_nearest_one() -> None:
    with pytest.raises(click.UsageError, match="did you mean --node-monitor-period"):
        parsed_settings(["--node-monitor-perod=5s"], ControllerSettings())


def test_every_flag_is_for_a_setting_that_there_is() -> None:
    assert {flag.field for flag in FLAGS.values()} <= {one.name for one in fields(ControllerSettings)}


def test_authority_and_key_go_together() -> None:
    result = CliRunner().invoke(main, ["controller-manager", "--cluster-signing-cert-file", __file__])
    assert result.exit_code == 2
    assert "go together" in result.output


@pytest.mark.parametrize(
    ("names", "on", "off"),
    [
        ([], "job-controller", "token-cleaner-controller"),
        (["*"], "job-controller", "bootstrap-signer-controller"),
        (["*", "token-cleaner-controller"], "token-cleaner-controller", "bootstrap-signer-controller"),
        (["*", "-job-controller"], "ttl-controller", "job-controller"),
        (["job-controller"], "job-controller", "ttl-controller"),
        (["*"], "ttl-controller", "selinux-warning-controller"),
        (["*", "-attachdetach"], "job-controller", "persistentvolume-attach-detach-controller"),
        (["svm", "job"], "storage-version-migrator-controller", "ttl-controller"),
    ],
)
def test_controllers_are_chosen_by_name(names: list[str], on: str, off: str) -> None:
    enabled = controller_filter(names)
    assert enabled(on)
    assert not enabled(off)


def test_a_controller_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown controller 'jobs'"):
        controller_filter(["*", "-jobs"])


def test_controllers_have_names_of_their_own() -> None:
    names = [cls.name for cls in CONTROLLERS]
    assert len(set(names)) == len(names)
    assert set(DISABLED_BY_DEFAULT) <= set(names)
