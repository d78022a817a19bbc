"""What happens on both sides: a module for each topic."""

from __future__ import annotations

from typing import Final

from tests.differential.controllers.scenarios import budgets, jobs, networks, others, volumes, workloads

TOPICS: Final = {
    "workloads": workloads.SCENARIOS,
    "jobs": jobs.SCENARIOS,
    "networks": networks.SCENARIOS,
    "budgets": budgets.SCENARIOS,
    "volumes": volumes.SCENARIOS,
    "others": others.SCENARIOS,
}
"""Name -> its scenarios."""
