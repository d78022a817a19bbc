"""Charts as SVG texts for reports: step lines over time, bars, columns (histograms), and how full nodes are.

An SVG names no colour: its classes (`s1`... for series, `grid`, `axis`, `ink`) are coloured by the page's style (`STYLE`),
for light and dark surroundings. Every mark carries its figures in a `<title>`, which browsers show when pointed at. No
script, nothing is loaded. All charts are as wide as their place on the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 960
"""Width of a drawing across a page, in its units; the letters of narrower ones are as large only on half a page."""
HALF: Final = 470
"""Width of a drawing that shares the page with another."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 30
_SERIES: Final = 6
"""Series that are told apart by colour."""

STYLE: Final = """
.plot{width:100%;height:auto;display:block;font:12px system-ui,sans-serif}
.plot text{fill:var(--ink-2)} .plot .ink{fill:var(--ink)}
.plot .grid{stroke:var(--grid);stroke-width:1} .plot .axis{stroke:var(--axis);stroke-width:1}
.plot .line{fill:none;stroke-width:2;stroke-linejoin:round}
.plot .dashed{stroke-dasharray:7 5}
.plot .s1{fill:var(--s1)} .plot .s2{fill:var(--s2)} .plot .s3{fill:var(--s3)}
.plot .s4{fill:var(--s4)} .plot .s5{fill:var(--s5)} .plot .s6{fill:var(--s6)}
.plot .l1{stroke:var(--s1)} .plot .l2{stroke:var(--s2)} .plot .l3{stroke:var(--s3)}
.plot .l4{stroke:var(--s4)} .plot .l5{stroke:var(--s5)} .plot .l6{stroke:var(--s6)}
.plot .track{fill:var(--track)} .plot .warn{fill:var(--warn)}
.plot g.mark:hover{opacity:.7}
"""
"""What the page's style has to have for the classes of the charts."""

Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Series:
    """One line: (x, y) in ascending x; y holds until the next x."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    """So that a line beneath it is seen where both are the same."""


def whole(value: float) -> str:
    """A number as people read it: 1,234 or 0.25."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def percent(value: float) -> str:
    """A share: 42%."""
    return f"{value:.0%}"


