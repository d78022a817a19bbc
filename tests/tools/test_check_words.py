"""Names that were left behind are found in code and as modules, not in prose, and none is there."""

from __future__ import annotations

from pathlib import Path

from tools.check_words import abandoned_names


def test_the_project_uses_none() -> None:
    assert list(abandoned_names(Path(__file__).parents[2])) == []


def test_names_and_modules_are_found_and_prose_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "bayplan" / "scheduler"
    folder.mkdir(parents=True)
    (folder / "wide_scores.py").write_text('"""A trial of the passage."""\n')
    (folder / "fine.py").write_text("# the way of a pod\nrailway = trials = None\n")
    (folder / "core.py").write_text("def _trial(way: object) -> None: ...\n")
    assert list(abandoned_names(tmp_path)) == [
        "src/bayplan/scheduler/core.py:1: _trial: say what_if",
        "src/bayplan/scheduler/core.py:1: way: say plugin_plan",
        "src/bayplan/scheduler/wide_scores.py: the module should be called cross_node_scores",
    ]
