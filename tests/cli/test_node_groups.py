"""`up --node-group`: what is wrong with a group is said before anything starts."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bayplan.cli.clusters.up import command, merged_options
from bayplan.cli.clusters.up_options import UpOptions
from bayplan.cli.main import main


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (("name=web",), "--node-group: group web: max must be given"),
        (("name=web,max=2,cpu=x",), "--node-group: cpu: "),
        (("name=web,max=2", "name=web,max=3"), "--node-group: there are two groups of the name web"),
    ],
)
def test_a_group_that_is_no_group_is_a_usage_error(groups: tuple[str, ...], message: str) -> None:
    arguments = [part for group in groups for part in ("--node-group", group)]
    result = CliRunner().invoke(main, ["up", "--store", "memory:", "--port", "0", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_groups_are_settings_of_the_nodes() -> None:
    arguments = ["--store", "memory:", "--nodes", "0", "--node-group", "name=web,max=2"]
    flag = "--controller-manager-flag=--scale-down-unneeded-time=1m"
    with command.make_context("up", [*arguments, flag]) as context:
        settings = UpOptions(**merged_options(context)).settings()
    assert [one.name for one in settings.nodes.groups] == ["web"]
    assert settings.nodes.plays_nodes
    assert settings.controller.autoscaler_unneeded_time == 60.0
