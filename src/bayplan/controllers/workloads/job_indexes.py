"""Completion indexes of Indexed Jobs: sets of them as text (`0-3,5`), and the index of a pod."""

from __future__ import annotations

import re
from typing import Final

from bayplan.api.index_sets import IndexSet, Run
from bayplan.api.types import core_v1

ANNOTATION = "batch.kubernetes.io/job-completion-index"
"""On pods (as label, too): which part of the work is theirs."""
_NUMBER: Final = re.compile("[0-9]{1,10}")
_RUN: Final = re.compile("([0-9]{1,10})(?:-([0-9]{1,10}))?")


NO_INDEXES: Final = IndexSet()


def parse(text: str, completions: int) -> IndexSet:
    """The indexes below `completions` that a text names. Text of others that is not understood names none."""
    runs: list[Run] = []
    for part in text.split(","):
        found = _RUN.fullmatch(part)
        if found is not None:
            first, last = int(found[1]), min(int(found[2] or found[1]), completions - 1)
            if first <= last:
                runs.append((first, last))
    return IndexSet(runs)


def index_of(pod: core_v1.Pod) -> int:
    """The completion index of a pod; -1 if it has none."""
    value = pod.metadata.annotations.get(ANNOTATION, "")
    return int(value) if _NUMBER.fullmatch(value) else -1


def pod_name_prefix(job: str, index: int) -> str:
    """What the generated name of the pod of an index begins with; the index stays when the job's name is too long."""
    end = f"-{index}-"
    return job[: _LONGEST - len(end)] + end


_LONGEST = 58
"""Characters before the random part of a generated name."""
