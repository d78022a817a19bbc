"""Completion indexes of Indexed Jobs: sets of them as text (`0-3,5`), and the index of a pod."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.types import core_v1

ANNOTATION = "batch.kubernetes.io/job-completion-index"
"""On pods (as label, too): which part of the work is theirs."""


def parse(text: str, completions: int) -> frozenset[int]:
    """The indexes below `completions` that a text names. Text of others that is not understood names none."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            found.update(range(int(first), min(int(last or first) + 1, completions)))
    return frozenset(found)


def text(indexes: Iterable[int]) -> str:
    """Indexes as Kubernetes writes them: single ones and pairs with commas, longer runs with a dash."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    parts = []
    for first, last in runs:
        parts.append(str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}")
    return ",".join(parts)


def index_of(pod: core_v1.Pod) -> int:
    """The completion index of a pod; -1 if it has none."""
    value = pod.metadata.annotations.get(ANNOTATION, "")
    return int(value) if value.isdigit() else -1


def pod_name_prefix(job: str, index: int) -> str:
    """What the generated name of the pod of an index begins with; the index stays when the job's name is too long."""
    end = f"-{index}-"
    return job[: _LONGEST - len(end)] + end


_LONGEST = 58
"""Characters before the random part of a generated name."""
