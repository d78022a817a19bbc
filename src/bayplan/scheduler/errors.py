"""What can go wrong in the scheduler. "No node fits" is not among it: that is a decision."""

from __future__ import annotations


class SchedulerError(Exception):
    """Base of the scheduler's errors."""


class QuestionError(Exception):
    """What is asked of a running scheduler makes no sense; the text names the object and the field."""


class NotReadyError(Exception):
    """The scheduler cannot answer now."""


class SettingsError(SchedulerError, ValueError):
    """A KubeSchedulerConfiguration is wrong; the message starts with the path of the field."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem
        self.fields: tuple[tuple[str, str], ...] = ((path, problem),)
        """Every field that is wrong, and what is wrong with it."""

    @classmethod
    def several(cls, problems: list[str], fields: list[tuple[str, str]]) -> SettingsError:
        """Several things are wrong; all are told. problems: as sentences."""
        made = cls(fields[0][0], "")
        made.fields = tuple(fields)
        made.problem = f"[{', '.join(problems)}]"
        made.args = (made.problem,)
        return made