def hours(seconds: float) -> str:
    """Seconds since the start: 90 -> 1m, 5400 -> 1h30m, 180000 -> 2d2h."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 2 * 24 * 60:
        full = minutes // 60
        return f"{full // 24}d" + (f"{full % 24}h" if full % 24 else "")
    if minutes < 60:
        return f"{minutes}m" if minutes or not rest else f"{rest}s"
    return f"{minutes // 60}h" + (f"{minutes % 60}m" if minutes % 60 else "")


def step_lines(
    series: Sequence[Series],
    *,
    x_format: Format = hours,
    y_format: Format = whole,
    highest: float | None = None,
    height: int = 240,
) -> str:
    """Values that hold until they change, over one axis from zero. `highest`: end of the vertical axis; else the largest value."""
    points = [point for one in series for point in one.points]
    if not points:
        return _nothing(height)
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    ticks = _ticks(highest if highest is not None else max(y for _, y in points))
    to_x = _scale(x_low, x_high, _LEFT, WIDTH - _RIGHT)
    to_y = _scale(0.0, ticks[-1], height - _BOTTOM, _TOP)
    parts = [*_grid(ticks, to_y, y_format), *_x_axis(x_low, x_high, to_x, x_format, height)]
    for number, one in enumerate(series):
        path = _steps(one.points, to_x, to_y, x_high)
        last = one.points[-1][1] if one.points else 0.0
        title = escape(f"{one.name}: {y_format(last)} at the end")
        kind = f"line l{number % _SERIES + 1}" + (" dashed" if one.dashed else "")
        parts.append(f'<path class="{kind}" d="{path}"><title>{title}</title></path>')
    return _svg(parts, height) + (legend([one.name for one in series]) if len(series) > 1 else "")


def bars(rows: Sequence[tuple[str, float]], *, value_format: Format = whole, label_width: int = 320) -> str:
    """Horizontal bars, one per row, with the value at the end of each."""
    if not rows:
        return _nothing(60)
    step = 26
    height = step * len(rows) + 8
    largest = max((value for _, value in rows), default=0.0) or 1.0
    room = WIDTH - label_width - 70
    parts = []
    for number, (label, value) in enumerate(rows):
        y = 4 + number * step
        length = max(room * value / largest, 1.0)
        shown = _shortened(label, label_width // 7)
        title = escape(f"{label}: {value_format(value)}")
        parts.append(
            f'<g class="mark"><title>{title}</title>'
            f'<text x="{label_width - 8}" y="{y + 15}" text-anchor="end">{escape(shown)}</text>'
            f'<path class="s1" d="{_bar_right(label_width, y + 3, length, step - 10)}"/>'
            f'<text class="ink" x="{label_width + length + 6:.1f}" y="{y + 15}">{escape(value_format(value))}</text></g>'
        )
    return _svg(parts, height)


def columns(
    rows: Sequence[tuple[str, float]],
    *,
    value_format: Format = whole,
    x_label: str = "",
    highest: float | None = None,
    height: int = 220,
) -> str:
    """Vertical columns: a histogram, or a value per label. Labels are thinned out where they would touch."""
    if not rows:
        return _nothing(height)
    ticks = _ticks(highest if highest is not None else max(value for _, value in rows))
    to_y = _scale(0.0, ticks[-1], height - _BOTTOM, _TOP)
    width = (WIDTH - _LEFT - _RIGHT) / len(rows)
    gap = 2.0 if width > 6 else 0.0
    parts = _grid(ticks, to_y, value_format)
    every = max(1, math.ceil(max(len(label) for label, _ in rows) * 7 / width))
    for number, (label, value) in enumerate(rows):
        mark = min(width - gap, 48.0)
        x, top = _LEFT + number * width + (width - mark) / 2, to_y(value)
        title = escape(f"{label}: {value_format(value)}")
        shape = _column(x, top, mark, height - _BOTTOM)
        parts.append(f'<g class="mark"><title>{title}</title><path class="s1" d="{shape}"/></g>')
        if number % every == 0:
            middle = x + mark / 2
            parts.append(f'<text x="{middle:.1f}" y="{height - 12}" text-anchor="middle">{escape(label)}</text>')
    parts.append(_base(height))
    if x_label:
        parts.append(f'<text x="{WIDTH - _RIGHT}" y="{height + 8}" text-anchor="end">{escape(x_label)}</text>')
    return _svg(parts, height + 14 if x_label else height)


def histogram(values: Sequence[float], *, bins: int = 20, x_format: Format = whole, height: int = 220) -> str:
    """How often values fall into equal parts of their range."""
    if not values:
        return _nothing(height)
    low, high = min(values), max(values)
    width = (high - low) / bins or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / width), bins - 1)] += 1
    return columns(
        [(x_format(low + number * width), float(count)) for number, count in enumerate(counts)], height=height
    )


def fullness(
    shares: Sequence[tuple[str, float]], *, slots: int = 0, series: int = 1, width: int = WIDTH, height: int = 150
) -> str:
    """How full nodes are, one column each, fullest first, over a track of what they offer.

    `slots`: width in nodes, so that two charts of different numbers of nodes have one scale; what is over 100% is marked.
    """
    if not shares:
        return _nothing(height)
    ordered = sorted(shares, key=lambda item: (-item[1], item[0]))
    count = max(slots, len(ordered))
    to_y = _scale(0.0, 1.0, height - 20, 8)
    each = (width - _LEFT - _RIGHT) / count
    gap = min(2.0, each / 5) if each > 2.5 else 0.0
    parts = _grid([0.0, 0.5, 1.0], to_y, percent, width)
    if each < 1.0:
        parts += _area(ordered, each, to_y, series)
    else:
        for number, (name, share) in enumerate(ordered):
            x = _LEFT + number * each
            title = escape(f"{name}: {percent(share)}")
            look = "warn" if share > 1.0 else f"s{series}"
            parts.append(
                f'<g class="mark"><title>{title}</title>'
                f'<rect class="track" x="{x:.2f}" y="8" width="{max(each - gap, 0.5):.2f}" height="{height - 28}"/>'
                f'<path class="{look}" d="{_column(x, to_y(min(share, 1.0)), max(each - gap, 0.5), height - 20.0)}"/></g>'
            )
    parts.append(f'<line class="axis" x1="{_LEFT}" y1="{height - 20}" x2="{width - _RIGHT}" y2="{height - 20}"/>')
    parts.append(f'<text x="{_LEFT}" y="{height - 5}">{len(ordered):,} nodes, fullest first</text>')
    return _svg(parts, height, width)


def legend(names: Sequence[str]) -> str:
    """Names of series beside their colours."""
    items = [
        f'<span class="key"><i class="k{number % _SERIES + 1}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    ]
    return f'<div class="legend">{"".join(items)}</div>'


# Parts


def _svg(parts: Sequence[str], height: int, width: int = WIDTH) -> str:
    return f'<svg class="plot" viewBox="0 0 {width} {height}" role="img">{"".join(parts)}</svg>'


def _nothing(height: int) -> str:
    middle = min(height, 60)
    return _svg([f'<text x="{WIDTH / 2}" y="{middle / 2}" text-anchor="middle">nothing to show</text>'], middle)


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _ticks(highest: float) -> list[float]:
    """Round numbers from 0 to at least the highest value."""
    if highest <= 0:
        return [0.0, 1.0]
    raw = highest / 4
    power: float = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    if highest >= 4:
        step = math.ceil(step)
    return [number * step for number in range(math.ceil(highest / step - 1e-9) + 1)]


def _grid(
    ticks: Sequence[float], to_y: Callable[[float], float], value_format: Format, width: int = WIDTH
) -> list[str]:
    return [
        f'<line class="grid" x1="{_LEFT}" y1="{to_y(tick):.1f}" x2="{width - _RIGHT}" y2="{to_y(tick):.1f}"/>'
        f'<text x="{_LEFT - 8}" y="{to_y(tick) + 4:.1f}" text-anchor="end">{escape(value_format(tick))}</text>'
        for tick in ticks
    ]


def _base(height: int) -> str:
    return f'<line class="axis" x1="{_LEFT}" y1="{height - _BOTTOM}" x2="{WIDTH - _RIGHT}" y2="{height - _BOTTOM}"/>'


_TIME_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * number for number in (1, 2, 5, 10, 15, 30)),
    *(3600 * number for number in (1, 2, 3, 6, 12)),
    *(86400 * number for number in (1, 2, 5, 7, 14, 30, 60, 90, 180, 365)),
)
"""Seconds between two marks of an axis of time."""
_MARKS: Final = 6
"""At most, on an axis of time."""


def _time_ticks(low: float, high: float) -> list[float]:
    """Moments that people count by, from the lowest to the highest."""
    step = next((one for one in _TIME_STEPS if (high - low) / one <= _MARKS), _TIME_STEPS[-1])
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)] or [low]


def _x_axis(low: float, high: float, to_x: Callable[[float], float], x_format: Format, height: int) -> list[str]:
    is_time = x_format is hours
    values = _time_ticks(low, high) if is_time else [low + (high - low) * part / 4 for part in range(5)]
    labels = [
        f'<text x="{to_x(value):.1f}" y="{height - 10}" text-anchor="{_anchor(to_x(value))}">{escape(x_format(value))}</text>'
        for value in (values if high > low else [low])
    ]
    return [_base(height), *labels]


def _anchor(x: float) -> str:
    """Which part of a label is at its mark, so that it stays within the picture."""
    return "start" if x < _LEFT + 20 else "end" if x > WIDTH - _RIGHT - 20 else "middle"


def _steps(
    points: Sequence[tuple[float, float]], to_x: Callable[[float], float], to_y: Callable[[float], float], end: float
) -> str:
    if not points:
        return ""
    path = [f"M{to_x(points[0][0]):.1f} {to_y(points[0][1]):.1f}"]
    path += [f"H{to_x(x):.1f}V{to_y(y):.1f}" for x, y in points[1:]]
    return "".join(path) + f"H{to_x(end):.1f}"


def _area(ordered: Sequence[tuple[str, float]], width: float, to_y: Callable[[float], float], series: int) -> list[str]:
    """More nodes than the drawing has places: one outline instead of columns."""
    right = _LEFT + len(ordered) * width
    path = [f"M{_LEFT} {to_y(0.0):.1f}"]
    for number, (_, share) in enumerate(ordered):
        path.append(f"L{_LEFT + number * width:.1f} {to_y(min(share, 1.0)):.1f}")
    top, bottom = to_y(1.0), to_y(0.0)
    track = f'<rect class="track" x="{_LEFT}" y="{top:.1f}" width="{right - _LEFT:.1f}" height="{bottom - top:.1f}"/>'
    return [track, f'<path class="s{series}" d="{"".join(path)}L{right:.1f} {bottom:.1f}Z"/>']


def _column(x: float, top: float, width: float, bottom: float) -> str:
    """A column with rounded upper corners where it is wide enough."""
    radius = min(3.0, width / 2, max(bottom - top, 0.0)) if width > 4 else 0.0
    return (
        f"M{x:.2f} {bottom:.2f}V{top + radius:.2f}q0 {-radius:.2f} {radius:.2f} {-radius:.2f}"
        f"h{width - 2 * radius:.2f}q{radius:.2f} 0 {radius:.2f} {radius:.2f}V{bottom:.2f}Z"
    )


def _bar_right(x: float, y: float, length: float, height: float) -> str:
    """A bar with rounded right corners."""
    radius = min(3.0, length)
    return (
        f"M{x:.1f} {y:.1f}h{length - radius:.1f}q{radius:.1f} 0 {radius:.1f} {radius:.1f}"
        f"v{height - 2 * radius:.1f}q0 {radius:.1f} {-radius:.1f} {radius:.1f}h{-(length - radius):.1f}Z"
    )


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
