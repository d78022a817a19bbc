"""A workload as a file, for processes that play it without having read where it came from. Lines of JSON:

    {"nodes":2,"others":1,"arrivals":[[0.0,null,60.0],[5.5,null,60.0]]}
    {"kind":"Node",...}                 the nodes, further objects, then the pods, in the order of their arrivals (at, ends, lasts)

The file is named by the digest of its content, so that workloads that are equal have one file, wherever they were read from.
"""

from __future__ import annotations

import hashlib
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api.codec import DecodeError
from bayplan.simulation.replay.run import Arrival, Workload
from bayplan.simulation.replay.traces import TraceError
from bayplan.simulation.snapshots.snapshot import LineReader, object_line

Times = tuple[float, float | None, float | None]
"""(at, ends, lasts) of an arrival."""


class _Header(msgspec.Struct):
    nodes: int
    others: int
    arrivals: list[Times]


def save(workload: Workload, directory: Path) -> Path:
    """Write a workload into a directory, if it is not there yet. Raises OSError."""
    times = [(one.at, one.ends, one.lasts) for one in workload.arrivals]
    objects = (*workload.nodes, *workload.others, *(one.pod for one in workload.arrivals))
    header = msgspec.json.encode(_Header(len(workload.nodes), len(workload.others), times))
    data = b"\n".join((header, *map(object_line, objects)))
    path = directory / f"{hashlib.sha256(data).hexdigest()}.workload"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as beside:
            beside.write(data)
        Path(beside.name).replace(path)
    return path


@lru_cache(maxsize=1)
def load(path: Path) -> Workload:
    """A workload that was saved; the last one is kept. Raises TraceError."""
    try:
        first, *lines = path.read_bytes().split(b"\n")
        header = msgspec.json.decode(first, type=_Header)
        reader = LineReader()
        objects: list[Any] = [reader.read(line)[1] for line in lines]
    except (OSError, msgspec.DecodeError, DecodeError) as error:
        raise TraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    pods = objects[header.nodes + header.others :]
    if len(pods) != len(header.arrivals):
        raise TraceError(f"{path}: cut off: {len(pods)} of {len(header.arrivals)} pods")
    arrivals = tuple(
        Arrival(at, pod, ends, lasts) for pod, (at, ends, lasts) in zip(pods, header.arrivals, strict=True)
    )
    others = tuple(objects[header.nodes : header.nodes + header.others])
    return Workload(tuple(objects[: header.nodes]), arrivals, others)
