"""Counters, gauges and histograms in Prometheus' text format.

Recording is plain arithmetic on small objects (bind a child once with `labels`, keep it, call `inc`/`observe`). There is
no global registry: many clusters run in one process, each with its own. The text is what Kubernetes' components write
(Prometheus' library for Go): the same order and the same form of numbers, so that rules which name `le="1"` find it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Generic, TypeVar, cast

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
"""Of what `Registry.render` returns."""

_LEAST_WITH_EXPONENT, _LEAST_WITHOUT_EXPONENT = 1_000_000, 1e-4
"""Between these, Go writes numbers without an exponent."""

DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds, Prometheus' defaults."""


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` upper bounds, the first `start`, each `factor` times the one before."""
    return tuple(start * factor**index for index in range(count))


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        """Add to it."""
        self.value += amount


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("_source", "_value")

    def __init__(self) -> None:
        self._value = 0.0
        self._source: Callable[[], float] | None = None

    @property
    def value(self) -> float:
        """The number now."""
        return self._value if self._source is None else self._source()

    def set(self, value: float) -> None:
        """Make it `value`."""
        self._value = value

    def inc(self, amount: float = 1.0) -> None:
        """Add to it."""
        self._value += amount

    def dec(self, amount: float = 1.0) -> None:
        """Subtract from it."""
        self._value -= amount

    def set_function(self, source: Callable[[], float]) -> None:
        """Ask `source` whenever the value is wanted: costs nothing between two scrapes."""
        self._source = source


class Histogram:
    """How often observations fell below each bound."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Observations per bucket (not cumulative); the last is for those above every bound."""
        self.sum = 0.0

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        """Record one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def reset(self) -> None:
        """Forget all observations."""
        self.counts[:] = [0] * len(self.counts)
        self.sum = 0.0

    def quantile(self, fraction: float) -> float:
        """The bound below which `fraction` of the observations lie; infinity above the last bound, 0 without
        observations."""
        wanted = fraction * self.count
        seen = 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            if seen >= wanted:
                return bound if seen else 0.0
        return float("inf")


C = TypeVar("C", Counter, Gauge, Histogram)


class Family(Generic[C]):
    """All series of one metric name: one child per combination of label values."""

    __slots__ = ("_make", "children", "help", "kind", "label_names", "name")

    def __init__(
        self, name: str, help_text: str, kind: str, label_names: tuple[str, ...], make: Callable[[], C]
    ) -> None:
        self.name = name
        self.help = help_text
        self.kind = kind
        self.label_names = label_names
        self.children: dict[tuple[str, ...], C] = {}
        self._make: Callable[[], C] = make

    def labels(self, *values: str) -> C:
        """The series of these label values, in the order of the names. Raises `ValueError` for a wrong number of
        them."""
        child = self.children.get(values)
        if child is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has the labels {self.label_names}, got the values {values}")
            child = self.children[values] = self._make()
        return child

    def remove(self, *values: str) -> None:
        """Forget one series; does nothing if there is none."""
        self.children.pop(values, None)


class Registry:
    """The metrics of one service. Asking for a name twice gives the same family."""

    def __init__(self) -> None:
        self._families: dict[str, Family[Counter] | Family[Gauge] | Family[Histogram]] = {}
        self._before: list[Callable[[], None]] = []
        self.describe: Callable[[str, str], str] | None = None
        """What makes the help text that is shown of a name and its help text; None to show it as it is."""

    def on_render(self, update: Callable[[], None]) -> None:
        """Call this before each text, to bring in what is not counted as it happens."""
        self._before.append(update)

    def counter(self, name: str, help_text: str, labels: tuple[str, ...] = ()) -> Family[Counter]:
        """A counter. Names end in `_total`, but for some of Kubernetes that are older than that rule."""
        return cast("Family[Counter]", self._family(Family(name, help_text, "counter", labels, Counter)))

    def gauge(self, name: str, help_text: str, labels: tuple[str, ...] = ()) -> Family[Gauge]:
        """A gauge."""
        return cast("Family[Gauge]", self._family(Family(name, help_text, "gauge", labels, Gauge)))

    def histogram(
        self, name: str, help_text: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = DEFAULT_BUCKETS
    ) -> Family[Histogram]:
        """A histogram with these ascending upper bounds (infinity is implied)."""
        if list(buckets) != sorted(set(buckets)):
            raise ValueError(f"{name}: buckets must ascend, got {buckets}")
        family = Family(name, help_text, "histogram", labels, lambda: Histogram(buckets))
        return cast("Family[Histogram]", self._family(family))

    def _family(
        self, family: Family[Counter] | Family[Gauge] | Family[Histogram]
    ) -> Family[Counter] | Family[Gauge] | Family[Histogram]:
        known = self._families.setdefault(family.name, family)
        if known.kind != family.kind or known.label_names != family.label_names:
            raise ValueError(
                f"{family.name} is already a {known.kind} with labels {known.label_names}, "
                f"not a {family.kind} with {family.label_names}"
            )
        return known

    def reset(self) -> None:
        """Let counters and histograms begin anew. Gauges say how things are, and keep saying it."""
        for family in self._families.values():
            for child in family.children.values():
                if isinstance(child, Histogram):
                    child.reset()
                elif isinstance(child, Counter):
                    child.value = 0.0

    def render(self) -> bytes:
        """Everything in Prometheus' text format (`CONTENT_TYPE`). Families are in the order of their names, series in
        that of their labels' values; families without a series are left out."""
        for update in self._before:
            update()
        page: list[bytes] = []
        for name, family in sorted(self._families.items()):
            if family.children:
                text = family.help if self.describe is None else self.describe(name, family.help)
                head = f"# HELP {name} {_escaped(text)}\n# TYPE {name} {family.kind}\n"
                page.append("".join([head, *_samples(family)]).encode())
        return b"".join(page)


def _samples(family: Family[Counter] | Family[Gauge] | Family[Histogram]) -> Iterator[str]:
    """The lines of a family, each with its end."""
    name = family.name
    by_name = sorted(range(len(family.label_names)), key=family.label_names.__getitem__)
    heads = [f'{family.label_names[index]}="' for index in by_name]
    series = [([values[index] for index in by_name], child) for values, child in family.children.items()]
    series.sort(key=itemgetter(0))
    for shown, child in series:
        labels = ",".join([f'{head}{_quoted(value)}"' for head, value in zip(heads, shown, strict=True)])
        if not isinstance(child, Histogram):
            yield f"{name}{{{labels}}} {number(child.value)}\n" if labels else f"{name} {number(child.value)}\n"
            continue
        seen, before = 0, f"{name}_bucket{{{labels}," if labels else f"{name}_bucket{{"
        for bound, count in zip(_bound_labels(child.bounds), child.counts, strict=True):
            seen += count
            yield f"{before}{bound} {seen if seen < _LEAST_WITH_EXPONENT else number(seen)}\n"
        labels = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{labels} {number(child.sum)}\n{name}_count{labels} {number(seen)}\n"


@lru_cache(maxsize=256)
def _bound_labels(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f'le="{number(bound)}"}}' for bound in (*bounds, float("inf")))


def number(value: float) -> str:
    """A number as Go writes it (format `g`, the fewest digits that tell it from others): `2`, `0.25`, `1.5e+06`, `+Inf`."""
    if -_LEAST_WITH_EXPONENT < value < _LEAST_WITH_EXPONENT and not value % 1:
        return str(int(value))
    text = repr(float(value))
    if _LEAST_WITHOUT_EXPONENT <= abs(value) < _LEAST_WITH_EXPONENT:
        return text
    if value != value or value in (float("inf"), float("-inf")):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(text, "NaN")
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    assert isinstance(exponent, int)  # it is finite
    first, rest = digits[0], "".join(map(str, digits[1:]))
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{first}{'.' if rest else ''}{rest}e{power:+03d}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(value: str) -> str:
    """The value of a label between its quotes."""
    return value if value.isalnum() else _escaped(value).replace('"', '\\"')
