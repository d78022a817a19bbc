"""Services that are started and stopped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Service(ABC):
    """Something that runs between `start` and `stop`, as a context manager. What has failed to start is stopped."""

    @abstractmethod
    async def start(self) -> None:
        """Start all parts. After a failure `stop` stops those that have started."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop whatever has started."""

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
