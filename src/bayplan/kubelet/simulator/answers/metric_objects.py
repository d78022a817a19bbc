"""`Metric` of kwok: pages of metrics that nodes have, and how each series is worked out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from bayplan.kubelet.simulator.errors import KwokFileError
from bayplan.kubelet.simulator.stages.expressions import Scope, program

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
ROOT: Final = "/metrics"
"""How the paths of all pages begin."""


class MetricLabel(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A label, whose value is an expression."""

    name: str
    value: str


class MetricBucket(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A bucket of a histogram; a hidden one counts in the next one that is shown."""

    le: float
    value: str
    hidden: bool = False


class MetricConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A metric: one series of a node, or for each of its pods or containers."""

    name: str
    help: str = ""
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[MetricLabel, ...] = ()
    value: str = ""
    buckets: tuple[MetricBucket, ...] = ()
    dimension: Literal["node", "pod", "container"] = "node"


class MetricPage(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A page."""

    path: str
    """With `{nodeName}` for the name of a node."""
    metrics: tuple[MetricConfig, ...]

    def is_at(self, path: str, node_name: str) -> bool:
        """Whether a node has the page there."""
        return path == self.path.replace("{nodeName}", node_name)


def page_problem(page: MetricPage) -> str:
    """What is wrong with a page; "" for nothing."""
    if not page.path.startswith(ROOT):
        return f"path: {page.path!r} does not begin with {ROOT}"
    for index, metric in enumerate(page.metrics):
        for where, problem in _problems(metric):
            return f"metrics[{index}]{where}: {problem}"
    return ""


def _problems(metric: MetricConfig) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(metric.name):
        yield ".name", f"{metric.name!r} is no name of a metric"
    for index, label in enumerate(metric.labels):
        if not _LABEL.fullmatch(label.name):
            yield f".labels[{index}].name", f"{label.name!r} is no name of a label"
    expressions = [(f".labels[{index}].value", label.value) for index, label in enumerate(metric.labels)]
    if metric.kind == "histogram":
        bounds = [bucket.le for bucket in metric.buckets]
        if len(set(bounds)) != len(bounds):
            yield ".buckets", "two have the same le"
        expressions += [(f".buckets[{index}].value", bucket.value) for index, bucket in enumerate(metric.buckets)]
    else:
        expressions.append((".value", metric.value))
    for where, expression in expressions:
        try:
            program(expression, Scope.METRICS)
        except KwokFileError as error:
            yield where, str(error)
