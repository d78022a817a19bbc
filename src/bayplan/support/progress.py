"""How far long work is: a line on a terminal or (with ipywidgets, which rich needs there) in a notebook, nothing elsewhere."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any


class Progress:
    """A bar on standard error while the context lasts. `total` is what the count runs up to, if that is known."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what = what
        self.total = total
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty() or "IPython" in sys.modules:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            console = Console(stderr=True)
            if not (console.is_terminal or (console.is_jupyter and find_spec("ipywidgets"))):
                return self
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Bar(*columns, console=console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.what, total=self.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, done: int) -> None:
        """Show how much is done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def tell_part(self, part: str, done: int, of: int | None) -> None:
        """Show what is being worked at, and how far that is."""
        if self._bar is not None:
            self._bar.update(self._task, description=part, completed=done, total=of if of is not None else done)
