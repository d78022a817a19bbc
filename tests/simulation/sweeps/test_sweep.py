"""Sweeps: units through an executor, in shards, with results that are kept once, and workers that die."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.cli.main import main
from bayplan.simulation.faults.trial import Trial
from bayplan.simulation.faults.unit import data_of, trial_of, units_of
from bayplan.simulation.sweeps.executors import InlineExecutor, executor_of
from bayplan.simulation.sweeps.results import (
    DirectoryResults,
    MemoryResults,
    Result,
    ResultsError,
    ShardError,
    digest_of,
    digest_of_files,
    shard_in,
)
from bayplan.simulation.sweeps.sweep import SweepError, Unit, shard_of, sweep
from tests.simulation.sweeps.units import ends_its_worker_once, squared


def numbers(count: int) -> list[Unit]:
    return [Unit(f"number {number}", {"number": number}, {"number": number}) for number in range(count)]


class Mortal(Executor):
    """Runs calls when they are waited for, and breaks at a call of a certain number."""

    def __init__(self, deadly: Callable[[int], bool]) -> None:
        self._deadly = deadly
        self._broken = False
        self.submitted: list[int] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted.append(args[0]["number"])
        future: Future[Any] = Future()
        if self._broken or self._deadly(args[0]["number"]):
            self._broken = True
            future.set_exception(BrokenExecutor("a worker died"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def run(units: Sequence[Unit], function: Any = squared, executor: Any = InlineExecutor, **options: Any) -> list[Result]:
    return list(sweep(function, units, executor, options.pop("results", MemoryResults()), **options))


def test_results_come_in_the_order_of_the_units_with_progress() -> None:
    told: list[int] = []
    assert run(numbers(3), told=told.append) == [{"square": 0}, {"square": 1}, {"square": 4}]
    assert told == [0, 1, 2, 3]


def test_what_is_there_already_is_not_run_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(inputs: Result) -> Result:
        calls.append(inputs["number"])
        return squared(inputs)

    results = DirectoryResults(tmp_path)
    run(numbers(2), counted, results=results)
    assert len(run(numbers(4), counted, results=DirectoryResults(tmp_path))) == 4
    assert calls == [0, 1, 2, 3]


def test_equal_units_are_run_once_and_each_has_the_result() -> None:
    calls: list[int] = []

    def counted(inputs: Result) -> Result:
        calls.append(inputs["number"])
        return squared(inputs)

    assert len(run([*numbers(2), *numbers(2)], counted)) == 4
    assert calls == [0, 1]


def test_shards_have_every_unit_once_and_together_give_the_report_of_all(tmp_path: Path) -> None:
    units = numbers(7)
    parts = [shard_of(units, (number, 3)) for number in (1, 2, 3)]
    assert sorted(unit.name for part in parts for unit in part) == sorted(unit.name for unit in units)
    for part in parts:
        run(part, results=DirectoryResults(tmp_path))
    assert run(units, lambda inputs: pytest.fail("was there"), results=DirectoryResults(tmp_path)) == run(units)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5"])
def test_a_shard_that_is_none_says_what_is_expected(text: str) -> None:
    with pytest.raises(ShardError, match="expected I/N"):
        shard_in(text)
    assert shard_in("3/3") == (3, 3)


def test_processes_do_what_a_dead_worker_left_and_count_nothing_twice(tmp_path: Path) -> None:
    told: list[int] = []
    units = [Unit(one.name, one.key, {**one.inputs, "mark": str(tmp_path / "mark")}) for one in numbers(8)]
    found = run(units, ends_its_worker_once, executor_of(2), workers=2, told=told.append)
    assert found == [squared(unit.inputs) for unit in units]
    assert told == list(range(9))
    assert (tmp_path / "mark").exists()


def test_a_unit_that_ends_its_worker_again_and_again_is_named_and_the_others_are_kept() -> None:
    results = MemoryResults()
    pools: list[Mortal] = []

    def executor() -> Mortal:
        pools.append(Mortal(lambda number: number == 2))
        return pools[-1]

    with pytest.raises(SweepError, match="number 2 ended its worker 2 times"):
        run(numbers(4), executor=executor, results=results, workers=2)
    assert [results.get(unit.digest) is not None for unit in numbers(4)] == [True, True, False, True]
    assert pools[1].submitted == [2]


def test_what_a_function_raises_ends_the_sweep() -> None:
    def fails(inputs: Result) -> Result:
        raise ValueError(f"number {inputs['number']}")

    with pytest.raises(ValueError, match=r"number [01]"):
        run(numbers(2), fails)


def test_digests_follow_content_and_not_its_order_or_place(tmp_path: Path) -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1}) != digest_of({"a": 1, "b": 3})
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.yaml").write_text("nodes: 3")
    first, second = [tmp_path / "one"], [tmp_path / "two" / "plan.yaml"]
    assert digest_of_files(first) == digest_of_files(second)
    (tmp_path / "two" / "plan.yaml").write_text("nodes: 4")
    assert digest_of_files(first) != digest_of_files(second)


def test_a_result_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    results = DirectoryResults(tmp_path)
    results.put("ab12", {"x": 1})
    (tmp_path / "ab" / "ab12.json").write_text("{broken")
    with pytest.raises(ResultsError, match=r"ab12\.json"):
        results.get("ab12")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="Not a directory"):
        DirectoryResults(tmp_path / "file").put("ab12", {})


def test_a_trial_is_the_same_after_it_was_kept() -> None:
    trial = Trial(3, ("lost",), ("kill",), 4, 5, 6.5, "digest")
    assert trial_of(data_of(trial)) == trial


def test_units_of_a_plan_differ_with_its_workload(tmp_path: Path) -> None:
    plan, workload = tmp_path / "plan.yaml", tmp_path / "app.yaml"
    plan.write_text("nodes: 3\nworkload: [app.yaml]\n")
    workload.write_text("kind: ConfigMap")
    before = units_of(plan, [0, 1])
    assert before[0].digest != before[1].digest
    workload.write_text("kind: Secret")
    assert units_of(plan, [0])[0].digest != before[0].digest


def test_the_command_runs_shards_and_reports_all_from_what_was_kept(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("nodes: 2\nfor: 1m\nfaults: [{at: 10s, do: crash-node, node: node-1, for: 10s}]\n")
    question = ["faults", str(plan), "--seeds", "2", "--results", str(tmp_path / "results")]
    for shard in ("1/2", "2/2"):
        result = CliRunner().invoke(main, [*question, "--shard", shard, "-o", "json"])
        assert result.exit_code == 0, result.output
        assert len(json.loads(result.stdout)) == 1
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.json")}
    assert len(files) == 2
    merged = CliRunner().invoke(main, [*question, "-j", "2", "-o", "json"])
    assert [one["seed"] for one in json.loads(merged.stdout)] == [0, 1]
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert CliRunner().invoke(main, [*question, "--shard", "3/2"]).exit_code == 2
    assert CliRunner().invoke(main, ["faults", "--seed", "1", "--shard", "1/2"]).exit_code == 2
