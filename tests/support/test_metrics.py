"""The metrics registry. prometheus-client's parser reads its text back."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bayplan.support.metrics.instruments import Registry, exponential_buckets, number


def samples(registry: Registry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Everything that the registry says, read back by prometheus-client's parser."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(registry.render().decode())
        for sample in family.samples
    }


def test_the_text_reads_back() -> None:
    registry = Registry()
    requests = registry.counter("requests_total", "Requests\nby verb", ("verb",))
    requests.labels("get").inc()
    requests.labels("get").inc(2)
    requests.labels('a"b\\').inc()
    registry.gauge("depth", "Depth").labels().set(4)
    registry.gauge("age", "Age").labels().set_function(lambda: 7.5)
    latency = registry.histogram("latency_seconds", "Latency", ("verb",), (0.1, 1.0)).labels("get")
    for value in (0.05, 0.1, 0.5, 3.0):
        latency.observe(value)
    registry.counter("unused_total", "Never incremented", ("verb",))
    assert samples(registry) == {
        ("requests_total", (("verb", "get"),)): 3.0,
        ("requests_total", (("verb", 'a"b\\'),)): 1.0,
        ("depth", ()): 4.0,
        ("age", ()): 7.5,
        ("latency_seconds_bucket", (("le", "0.1"), ("verb", "get"))): 2.0,
        ("latency_seconds_bucket", (("le", "1"), ("verb", "get"))): 3.0,
        ("latency_seconds_bucket", (("le", "+Inf"), ("verb", "get"))): 4.0,
        ("latency_seconds_count", (("verb", "get"),)): 4.0,
        ("latency_seconds_sum", (("verb", "get"),)): 3.65,
    }


def test_registries_are_independent() -> None:
    first, second = Registry(), Registry()
    first.counter("a_total", "A").labels().inc()
    assert samples(second) == {}


def test_a_name_stands_for_one_family() -> None:
    registry = Registry()
    family = registry.gauge("a", "A", ("x",))
    assert registry.gauge("a", "A", ("x",)) is family
    with pytest.raises(ValueError, match="already a gauge"):
        registry.histogram("a", "A", ("x",))
    with pytest.raises(ValueError, match="already a gauge"):
        registry.gauge("a", "A", ("y",))
    with pytest.raises(ValueError, match="has the labels"):
        family.labels("1", "2")
    with pytest.raises(ValueError, match="ascend"):
        registry.histogram("h", "H", (), (2.0, 1.0))


def test_removed_series_are_gone() -> None:
    registry = Registry()
    family = registry.gauge("a", "A", ("x",))
    family.labels("1").inc(3)
    family.labels("2").dec()
    family.remove("1")
    family.remove("1")
    assert samples(registry) == {("a", (("x", "2"),)): -1.0}


def test_quantiles_are_bucket_bounds() -> None:
    histogram = Registry().histogram("h", "H", (), exponential_buckets(1, 2, 4)).labels()
    assert histogram.quantile(0.5) == 0.0
    for value in (1, 2, 3, 100):
        histogram.observe(value)
    assert [histogram.quantile(fraction) for fraction in (0.25, 0.5, 0.75, 1.0)] == [1, 2, 4, math.inf]
    assert histogram.count == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-3.0, "-3"),
        (0.25, "0.25"),
        (1e-4, "0.0001"),
        (1.2e-5, "1.2e-05"),
        (999_999, "999999"),
        (1e6, "1e+06"),
        (1_234_567.5, "1.2345675e+06"),
        (-1e21, "-1e+21"),
        (5e-324, "5e-324"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert number(value) == text


def test_families_and_series_are_in_the_order_that_kubernetes_shows() -> None:
    registry = Registry()
    latency = registry.histogram("b_seconds", "B", ("verb", "code"), (0.5, 1.0, 2_000_000.0))
    latency.labels("put", "200").observe(1)
    latency.labels("get", "500").observe(3_000_000)
    registry.gauge("a", 'Backslash \\ and "quotes"').labels().set(1_500_000)
    assert registry.render().decode().splitlines() == [
        '# HELP a Backslash \\\\ and "quotes"',
        "# TYPE a gauge",
        "a 1.5e+06",
        "# HELP b_seconds B",
        "# TYPE b_seconds histogram",
        'b_seconds_bucket{code="200",verb="put",le="0.5"} 0',
        'b_seconds_bucket{code="200",verb="put",le="1"} 1',
        'b_seconds_bucket{code="200",verb="put",le="2e+06"} 1',
        'b_seconds_bucket{code="200",verb="put",le="+Inf"} 1',
        'b_seconds_sum{code="200",verb="put"} 1',
        'b_seconds_count{code="200",verb="put"} 1',
        'b_seconds_bucket{code="500",verb="get",le="0.5"} 0',
        'b_seconds_bucket{code="500",verb="get",le="1"} 0',
        'b_seconds_bucket{code="500",verb="get",le="2e+06"} 0',
        'b_seconds_bucket{code="500",verb="get",le="+Inf"} 1',
        'b_seconds_sum{code="500",verb="get"} 3e+06',
        'b_seconds_count{code="500",verb="get"} 1',
    ]


def test_counters_may_have_the_names_that_kubernetes_gave_them() -> None:
    registry = Registry()
    registry.counter("kubelet_evictions", "Pods that were evicted", ("eviction_signal",)).labels("memory").inc(2)
    assert registry.render().decode().splitlines() == [
        "# HELP kubelet_evictions Pods that were evicted",
        "# TYPE kubelet_evictions counter",
        'kubelet_evictions{eviction_signal="memory"} 2',
    ]


@pytest.mark.parametrize("names", [("evicted", "evicted_total"), ("evicted_total", "evicted")])
def test_a_counter_and_its_older_name_have_heads_of_their_own(names: tuple[str, str]) -> None:
    registry = Registry()
    for name in names:
        registry.counter(name, f"Help of {name}").labels().inc(len(name))
    lines = registry.render().decode().splitlines()
    assert lines == [
        line
        for name in sorted(names)
        for line in (f"# HELP {name} Help of {name}", f"# TYPE {name} counter", f"{name} {len(name)}")
    ]
