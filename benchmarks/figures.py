"""What a benchmark yields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value."""

    benchmark: str
    name: str
    value: float
    unit: str
    peer: str = ""
    """What Kubernetes 1.36.2 with etcd did on a machine of the same kind, for comparison; "" if that was not measured."""
