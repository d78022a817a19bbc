"""What became faster and slower between two revisions: `python -m tools.compare_benchmarks --former PAGE... --current PAGE...`.

The pages are those of `python -m benchmarks --results PAGE`, several of each revision, taken in turns on one machine: of each figure the best of a revision counts,
since whatever else a machine does only takes time. Prints what differs by more than the tolerance; exit code 1 if anything is worse.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_ROW: Final = re.compile(r"\| (?P<benchmark>[^|]+) \| (?P<name>[^|]+) \| (?P<value>-?[0-9.,]+) \| (?P<unit>[^|]*) \|")
_RATES: Final = re.compile(r"/s$|^%$")
"""Units of which more is better; of all others (seconds, bytes) less is."""
_MORE: Final = "% more"
"""The unit of what comes on top of a whole. The wholes are compared, since a small share doubles by chance."""
TOLERANCE: Final = 0.10


class Change(NamedTuple):
    """A figure of both revisions. `gain` above 1 is better, whatever the unit."""

    name: str
    former: float
    current: float
    unit: str
    gain: float


def best(pages: Iterable[str]) -> dict[tuple[str, str, str], float]:
    """The best value of each figure (benchmark, name, unit) on some pages."""
    found: dict[tuple[str, str, str], float] = {}
    for page in pages:
        for row in _ROW.finditer(page):
            key = (row["benchmark"].strip(), row["name"].strip(), row["unit"].strip())
            value = float(row["value"].replace(",", ""))
            choose = max if _RATES.search(key[2]) else min
            found[key] = choose(found.get(key, value), value)
    return found


def compare(former: Iterable[str], current: Iterable[str], tolerance: float = TOLERANCE) -> list[Change]:
    """The figures of both revisions that differ by more than the tolerance, the worst first."""
    before, now = best(former), best(current)
    changes = []
    for key in before.keys() & now.keys():
        benchmark, name, unit = key
        old, new = before[key], now[key]
        if unit == _MORE:
            gain = (100 + old) / (100 + new)
        elif not (old and new):
            continue
        else:
            gain = new / old if _RATES.search(unit) else old / new
        if not 1 - tolerance <= gain <= 1 / (1 - tolerance):
            changes.append(Change(f"{benchmark}: {name}", old, new, unit, gain))
    return sorted(changes, key=lambda change: (change.gain, change.name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.compare_benchmarks", description=__doc__)
    parser.add_argument("--former", nargs="+", type=Path, required=True, metavar="PAGE")
    parser.add_argument("--current", nargs="+", type=Path, required=True, metavar="PAGE")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="share that is no change (default 0.1)")
    given = parser.parse_args(arguments)
    pages = [[path.read_text(encoding="utf-8") for path in paths] for paths in (given.former, given.current)]
    changes = compare(pages[0], pages[1], given.tolerance)
    for change in changes:
        word = "WORSE" if change.gain < 1 else "better"
        print(f"{word} {change.name}: {change.former:g} then {change.current:g} {change.unit} ({change.gain - 1:+.0%})")
    both = len(best(pages[0]).keys() & best(pages[1]).keys())
    print(f"{both} figures of both revisions; {sum(change.gain < 1 for change in changes)} are worse")
    return int(not both or any(change.gain < 1 for change in changes))


if __name__ == "__main__":
    raise SystemExit(main())
