"""Pages of figures of two revisions are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.compare_benchmarks import best, compare, main

ROOT = Path(__file__).parents[2]


def page(pods: str, seconds: str, memory: str = "10") -> str:
    return (
        "| benchmark | measure | value | unit | Kubernetes 1.36.2 + etcd |\n|---|---|---:|---|---|\n"
        f"| library | mix | {pods} | pods/s | 298-330 |\n| start-up | until ready | {seconds} | s |  |\n"
        f"| library | memory | {memory} | MiB |  |\n"
    )


def test_the_best_of_several_pages_counts() -> None:
    assert best([page("1,000", "2"), page("900", "1.5")]) == {
        ("library", "mix", "pods/s"): 1000.0,
        ("start-up", "until ready", "s"): 1.5,
        ("library", "memory", "MiB"): 10.0,
    }


@pytest.mark.parametrize(
    ("pods", "seconds", "worse", "better"),
    [
        ("1,000", "2", [], []),
        ("901", "2.2", [], []),
        ("899", "2", ["library: mix"], []),
        ("1,112", "2", [], ["library: mix"]),
        ("1,000", "2.3", ["start-up: until ready"], []),
        ("2,000", "1", [], ["library: mix", "start-up: until ready"]),
    ],
)
def test_rates_are_to_be_high_and_times_low(pods: str, seconds: str, worse: list[str], better: list[str]) -> None:
    changes = compare([page("1,000", "2")], [page(pods, seconds)])
    assert [change.name for change in changes if change.gain < 1] == worse
    assert [change.name for change in changes if change.gain > 1] == better


@pytest.mark.parametrize(
    ("former", "current", "gains"),
    [
        ("4", "8", []),
        ("8", "4", []),
        ("-3.05", "2", []),
        ("4", "20", [104 / 120]),
        ("20", "-3", [120 / 97]),
    ],
)
def test_what_comes_on_top_is_to_be_low_and_counts_with_the_whole(
    former: str, current: str, gains: list[float]
) -> None:
    pages = [f"| questions | scheduling takes | {value} | % more |  |\n" for value in (former, current)]
    assert [change.gain for change in compare(pages[:1], pages[1:])] == gains


def test_what_is_worse_fails_the_night(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {}
    for name, text in (("a", page("1,000", "2")), ("b", page("500", "2")), ("none", "")):
        files[name] = tmp_path / name
        files[name].write_text(text)
    assert main(["--former", str(files["a"]), "--current", str(files["b"])]) == 1
    assert "WORSE library: mix: 1000 then 500 pods/s (-50%)" in capsys.readouterr().out
    assert main(["--former", str(files["a"]), "--current", str(files["b"]), str(files["a"])]) == 0
    assert main(["--former", str(files["a"]), "--current", str(files["none"])]) == 1, "nothing was compared"


def test_the_page_of_results_can_be_read() -> None:
    assert len(best([(ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")])) > 100
