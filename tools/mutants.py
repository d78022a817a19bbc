"""Whether tests notice what they should: `python -m tools.mutants` flips comparisons and connectives in the pure packages, one at a time, and runs each package's
own tests. cosmic-ray makes the mutants (`pip install 'bayplan[mutants]'`), in a copy of the project.

    python -m tools.mutants --sample 20                 20 mutants of each package
    python -m tools.mutants --only workqueue --seed 2   others of one package

Prints each mutant that survived as a difference, and the share that was noticed. Exit code 1 if that is less than 85 % of all. Mutants that mean the same as the
original do not count once they are known (`EQUIVALENT`); others do, so look at the list.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome

_ROOT: Final = Path(__file__).parent.parent
_FLIPS: Final = (
    "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is", "In_NotIn", "NotIn_In", "Lt_GtE", "GtE_Lt", "Gt_LtE", "LtE_Gt", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt",
)  # fmt: skip
"""Comparisons that become their contrary, or take the bound in or leave it out."""
_OPERATORS: Final = frozenset(
    (*(f"core/ReplaceComparisonOperator_{flip}" for flip in _FLIPS), "core/ReplaceAndWithOr", "core/ReplaceOrWithAnd")
)
_LEAST: Final = 0.85
_TIMES_SLOWER: Final = 4.0
"""Tests of a mutant that take so many times as long as those of the original count as failed: it does not come to an end."""


class Package(NamedTuple):
    """What is changed, and the tests that are to notice."""

    sources: str
    tests: tuple[str, ...]


PACKAGES: Final = {
    "workqueue": Package("src/bayplan/workqueue", ("tests/workqueue",)),
    "rules": Package("src/bayplan/api/validation", ("tests/api",)),
    "strategies": Package("src/bayplan/api/strategies", ("tests/api",)),
    "plugins": Package(
        "src/bayplan/scheduler/plugins",
        tuple(
            f"tests/scheduler/{one}"
            for one in (
                "plugins",
                "test_golden.py",
                "gangs/test_gangs.py",
                "gangs/test_placements.py",
                "test_policy.py",
            )
        ),
    ),
    "store": Package("src/bayplan/store", ("tests/store",)),
}


EQUIVALENT: Final = {
    (
        "if not getter.cancelled() and self._queued:",
        "if not getter.cancelled() or self._queued:",
    ): "a getter that is woken for nothing looks again, and waits",
    (
        "if priority > -queued[0]:",
        "if priority >= -queued[0]:",
    ): "the same entry twice: the second one is passed over as outdated",
    (
        "if former is not None and former[0] <= ready_at:",
        "if former is not None and former[0] < ready_at:",
    ): "an entry for the same time takes the place of the former",
    (
        "if self._timer_at <= ready_at:",
        "if self._timer_at < ready_at:",
    ): "the timer is set anew to the time that it has",
    (
        "if len(rows) <= _FEW:",
        "if len(rows) > _FEW:",
    ): "which of two ways is quicker: both name all rows that changed",
    (
        "if first < start <= last:",
        "if first < start > last:",
    ): "what follows a damaged page is halved at once, and not when it fails again: the same records are found",
    (
        "if self._revision < self._trim_at and now < self._trim_due:",
        "if self._revision <= self._trim_at and now < self._trim_due:",
    ): "history is looked at with the next write",
    (
        "if revision - self.compacted > history.keep_revisions + self._settings.compaction_step:",
        "if revision - self.compacted >= history.keep_revisions + self._settings.compaction_step:",
    ): "history is compacted one write sooner, and keeps what it has to keep",
    (
        "if transformer is None or stored is value:",
        "if transformer is None and stored is value:",
    ): "a value that is kept as it is is remembered for nothing while it is written",
    (
        "if len(vector) > _TABULATED:",
        "if len(vector) <= _TABULATED:",
    ): "which of two ways is quicker: both give the verdict of each bit set",
    (
        "if errors or status.not_before is None or status.not_after is None or status.begin_refresh_at is None:",
        "if errors or status.not_before is None and status.not_after is None or status.begin_refresh_at is None:",
    ): "each time that is missing has been told as an error",
    (
        "if errors or status.not_before is None or status.not_after is None or status.begin_refresh_at is None:",
        "if errors or status.not_before is None or status.not_after is None and status.begin_refresh_at is None:",
    ): "each time that is missing has been told as an error",
    (
        "if len(tied) > 1:",
        "if len(tied) >= 1:",
    ): "of one, that one is picked",
    (
        "first = rows.item(context.pick(len(rows))) if len(rows) > wanted else 0",
        "first = rows.item(context.pick(len(rows))) if len(rows) >= wanted else 0",
    ): "all nodes are looked at, from whichever on",
    (
        "while len(self._caches) >= _MOST_CACHES:",
        "while len(self._caches) > _MOST_CACHES:",
    ): "one more is remembered",
    (
        "if claims is None or row is None or node is None:",
        "if claims is None or row is None and node is None:",
    ): "there is a node in every row that has a name",
    (
        "if len(rows) <= _FEW:",
        "if len(rows) < _FEW:",
    ): "which of two ways is quicker: both name all rows that changed",
    (
        "data.raw[there if len(there) < len(data.raw) else EVERY_ROW] += delta",
        "data.raw[there if len(there) <= len(data.raw) else EVERY_ROW] += delta",
    ): "all rows by number, and not as a slice",
    (
        "if not everywhere and key.namespace_selector != NOTHING:",
        "if not everywhere or key.namespace_selector != NOTHING:",
    ): "a selector of nothing adds no namespaces, and where all are meant their names do not matter",
    (
        "if loops is None or len(vector) > _TABULATED:",
        "if loops is None or len(vector) <= _TABULATED:",
    ): "which of two ways is quicker: both give the verdict of each bit set",
    (
        "if loops is None or len(vector) > _TABULATED:",
        "if loops is None or len(vector) >= _TABULATED:",
    ): "which of two ways is quicker: both give the verdict of each bit set",
    (
        "if len(vector) > _TABULATED:",
        "if len(vector) >= _TABULATED:",
    ): "which of two ways is quicker: both give the verdict of each bit set",
    (
        "return None if len(codes) and codes.min() == _UNKNOWN else codes",
        "return None if len(codes) or codes.min() == _UNKNOWN else codes",
    ): "NumPy gives the verdicts that the compiled loop has",
    (
        "bits: Ints = (part(snapshot.places, rows) <= 0).astype(np.int32 if len(vector) < _IN_32_BITS else np.int64)",
        "bits: Ints = (part(snapshot.places, rows) <= 0).astype(np.int32 if len(vector) <= _IN_32_BITS else np.int64)",
    ): "the bits of so many resources fit just so",
    (
        "if amount > free and amount > free + sum(dict(other.requests).get(column, 0) for other in removable):",
        "if amount >= free and amount > free + sum(dict(other.requests).get(column, 0) for other in removable):",
    ): "a quick look, before the sum is asked",
    (
        "if not claims.delayed or self._is_provisioned_anywhere(claims):",
        "if not claims.delayed and self._is_provisioned_anywhere(claims):",
    ): "node by node, the answers are those of all at once",
    (
        "if codes is not None and (not claims.delayed or not codes.any()):",
        "if codes is not None and (not claims.delayed and not codes.any()):",
    ): "node by node, the answers are those of all at once",
    (
        "if found is None or SELECTED_NODE in claim.metadata.annotations or claims.candidates[class_name]:",
        "if found is not None or SELECTED_NODE in claim.metadata.annotations or claims.candidates[class_name]:",
    ): "node by node, the answers are those of all at once",
    (
        "if int(obj.metadata.annotations[_TEMPLATE_GENERATION]) < 1:",
        "if int(obj.metadata.annotations[_TEMPLATE_GENERATION]) <= 1:",
    ): "a first generation is written anew as what it is",
    (
        "elif following is not None and following < feature:",
        "elif following is not None and following <= feature:",
    ): "the same feature twice is a case of its own",
    (
        "if isinstance(obj, events_v1.Event) and isinstance(old, events_v1.Event):",
        "if isinstance(obj, events_v1.Event) or isinstance(old, events_v1.Event):",
    ): "both come in the version that the request names",
    (
        "if part is None or whole is None or not part.is_strictly_inside(whole):",
        "if part is None and whole is None or not part.is_strictly_inside(whole):",
    ): "what is no block of addresses has been told before",
    (
        "count = len(keys) if limit <= 0 else self._keys.count(start, end)",
        "count = len(keys) if limit < 0 else self._keys.count(start, end)",
    ): "which of two ways is quicker: without a limit both count the same keys",
    (
        "if entry is not None and (revision == 0 or entry[0] <= revision):",
        "if entry is not None and (revision == 0 or entry[0] < revision):",
    ): "which of two ways is quicker: a range of one key finds it too",
    (
        "if not self._marks or self._marks[-1][1] < revision:",
        "if not self._marks or self._marks[-1][1] <= revision:",
    ): "a revision that is marked again ages once more, which says nothing new",
}
"""Changes of a line that mean the same as the original, and why: they are neither noticed nor survivors."""


class Outcome(NamedTuple):
    """What came of the mutants of a package."""

    noticed: int
    survivors: list[str]
    """As differences."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=sorted(PACKAGES), help="one package (default: all)")
    parser.add_argument("--sample", type=int, default=10, help="mutants of each package (default 10)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    noticed = made = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copy = Path(directory)
        for part in ("src", "tests", "tools", "benchmarks", "docs", "pyproject.toml", "README.md"):
            source = _ROOT / part
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / part)
        for name in [options.only] if options.only else PACKAGES:
            outcome = _judge(copy, name, options.sample, random.Random(f"{options.seed}-{name}"))
            total = outcome.noticed + len(outcome.survivors)
            for difference in outcome.survivors:
                print(f"\n{name}: not noticed\n{difference}")
            print(f"{name}: {outcome.noticed} of {total} noticed", flush=True)
            noticed, made = noticed + outcome.noticed, made + total
    print(f"all: {noticed} of {made} noticed, {noticed / max(made, 1):.0%}")
    return 0 if noticed >= _LEAST * made else 1


