"""Results of libcni that killed containerds leave behind go."""

from __future__ import annotations

import json
import os
from pathlib import Path

from bayplan.cluster.real_nodes.cni_results import remove_results, remove_torn

NOW = 1_000_000.0


def written(directory: Path, name: str, data: str, age: float = 10) -> Path:
    path = directory / name
    path.write_text(data)
    os.utime(path, (NOW - age, NOW - age))
    return path


def result(state: str) -> str:
    return json.dumps({"kind": "cniCacheV1", "result": {"interfaces": [{"sandbox": f"{state}/netns/cni-1"}]}})


def test_files_that_were_not_written_to_their_end_go(tmp_path: Path) -> None:
    whole = written(tmp_path, "bayplan-a-eth0", result("/run/b/1"))
    empty, half = written(tmp_path, "bayplan-b-eth0", ""), written(tmp_path, "cni-loopback-b-lo", '{"kind":')
    under_way = written(tmp_path, "bayplan-c-eth0", "", age=0.1)
    assert remove_torn(NOW, tmp_path) == [empty, half]
    assert sorted(tmp_path.iterdir()) == [whole, under_way]


def test_files_about_sandboxes_of_one_cluster_go(tmp_path: Path) -> None:
    ours = written(tmp_path, "bayplan-a-eth0", result("/run/bayplan/abc/1"))
    others = [
        written(tmp_path, "bayplan-b-eth0", result("/run/bayplan/abcd/1")),
        written(tmp_path, "k8s-c-eth0", result("/var/run")),
    ]
    remove_results(Path("/run/bayplan/abc"), tmp_path)
    assert not ours.exists()
    assert sorted(tmp_path.iterdir()) == others


def test_a_machine_without_results_has_none_to_remove(tmp_path: Path) -> None:
    assert remove_torn(NOW, tmp_path / "none") == []
    remove_results(Path("/run/bayplan/abc"), tmp_path / "none")
    assert not (tmp_path / "none").exists()
