"""Supposing that pods were not on a node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from bayplan.scheduler.snapshot.pods import PodInfo


class WhatIf(ABC):
    """A node on which some pods are supposed to be gone; nobody else sees it."""

    @abstractmethod
    def put_back(self, pod: PodInfo) -> None:
        """Suppose that one of the pods were there after all."""

    @abstractmethod
    def take_away(self, pod: PodInfo) -> None:
        """Suppose that one of the pods were gone; undoes `put_back`."""

    @abstractmethod
    def verdict(self) -> int:
        """The verdict on the node as it is supposed to be, nominated pods included."""


class JointWhatIf(WhatIf):
    """What several filters say, in order; a number is the verdict of one that no pod can change."""

    def __init__(self, parts: Sequence[WhatIf | int]) -> None:
        self._parts = parts
        self._changing = [part for part in parts if isinstance(part, WhatIf)]

    def put_back(self, pod: PodInfo) -> None:
        for part in self._changing:
            part.put_back(pod)

    def take_away(self, pod: PodInfo) -> None:
        for part in self._changing:
            part.take_away(pod)

    def verdict(self) -> int:
        for part in self._parts:
            code = part.verdict() if isinstance(part, WhatIf) else part
            if code:
                return code
        return 0