def _judge(copy: Path, name: str, sample: int, chance: random.Random) -> Outcome:
    package = PACKAGES[name]
    configuration, session = copy / f"{name}.toml", copy / f"{name}.sqlite"
    test = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *package.tests]
    started = time.monotonic()
    _run(copy, test)  # tests that fail anyway would notice everything
    seconds = _TIMES_SLOWER * (time.monotonic() - started)
    configuration.write_text(
        f'[cosmic-ray]\nmodule-path = "{package.sources}"\ntimeout = {seconds}\nexcluded-modules = []\n'
        f'test-command = "{shlex.join(test)}"\n[cosmic-ray.distributor]\nname = "local"\n'
    )
    _cosmic_ray(copy, "init", str(configuration), str(session))
    with use_db(str(session), WorkDB.Mode.open) as database:
        possible = sorted(  # cosmic-ray gives them by names that are made up anew each time
            (
                item
                for item in database.work_items
                if all(mutation.operator_name in _OPERATORS for mutation in item.mutations)
            ),
            key=lambda item: [(str(one.module_path), one.operator_name, one.occurrence) for one in item.mutations],
        )
        database.clear()
        database.add_work_items(chance.sample(possible, min(sample, len(possible))))
    _cosmic_ray(copy, "exec", str(configuration), str(session))
    with use_db(str(session), WorkDB.Mode.open) as database:
        results = [result for _, result in database.completed_work_items]
    survived = [result.diff or "" for result in results if result.test_outcome == TestOutcome.SURVIVED]
    survivors = [difference for difference in survived if changed_line(difference) not in EQUIVALENT]
    return Outcome(len(results) - len(survived), survivors)


def changed_line(difference: str) -> tuple[str, str]:
    """The line that a mutant changes, and what it becomes, without indentation."""
    lines = difference.splitlines()
    former = [line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---")]
    now = [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]
    return " ".join(former), " ".join(now)


def _cosmic_ray(copy: Path, *words: str) -> None:
    """Raises CalledProcessError."""
    _run(copy, [str(Path(sys.executable).with_name("cosmic-ray")), *words])


def _run(copy: Path, words: Sequence[str]) -> None:
    environment = {"PYTHONPATH": str(copy / "src"), "PATH": os.environ["PATH"], "HOME": str(copy)}
    subprocess.run(words, cwd=copy, env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    raise SystemExit(main())
