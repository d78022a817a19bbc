"""Files with objects of kwok."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.kubelet.simulator.errors import KwokFileError
from bayplan.kubelet.simulator.stages.kwok_files import read_files


def test_files_and_directories_are_read_and_other_objects_left_out(tmp_path: Path) -> None:
    def document(name: str, kind: str) -> dict[str, Any]:
        spec = {"resourceRef": {"kind": kind}, "selector": {}, "next": {"delete": True}}
        return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}

    (tmp_path / "deeper").mkdir()
    both = yaml.safe_dump_all(
        [document("pod", "Pod"), document("node", "Node"), document("job", "Job"), {"kind": "ConfigMap"}, None]
    )
    (tmp_path / "deeper" / "stages.yaml").write_text(both)
    found = read_files([tmp_path])
    assert ([one.name for one in found.stages], found.left_out) == (["pod", "node"], ("Stage job",))
    (tmp_path / "broken.yaml").write_text("a: b: c")
    with pytest.raises(KwokFileError, match=r"broken\.yaml"):
        read_files([tmp_path / "broken.yaml"])
