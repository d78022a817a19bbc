"""Workloads in `v1alpha3`, which has the form of `v1beta1`."""

from __future__ import annotations

from bayplan.api.strategies.scheduling.workloads_v1beta1 import NewerWorkloadStrategy

STRATEGY = NewerWorkloadStrategy()
