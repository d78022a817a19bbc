"""PodDisruptionBudgets and HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import Final

from tests.differential.controllers.builders import autoscaler, deployment, pod, set_spec
from tests.differential.controllers.steps import Scenario, create, patch, rest, run, selecting, unready

SCENARIOS: Final = (
    Scenario(
        "budget",
        [
            [
                create("PodDisruptionBudget", "half", spec={"minAvailable": "50%", "selector": selecting("web")}),
                deployment(3),
            ],
            [run()],
            [unready(most=1)],
            [patch("PodDisruptionBudget", "half", {"spec": {"minAvailable": 1}})],
            [patch("PodDisruptionBudget", "half", {"spec": {"minAvailable": None, "maxUnavailable": "34%"}})],
        ],
    ),
    Scenario(
        "budget-unmanaged",
        [
            [pod("one"), pod("two")],
            [create("PodDisruptionBudget", "some", spec={"maxUnavailable": 1, "selector": selecting("web")})],
            [run()],
            [create("PodDisruptionBudget", "all", spec={"minAvailable": 1, "selector": {}})],
        ],
    ),
    Scenario(
        "budget-empty",
        [
            [
                create(
                    "PodDisruptionBudget",
                    "none",
                    spec={
                        "minAvailable": 2,
                        "selector": selecting("nobody"),
                        "unhealthyPodEvictionPolicy": "AlwaysAllow",
                    },
                )
            ]
        ],
    ),
    Scenario(
        "autoscaler",
        [
            [
                deployment(2),
                autoscaler(
                    "web",
                    "web",
                    minReplicas=1,
                    metrics=[
                        {
                            "type": "Resource",
                            "resource": {
                                "name": "cpu",
                                "target": {"type": "Utilization", "averageUtilization": 50},
                            },
                        }
                    ],
                ),
                rest(17),
            ],
            [run()],
            [set_spec("Deployment", "web", replicas=6)],
            [rest(17)],
        ],
    ),
    Scenario(
        "autoscaler-missing",
        [
            [
                autoscaler("none", "missing"),
                autoscaler("strange", "missing", kind="Thing", api_version="example.com/v1"),
                rest(17),
            ],
        ],
    ),
)
