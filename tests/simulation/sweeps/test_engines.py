"""Sweeps on the workers of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan import __version__
from bayplan.cli.main import main
from bayplan.simulation.sweeps import engines
from bayplan.simulation.sweeps.engines import EngineError, EngineExecutor, bayplan_version, open_engine
from bayplan.simulation.sweeps.results import MemoryResults
from bayplan.simulation.sweeps.sweep import SweepError, Unit, sweep
from tests.simulation.sweeps.units import always_ends_its_worker, ends_its_worker_once, squared

pytestmark = pytest.mark.xdist_group("dask")


class Lost(Exception):
    """What an engine says when a worker died."""


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "expected dask://HOST:PORT"),
        ("dask://", "expected dask://HOST:PORT"),
        ("spark://a:1", "expected dask://HOST:PORT"),
        ("dask:a:1", "expected dask://HOST:PORT"),
        ("dask://a", "expected dask://HOST:PORT"),
        ("dask://a:", "expected dask://HOST:PORT"),
        ("dask://:1", "expected dask://HOST:PORT"),
        ("dask://a:0", "expected dask://HOST:PORT"),
        ("dask://a:65536", "expected dask://HOST:PORT"),
        ("ray://a:b", "expected dask://HOST:PORT"),
        ("ray://a:1/x", "expected dask://HOST:PORT"),
        ("ray://fd00::1:1", "expected dask://HOST:PORT"),
    ],
)
def test_urls_that_name_no_engine_are_refused(url: str, text: str) -> None:
    with pytest.raises(EngineError, match=text):
        open_engine(url)


def test_an_engine_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> Any:
        raise ModuleNotFoundError("no module", name="distributed")

    monkeypatch.setattr(engines, "_dask", missing)
    with pytest.raises(EngineError, match=r"distributed is missing: pip install 'bayplan\[dask\]'"):
        open_engine("dask://a:1")


@pytest.mark.parametrize("same", [True, False])
def test_workers_have_to_have_the_same_version(same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(function: Any, *_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function() if same else "0.0.1")
        return future

    monkeypatch.setattr(engines, "_dask", lambda _: (lambda: EngineExecutor(submit, (), lambda: None), 3))
    if same:
        assert open_engine("dask://a:1").workers == 3
    else:
        with pytest.raises(EngineError, match=rf"its workers have Bayplan 0.0.1, this is {__version__}"):
            open_engine("dask://a:1")


@pytest.mark.parametrize(
    ("error", "kind"), [(Lost("worker 3"), BrokenExecutor), (ValueError("worker 3"), ValueError), (None, None)]
)
def test_the_death_of_a_worker_is_an_executor_that_breaks(
    error: Exception | None, kind: type[Exception] | None
) -> None:
    own: Future[Any] = Future()
    closed: list[bool] = []
    with EngineExecutor(lambda *_: own, (Lost,), lambda: closed.append(True)) as executor:
        future = executor.submit(bayplan_version)
        assert not future.done()
        if error is not None:
            own.set_exception(error)
        else:
            own.set_result(7)
        if kind is not None:
            with pytest.raises(kind, match="worker 3"):
                future.result(10)
        else:
            assert str(future.result(10)) == "7"
    assert closed == [True]


def test_an_engine_that_goes_away_ends_the_sweep() -> None:
    own: Future[Any] = Future()
    with EngineExecutor(lambda *_: own, (Lost,), lambda: None) as executor:
        future = executor.submit(bayplan_version)
        own.cancel()
        own.set_running_or_notify_cancel()
        with pytest.raises(EngineError, match="the engine is gone: run the command again"):
            future.result(10)


@pytest.fixture(scope="module")
def dask() -> Iterator[str]:
    """A cluster of two workers on this machine."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    import dask as engine

    once = {"distributed.scheduler.allowed-failures": 0}  # Dask itself would try a unit three times more
    with (
        engine.config.set(once),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as cluster,
    ):
        yield cluster.scheduler_address.replace("tcp://", "dask://")


def _numbers(count: int, **inputs: Any) -> list[Unit]:
    return [Unit(f"number {number}", {"number": number}, {"number": number, **inputs}) for number in range(count)]


def test_units_run_on_the_workers_of_dask_also_when_one_dies(dask: str, tmp_path: Path) -> None:
    engine = open_engine(dask)
    assert engine.workers == 2
    units = _numbers(6, mark=str(tmp_path / "died"))
    found = list(sweep(ends_its_worker_once, units, engine.executor, MemoryResults(), workers=engine.workers))
    assert [one["square"] for one in found] == [0, 1, 4, 9, 16, 25]
    assert (tmp_path / "died").exists()


def test_a_unit_that_ends_every_worker_of_dask_is_named(dask: str) -> None:
    engine = open_engine(dask)
    with pytest.raises(SweepError, match="number 0 ended its worker 2 times"):
        list(sweep(always_ends_its_worker, _numbers(1), engine.executor, MemoryResults()))
    assert [one["square"] for one in sweep(squared, _numbers(3), engine.executor, MemoryResults())] == [0, 1, 4]


def test_seeds_of_faults_run_on_dask(dask: str) -> None:
    here = CliRunner().invoke(main, ["faults", "--seeds", "2", "-o", "json"])
    there = CliRunner().invoke(main, ["faults", "--seeds", "2", "-o", "json", "--on", dask])
    assert there.exit_code == here.exit_code == 0, there.output
    assert there.stdout == here.stdout


def test_nobody_listens(dask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dask
    monkeypatch.setattr(engines, "ANSWER_SECONDS", 0.2)
    done = CliRunner().invoke(main, ["faults", "--seeds", "1", "--on", "dask://127.0.0.1:1"])
    assert done.exit_code != 0
    assert "nothing answers there" in done.output
