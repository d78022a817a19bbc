"""Expressions of CEL in stages, over `self`. They stand where paths of jq may."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from bayplan.kubelet.simulator.errors import KwokFileError, StageError
from bayplan.kubelet.simulator.stages.expressions import Scope, program, value_of
from bayplan.kubelet.simulator.stages.object_trees import prepared_pod


@dataclass(frozen=True, slots=True)
class StageExpression:
    """One expression, which gives one value."""

    text: str

    def values(self, data: Any) -> list[Any]:
        """What it is for an object (plain data), within `at_moment`; spans and moments as text. Raises StageError if it fails."""
        from bayplan.api.cel.moments import duration_text, timestamp_text
        from bayplan.api.cel.values import Duration, Timestamp

        try:
            found = value_of(self.text, {"self": prepared_pod(copy.deepcopy(data))}, Scope.STAGE)
        except KwokFileError as error:
            raise StageError(f"cel: {error}") from error
        if isinstance(found, Duration):
            return [duration_text(found)]
        return [timestamp_text(found) if isinstance(found, Timestamp) else found]


def read_expression(given: Any) -> StageExpression:
    """`cel` of a stage. Raises KwokFileError for what is no expression."""
    text = given.get("expression") if isinstance(given, dict) else None
    if not isinstance(text, str) or not text:
        raise KwokFileError("expression is required")
    program(text, Scope.STAGE)
    return StageExpression(text)
