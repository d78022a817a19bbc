"""The list of annotations is whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click.testing import CliRunner

import bayplan
from bayplan.cli.annotations import ANNOTATIONS
from bayplan.cli.main import main

OTHERS = {
    "cluster",
    "cluster-copy",
    "kubeconfig",
    "local",
    "node",
    "pause",
    "recording",
    "scenario",
    "signing-key",
    "v1",
}
"""What else has such a name: formats of files, a version, entries of kubeconfigs, a provisioner, a topology key, an image, a mark in scenarios' own clusters,
what servers say of themselves in their leases."""


def test_every_annotation_in_the_source_is_listed() -> None:
    found = set()
    for path in Path(bayplan.__file__).parent.rglob("*.py"):
        if path.name != "annotations.py":
            found |= set(re.findall(r"bayplan\.dev/([a-z][a-z0-9-]+)", path.read_text()))
    names = [each.name for each in ANNOTATIONS if each.name.startswith("bayplan.dev/")]
    listed = {re.sub(r"\[.*", "", name).partition("/")[2] for name in names}
    assert found - OTHERS == listed


def test_the_list_is_for_people_and_programs() -> None:
    text = CliRunner().invoke(main, ["annotations"])
    assert text.exit_code == 0
    assert "bayplan.dev/exit-code[.NAME]: 1@20%" in text.output
    data = json.loads(CliRunner().invoke(main, ["annotations", "-o", "json"]).output)["annotations"]
    assert len(data) == len(ANNOTATIONS)
    assert set(data[0]) == {"name", "on", "example", "meaning", "by"}
