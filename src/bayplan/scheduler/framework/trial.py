"""Supposing that pods were not on a node."""

from __future__ import annotations

from abc import ABC, abstractmethod

from bayplan.scheduler.snapshot.pods import PodInfo


class Trial(ABC):
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
