"""The metrics registry."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bayplan.support.metrics import Registry, exponential_buckets


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
        ("latency_seconds_bucket", (("le", "1.0"), ("verb", "get"))): 3.0,
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


def test_recording_does_not_import_the_prometheus_library() -> None:
    program = (
        "import sys; from bayplan.support.metrics import Registry;"
        "Registry().counter('a_total', 'A').labels().inc();"
        "sys.exit(any(name.startswith('prometheus_client') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_counters_may_have_the_names_that_kubernetes_gave_them() -> None:
    registry = Registry()
    registry.counter("kubelet_evictions", "Pods that were evicted", ("eviction_signal",)).labels("memory").inc(2)
    assert registry.render().decode().splitlines() == [
        "# HELP kubelet_evictions Pods that were evicted",
        "# TYPE kubelet_evictions counter",
        'kubelet_evictions{eviction_signal="memory"} 2.0',
    ]


@pytest.mark.parametrize("names", [("evicted", "evicted_total"), ("evicted_total", "evicted")])
def test_a_counter_and_its_older_name_have_heads_of_their_own(names: tuple[str, str]) -> None:
    registry = Registry()
    for number, name in enumerate(names):
        registry.counter(name, f"Help of {name}").labels().inc(number + 1)
    lines = registry.render().decode().splitlines()
    assert lines == [
        line
        for number, name in enumerate(names)
        for line in (f"# HELP {name} Help of {name}", f"# TYPE {name} counter", f"{name} {number + 1}.0")
    ]
