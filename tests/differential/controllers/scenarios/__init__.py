"""What happens on both sides: a module for each topic."""

from __future__ import annotations

from typing import Final

from tests.differential.controllers.scenarios import budgets, jobs, networks, others, volumes, workloads

TOPICS: Final = {
    "workloads": workloads.scenarios,
    "jobs": jobs.scenarios,
    "networks": networks.scenarios,
    "budgets": budgets.scenarios,
    "volumes": volumes.scenarios,
    "others": others.scenarios,
}
"""Name -> its scenarios."""
