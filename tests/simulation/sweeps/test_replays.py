"""Replays and comparisons of workloads in shards: what comes of them is what one process makes of the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.cli.main import main
from bayplan.simulation.replay import workload_file
from bayplan.simulation.replay.run import replay
from bayplan.simulation.replay.traces import TraceError, read_nodes, read_pods, workload_on
from bayplan.simulation.replay.units import data_of, replay_of, run_unit, units_of
from bayplan.simulation.sweeps.results import DirectoryResults

WORKLOAD = Path("examples/workload")
FILES = (str(WORKLOAD / "pods.csv"), "--nodes", str(WORKLOAD / "nodes.csv"))
PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def said(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout


def data(*arguments: str) -> Any:
    return json.loads(said(*arguments, "-o", "json"))


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "packed.yaml"
    path.write_text(PACKED)
    return path


def test_a_comparison_in_shards_is_the_same_as_a_whole_one(packed: Path, tmp_path: Path) -> None:
    asked = ("compare", *FILES, "--scheduler-config", str(packed), "--seeds", "3")
    kept = ("--results", str(tmp_path / "results"))
    assert (
        said(*asked, *kept, "--shard", "2/2")
        == f"3 of 6 runs are of this part; without --shard, {kept[1]} is reported\n"
    )
    said(*asked, *kept, "--shard", "1/2")
    results = sorted(path for path in (tmp_path / "results").rglob("*.json"))
    assert len(results) == 6
    whole = data(*asked)
    assert data(*asked, *kept) == whole
    assert sorted((tmp_path / "results").rglob("*.json")) == results
    assert {one["better"] for one in whole["measures"]} > {""}


def test_runs_of_one_configuration_are_summed_up(packed: Path, tmp_path: Path) -> None:
    asked = ("replay", *FILES, "--scheduler-config", str(packed))
    found = data(*asked, "--seeds", "2", "--results", str(tmp_path))
    nodes = next(one for one in found["measures"] if one["name"] == "nodes with pods, mean")
    alone = [data(*asked, "--seed", str(seed))["meanNodesWithPods"] for seed in range(2)]
    assert nodes["mean"] == pytest.approx(sum(alone) / 2)
    assert "nodes with pods, mean" in said(*asked, "--seeds", "2")


def test_what_cannot_be_meant_is_a_usage_error(packed: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (("replay", *FILES, "-j", "2"), "are for --seeds"),
        (("replay", *FILES, "--seeds", "2", "--seed", "1"), "for one run"),
        (("replay", *FILES, "--seeds", "2", "--shard", "1/2"), "needs --results"),
        (("compare", *FILES, "--scheduler-config", str(packed), "--shard", "1/2"), "needs --results"),
    ):
        result = CliRunner().invoke(main, list(arguments))
        assert (result.exit_code, message in result.output) == (2, True), result.output


def test_a_result_is_decided_by_content(packed: Path, tmp_path: Path) -> None:
    workload = workload_on(read_nodes(WORKLOAD / "nodes.csv"), read_pods(WORKLOAD / "pods.csv"))
    here, there = (workload_file.save(workload, tmp_path / name) for name in ("here", "there"))
    copy = tmp_path / "copy.yaml"
    copy.write_text(PACKED)
    digests = [
        [one.digest for one in units_of(path, (file,), (0, 1))] for path, file in ((here, packed), (there, copy))
    ]
    assert digests[0] == digests[1]
    copy.write_text(PACKED.replace("weight: 1", "weight: 2"))
    assert units_of(here, (copy,), (0,))[0].digest not in digests[0]
    assert units_of(here, (None,), (0,))[0].digest not in digests[0]


def test_a_unit_is_the_replay_of_its_seed(packed: Path, tmp_path: Path) -> None:
    workload = workload_on(read_nodes(WORKLOAD / "nodes.csv"), read_pods(WORKLOAD / "pods.csv"))
    path = workload_file.save(workload, tmp_path)
    assert workload_file.save(workload_file.load(path), tmp_path / "again").name == path.name
    unit = units_of(path, (packed,), (5,))[0]
    alone = replay(workload, str(packed), seed=5)
    results = DirectoryResults(tmp_path)
    results.put(unit.digest, run_unit(unit.inputs))
    kept = results.get(unit.digest)
    assert kept is not None
    assert kept == json.loads(json.dumps(data_of(alone)))
    assert data_of(replay_of(kept)) == data_of(alone)


def test_a_workload_that_was_cut_off_is_named(tmp_path: Path) -> None:
    workload = workload_on(read_nodes(WORKLOAD / "nodes.csv"), read_pods(WORKLOAD / "pods.csv"))
    path = workload_file.save(workload, tmp_path)
    cut = tmp_path / "cut.workload"
    cut.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:-1]))
    with pytest.raises(TraceError, match=r"cut\.workload: cut off: 239 of 240 pods"):
        workload_file.load(cut)
