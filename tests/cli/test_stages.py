"""`--stages`: what cannot be carried out is said before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.clusters.simulated_pods import kwok_objects
from bayplan.cli.main import main

_STAGE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {{name: {name}}}
spec:
  resourceRef: {{kind: {kind}}}
  selector: {{}}
  next: {{statusTemplate: "{template}"}}
---
"""


@pytest.mark.parametrize("arguments", [("up", "--store", "memory:", "--port", "0"), ("node-simulator",)])
def test_a_stage_that_cannot_be_read_is_a_usage_error(arguments: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "stage.yaml"
    path.write_text(_STAGE.format(name="odd", kind="Pod", template="{{ nope }}"))
    result = CliRunner().invoke(main, [*arguments, "--stages", str(path)])
    assert result.exit_code == 2
    assert "--stages: stage odd: line 1: function 'nope' is not supported" in result.output


def test_stages_of_other_objects_are_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stages.yaml"
    stages = _STAGE.format(name="mine", kind="Pod", template="a: 1")
    path.write_text(stages + _STAGE.format(name="beat", kind="Lease", template="a: 1"))
    assert [one.name for one in kwok_objects((path,)).stages] == ["mine"]
    assert "Stage beat" in capsys.readouterr().err
