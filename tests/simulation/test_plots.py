"""Charts: well-formed, with the right number of marks at the right places."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from bayplan.simulation.reports import plots

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    svg = text[: text.index("</svg>") + 6].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return ElementTree.fromstring(svg)


def titles(text: str) -> list[str]:
    return [one.text or "" for one in parsed(text).iter(f"{SVG}title")]


def test_a_step_line_keeps_its_value_until_the_next() -> None:
    text = plots.step_lines([plots.Series("pending", [(0, 0), (3600, 4), (7200, 2)])])
    path = next(one for one in parsed(text).iter(f"{SVG}path")).get("d", "")
    assert re.fullmatch(r"M[\d.]+ [\d.]+(H[\d.]+V[\d.]+){2}H[\d.]+", path)
    assert titles(text) == ["pending: 2 at the end"]
    assert "legend" not in text


def test_several_lines_have_a_legend() -> None:
    text = plots.step_lines([plots.Series(name, [(0, 1), (60, 2)]) for name in ("a", "b")])
    assert text.count('class="key"') == 2


@pytest.mark.parametrize("highest", [0.3, 1, 3, 7, 99, 12345])
def test_an_axis_reaches_the_highest_value_in_round_steps(highest: float) -> None:
    ticks = plots._ticks(highest)
    assert ticks[0] == 0
    assert highest <= ticks[-1] <= highest * 2
    assert 3 <= len(ticks) <= 6 or highest < 4


def test_bars_and_columns_have_one_mark_a_row() -> None:
    rows = [("a", 3.0), ("b <&>", 1.0)]
    assert titles(plots.bars(rows)) == ["a: 3", "b <&>: 1"]
    assert titles(plots.columns(rows, x_label="x")) == ["a: 3", "b <&>: 1"]


def test_a_histogram_counts_every_value_once() -> None:
    found = titles(plots.histogram([1, 2, 2, 3, 10], bins=3))
    assert [one.rpartition(" ")[2] for one in found] == ["4", "0", "1"]


def test_nodes_are_shown_fullest_first_and_over_full_ones_marked() -> None:
    text = plots.fullness([("a", 0.2), ("b", 1.5), ("c", 0.9)])
    assert titles(text) == ["b: 150%", "c: 90%", "a: 20%"]
    assert text.count('class="warn"') == 1


def test_very_many_nodes_become_one_outline() -> None:
    text = plots.fullness([(f"n{number}", number / 5000) for number in range(5000)])
    assert len(list(parsed(text).iter(f"{SVG}path"))) == 1


@pytest.mark.parametrize(
    "text",
    [plots.step_lines([]), plots.bars([]), plots.columns([]), plots.histogram([]), plots.fullness([])],
)
def test_nothing_is_said_to_be_nothing(text: str) -> None:
    assert "nothing to show" in text
    parsed(text)


def test_hours_read_as_people_say_them() -> None:
    assert [plots.hours(seconds) for seconds in (0, 30, 90, 5400, 7200, 172800, 187200)] == [
        "0m",
        "30s",
        "1m",
        "1h30m",
        "2h",
        "2d",
        "2d4h",
    ]


@pytest.mark.parametrize(
    ("high", "marks"),
    [
        (480.0, ["2m", "4m", "6m", "8m"]),
        (130000.0, ["12h", "24h", "36h"]),
        (30 * 86400.0, ["5d", "10d", "15d", "20d", "25d", "30d"]),
    ],
)
def test_an_axis_of_time_is_marked_where_people_count(high: float, marks: list[str]) -> None:
    text = plots.step_lines([plots.Series("pods", ((360.0 if high > 1e5 else 0.0, 1.0), (high, 2.0)))])
    labels = re.findall(r'<text x="[^"]*" y="230" [^>]*>([^<]*)</text>', text)
    assert [label for label in labels if label != "0m"] == marks


def test_a_second_run_does_not_hide_the_first() -> None:
    points = ((0.0, 1.0), (60.0, 1.0))
    text = plots.step_lines([plots.Series("A", points), plots.Series("B", points, dashed=True)])
    assert text.count(" dashed") == 1
