"""The scheduler: kube-scheduler's decisions, columnar and explained.

`evaluate`, `place` and `Planner` are the library's front door. Inside, `plugins -> framework -> snapshot`; none of
these imports `client` or `informers`. Names load when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayplan.scheduler.decision import Decision as Decision
    from bayplan.scheduler.library import Planner as Planner
    from bayplan.scheduler.library import Run as Run
    from bayplan.scheduler.library import evaluate as evaluate
    from bayplan.scheduler.library import place as place

__all__ = ["Decision", "Planner", "Run", "evaluate", "place"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bayplan.scheduler import decision, library

    return getattr(decision if name == "Decision" else library, name)
