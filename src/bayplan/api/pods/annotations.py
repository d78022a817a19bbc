"""Annotations of pods that the scheduler and controllers read, so that nodes do not take them for slips of the pen."""

from __future__ import annotations

from typing import Final

from bayplan.api.pods import execution_rules

DEADLINE: Final = "bayplan.dev/deadline"
"""When the pod has to be done, RFC 3339."""
DEADLINE_AFTER: Final = "bayplan.dev/deadline-after"
"""The same as a duration from its creation, such as `1h30m`."""
EXPECTED_RUN_TIME: Final = "bayplan.dev/expected-run-time"
"""How long it runs, such as `10m`."""
PREFERRED_TOPOLOGY: Final = "bayplan.dev/preferred-topology"
"""Of a Job or a pod group: levels of topology, the best first."""
_VERTICAL: Final = "bayplan.dev/vertical-"
_READ: Final = frozenset(
    (DEADLINE, DEADLINE_AFTER, EXPECTED_RUN_TIME, PREFERRED_TOPOLOGY, execution_rules.ANNOTATION, execution_rules.GRACE)
)


def is_read_elsewhere(annotation: str) -> bool:
    """Whether something other than the pod's node reads an annotation."""
    return annotation in _READ or annotation.startswith(_VERTICAL)
