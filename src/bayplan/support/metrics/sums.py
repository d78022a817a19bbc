"""The metrics of several processes that do the same work, as those of one.

What counts is added up, and so is what is there at the moment; what all of them show alike is shown once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

_SHOWN_ALIKE: Final = (
    "aggregator_unavailable_apiservice",
    "apiserver_resource_objects",
    "apiserver_resource_size_estimate_bytes",
    "apiserver_storage_objects",
    "apiserver_watch_cache_resource_version",
    "kube_apiserver_clusterip_allocator_allocated_ips",
    "kube_apiserver_clusterip_allocator_available_ips",
    "kube_apiserver_nodeport_allocator_allocated_ports",
    "kube_apiserver_nodeport_allocator_available_ports",
    "kubernetes_feature_enabled",
    "watch_cache_capacity",
)
"""Gauges that say the same in every process: the largest counts, since one may be a little behind."""
_LARGEST_SUFFIXES: Final = ("_info", "_timestamp_seconds", "_frac")
_EARLIEST: Final = "process_start_time_seconds"


def summed_metrics(texts: Sequence[bytes]) -> bytes:
    """Texts in Prometheus' format as one: families and series in the order in which they come first."""
    if len(texts) == 1:
        return texts[0]
    heads: dict[str, list[str]] = {}
    series: dict[str, dict[str, str]] = {}
    """By family: values by name and labels."""
    kinds: dict[str, str] = {}
    for text in texts:
        family = ""
        for line in text.decode().splitlines():
            if line.startswith("# "):
                _, word, family, rest = [*line.split(" ", 3), ""][:4]
                known = heads.setdefault(family, [])
                if not any(one.startswith(f"# {word} ") for one in known):
                    known.append(line)
                if word == "TYPE":
                    kinds[family] = rest
            elif line:
                name, _, value = line.rpartition(" ")
                values = series.setdefault(family, {})
                values[name] = _join(family, kinds.get(family, ""))(values[name], value) if name in values else value
    lines: list[str] = []
    for family, known in heads.items():
        lines += known
        lines += [f"{name} {value}" for name, value in series.get(family, {}).items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _join(family: str, kind: str) -> Callable[[str, str], str]:
    """How two values of a series become one."""
    if kind != "gauge":
        return _added
    if family == _EARLIEST:
        return lambda one, other: min(one, other, key=float)
    if family in _SHOWN_ALIKE or family.endswith(_LARGEST_SUFFIXES):
        return lambda one, other: max(one, other, key=float)
    return _added


def _added(one: str, other: str) -> str:
    return repr(float(one) + float(other))
