"""Workloads over time from files: tables of nodes and pods (CSV).

The columns are those of the traces that Alibaba published with its GPU scheduling studies ("openb"), which are also a good form
for one's own: pods have `name`, `cpu_milli`, `memory_mib` and `creation_time`, and `deletion_time` or `duration` (seconds);
`num_gpu`, `gpu_milli` (thousandths of each), `gpu_spec` (models, with `|` between them), `qos`, `priority` and
`namespace` may be there. Nodes have `sn` or `name`, `cpu_milli`, `memory_mib`; `gpu`, `model`, `zone`, `pods` may be there.

GPUs are one extended resource in thousandths, of which a replay gives each share to one GPU (`gpu_shares`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from bayplan.api.types import core_v1, meta_v1
from bayplan.api.types.core_v1 import Node, Pod
from bayplan.simulation.replay.gpu_shares import GPU, WHOLE
from bayplan.simulation.replay.run import Arrival, Workload

MODEL: Final = "alibabacloud.com/gpu-card-model"
"""Label: the model of a node's GPUs."""
_ZONE: Final = "topology.kubernetes.io/zone"
_HOST: Final = "kubernetes.io/hostname"

Row = Mapping[str, str]


class TraceError(Exception):
    """A file is no trace: it names file, line and column."""


def read_nodes(path: str | Path) -> tuple[Node, ...]:
    """The nodes of a table. Raises TraceError."""
    return tuple(node_of(row, where) for where, row in _rows(path, (("sn", "name"), ("cpu_milli",), ("memory_mib",))))


def read_pods(path: str | Path) -> tuple[Arrival, ...]:
    """The pods of a table. Raises TraceError."""
    wanted = (("name",), ("cpu_milli",), ("memory_mib",), ("creation_time",), ("deletion_time", "duration"))
    return tuple(arrival_of(row, where) for where, row in _rows(path, wanted))


def workload_on(nodes: Iterable[Node], arrivals: Iterable[Arrival]) -> Workload:
    """Pods that come to nodes."""
    return Workload(tuple(nodes), tuple(arrivals))


def _rows(path: str | Path, wanted: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, Row]]:
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or ()
            for names in wanted:
                if not any(name in columns for name in names):
                    raise TraceError(f"{path}: there is no column {' or '.join(names)}; there are {', '.join(columns)}")
            for row in reader:
                yield f"{path}: line {reader.line_num}", row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _number(row: Row, column: str, where: str) -> float:
    text = row.get(column) or "0"
    try:
        return float(text)
    except ValueError:
        raise TraceError(f"{where}: {column}: {text!r} is no number") from None


def node_of(row: Row, where: str = "") -> Node:
    """A node from a row. Raises TraceError, whose message begins with `where`."""
    name = row.get("sn") or row.get("name") or ""
    labels = {_HOST: name}
    if row.get("model"):
        labels[MODEL] = row["model"]
    if row.get("zone"):
        labels[_ZONE] = row["zone"]
    amounts: dict[str, str | int | float] = {
        "cpu": f"{_number(row, 'cpu_milli', where):.0f}m",
        "memory": f"{_number(row, 'memory_mib', where):.0f}Mi",
        "pods": row.get("pods") or "110",
    }
    gpus = _number(row, "gpu", where)
    if gpus:
        amounts[GPU] = f"{1000 * gpus:.0f}"
    return Node(
        metadata=meta_v1.ObjectMeta(name=name, uid=name, labels=labels),
        status=core_v1.NodeStatus(capacity=amounts, allocatable=amounts),
    )


def arrival_of(row: Row, where: str = "") -> Arrival:
    """A pod and when it comes, from a row. Raises TraceError, whose message begins with `where`."""
    at = _number(row, "creation_time", where)
    if row.get("duration"):
        return Arrival(at, _pod(row, where), lasts=_number(row, "duration", where))
    ends = row.get("deletion_time")
    return Arrival(at, _pod(row, where), ends=_number(row, "deletion_time", where) if ends else None)


def _pod(row: Row, where: str) -> Pod:
    amounts: dict[str, str | int | float] = {
        "cpu": f"{_number(row, 'cpu_milli', where):.0f}m",
        "memory": f"{_number(row, 'memory_mib', where):.0f}Mi",
    }
    count, share = round(_number(row, "num_gpu", where)), round(_number(row, "gpu_milli", where))
    if share > WHOLE:
        raise TraceError(f"{where}: gpu_milli: {share} is more than the {WHOLE} thousandths of a GPU")
    whole = share == WHOLE
    if count and share:
        amounts[GPU] = str(count * share if whole else share)
    models = tuple(model for model in (row.get("gpu_spec") or "").split("|") if model)
    container = core_v1.Container(name="main", resources=core_v1.ResourceRequirements(requests=amounts))
    further = () if whole or not share else tuple(_further_share(number, share) for number in range(2, count + 1))
    name, namespace = row["name"], row.get("namespace") or "default"
    return Pod(
        metadata=meta_v1.ObjectMeta(name=name, namespace=namespace, uid=f"{namespace}/{name}"),
        spec=core_v1.PodSpec(
            containers=(container, *further),
            affinity=_on_models(models) if models and count and share else None,
            priority=int(_number(row, "priority", where)),
        ),
    )


def _further_share(number: int, share: int) -> core_v1.Container:
    """A container that asks for a share of one more GPU, and for nothing else."""
    amounts: dict[str, str | int | float] = {"cpu": "0", "memory": "0", GPU: str(share)}
    return core_v1.Container(name=f"share-{number}", resources=core_v1.ResourceRequirements(requests=amounts))


def _on_models(models: tuple[str, ...]) -> core_v1.Affinity:
    expression = core_v1.NodeSelectorRequirement(key=MODEL, operator="In", values=models)
    term = core_v1.NodeSelectorTerm(match_expressions=(expression,))
    required = core_v1.NodeSelector(node_selector_terms=(term,))
    return core_v1.Affinity(
        node_affinity=core_v1.NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    )
