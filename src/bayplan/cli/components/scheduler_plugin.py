"""`bayplan scheduler plugin`: begin a plugin of one's own, and check one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from bayplan.cli.components.plugin_debugger import debug
from bayplan.cli.output import FILE, Failure, Unanswerable

_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@click.group()
def command() -> None:
    """Begin a scheduler plugin of your own, check that it keeps its contract, and step through its decisions."""


command.add_command(debug)


@command.command()
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to write it; must be new or empty.  [default: the name, in small letters with dashes]",
)
def new(name: str, directory: Path | None) -> None:
    """Write a package with a plugin, its test and a profile that uses it. NAME is the plugin's, such as QuietNodes."""
    from bayplan.scheduler import registry

    if not _NAME.fullmatch(name):
        raise click.UsageError(f"{name!r} is no name of a plugin: write it like QuietNodes, with letters and digits")
    if registry.is_known(name):
        raise click.UsageError(f"there is a plugin {name} already")
    words = [word.lower() for word in _HUMP.split(name)]
    place = directory or Path("-".join(words))
    if place.exists() and any(place.iterdir()):
        raise Unanswerable(f"{place} is not empty; choose another place with --directory")
    files = _files(name, "_".join(words), "-".join(words))
    try:
        for path, text in files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{place}: {error.strerror or error}") from error
    for path in files:
        click.echo(place / path)
    click.echo(
        f"\nInstall it beside Bayplan, so that a change counts at the next start, and try it:\n\n"
        f"  pip install -e {place}\n"
        f"  bayplan scheduler plugin check {name}\n"
        f"  bayplan up --scheduler-config {place}/profile.yaml"
    )


@command.command()
@click.argument("name")
@click.option(
    "--scheduler-config",
    type=FILE,
    help="KubeSchedulerConfiguration that enables it.  [default: at all of its extension points]",
)
@click.option("--plugin", "file", type=FILE, help="A file of Python with the plugin, which then need not be installed.")
@click.option("--runs", type=click.IntRange(1), default=20, show_default=True, help="Random clusters.")
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds make equal clusters.")
def check(name: str, scheduler_config: Path | None, file: Path | None, runs: int, seed: int) -> None:
    """Check on random clusters that a plugin keeps its scope: that what is kept between decisions is what a fresh scheduler works out.

    Also that it decides twice the same, stays within bounds and changes nothing. NAME is that of an installed plugin, or of one in a file. Exit code 1 if something
    is wrong.
    """
    from bayplan.scheduler.development.plugin_files import load_plugins
    from bayplan.testing.plugins import check_plugin

    found = {one.name: one for one in load_plugins(file)} if file is not None else {}
    if file is not None and name not in found:
        raise Unanswerable(f"{file} has no plugin {name!r}; it has {', '.join(found)}")
    try:
        problems = check_plugin(
            found.get(name, name),
            config=str(scheduler_config) if scheduler_config is not None else None,
            runs=runs,
            seed=seed,
        )
    except KeyError as error:
        raise Unanswerable(str(error.args[0])) from error
    for one in problems:
        click.echo(one)
    if problems:
        raise SystemExit(1)
    click.echo(f"{name}: nothing is wrong on {runs} random clusters")


def _files(name: str, module: str, package: str) -> dict[str, str]:
    """Path -> text of everything in the package."""
    return {
        f"{module}.py": _PLUGIN.format(name=name),
        f"tests/test_{module}.py": _TEST.format(name=name, module=module),
        "profile.yaml": _PROFILE.format(name=name),
        "pyproject.toml": _PROJECT.format(name=name, module=module, package=package),
        "README.md": _README.format(name=name),
    }


_PLUGIN: Final = '''\
"""{name}: prefers nodes with few pods. Change it to what you want; `bayplan.scheduler.framework.extension_points` says what else there is."""

import numpy as np

from bayplan.scheduler.framework.extension_points import MAX_NODE_SCORE, Scope, ScorePlugin


class {name}(ScorePlugin):
    """Scores a node by its pods: 100 for none, one less for each."""

    name = "{name}"
    score_scope = Scope.ROW  # the score depends on the node and on the pods there, not on pods elsewhere

    def score(self, state, pod, rows):
        """A score from 0 to 100 for each of the rows, which are nodes; the columns are those of `bayplan.scheduler.snapshot.snapshot.Snapshot`."""
        return MAX_NODE_SCORE - np.minimum(self.snapshot.pod_count[rows], MAX_NODE_SCORE)
'''
_TEST: Final = '''\
"""The plugin does what it says, and keeps its contract."""

from {module} import {name}

from bayplan.scheduler import evaluate, registry
from bayplan.testing.builders import node, pod
from bayplan.testing.plugins import check_plugin

CONFIG = {{
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{{"plugins": {{"multiPoint": {{"enabled": [{{"name": "{name}", "weight": 5}}]}}}}}}],
}}


def test_nodes_with_few_pods_are_preferred():
    there = [pod(f"there-{{number}}", node_name="a") for number in range(3)]
    with registry.known({name}):
        decision = evaluate([node("a"), node("b"), *there], pod("new"), CONFIG)
    assert decision.node == "b"
    assert [int(decision.scores["{name}"][row]) for row in range(2)] == [5 * 97, 5 * 100]


def test_the_plugin_keeps_its_contract():
    assert check_plugin({name}) == []
'''
_PROFILE: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{{name: {name}, weight: 5}}]
"""
_PROJECT: Final = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}"
version = "0.1.0"

[project.entry-points."bayplan.plugins"]
{name} = "{module}:{name}"

[tool.setuptools]
py-modules = ["{module}"]
"""
_README: Final = """\
# {name}

A plugin for Bayplan's scheduler.

    pip install -e .
    pytest
    bayplan scheduler plugin check {name}
    bayplan up --scheduler-config profile.yaml

On any cluster, as a second scheduler beside kube-scheduler (give the profile another `schedulerName`):

    bayplan scheduler --config profile.yaml --leader-elect-resource-name {name}
"""
