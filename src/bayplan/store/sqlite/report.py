"""What an examination of a store's file found, as data and in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_NAMED = 20
"""Most damaged records that a message names; `bayplan store check -o json` names all."""
_STRUCTURE_ERRORS = 5
"""Most errors of SQLite that a message repeats."""


@dataclass(frozen=True, slots=True)
class DamagedRecord:
    """A record whose checksum does not fit, or that cannot be read. Its key and revision are known from its other copy."""

    key: str
    revision: int
    is_newest: bool
    """Whether it is the newest record of its key: then the object is lost. Otherwise a past state of it is."""


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The state of one store file."""

    path: Path
    form_version: int = 0
    revision: int = 0
    """The newest revision that is known."""
    compacted: int = 0
    objects: int = 0
    """Keys that exist and whose newest record is intact."""
    records: int = 0
    """Intact records."""
    structure_errors: tuple[str, ...] = ()
    """Damage of the file that is not damage of one record."""
    damaged: tuple[DamagedRecord, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()
    """Ranges of revisions (first and last) of which nothing can be read, not even the key."""
    missing_objects: int = 0
    """Number of records up to the compacted revision of which nothing can be read: so many objects are lost at most."""
    log_error: str = ""
    """How the write-ahead log is damaged, in which the newest records were."""

    @property
    def is_intact(self) -> bool:
        """Whether nothing is damaged."""
        return self.is_complete and not self.structure_errors

    @property
    def is_complete(self) -> bool:
        """Whether every record is known in full, however damaged the file around them is."""
        return not (self.damaged or self.missing_objects or self.has_unknown_changes)

    @property
    def has_unknown_changes(self) -> bool:
        """Whether records are lost whose keys are unknown, so that an object may show an older state without being named."""
        return bool(self.missing or self.log_error)

    @property
    def lost(self) -> tuple[DamagedRecord, ...]:
        """The newest records of the objects that are lost."""
        return tuple(record for record in self.damaged if record.is_newest)

    def lines(self, limit: int = _NAMED) -> list[str]:
        """What is damaged, in words; nothing for an intact file. At most `limit` records of a sort are named."""
        lines: list[str] = []
        for records, what in (
            (self.lost, "lost, their newest records are damaged"),
            ([one for one in self.damaged if not one.is_newest], "intact, but records of their past are damaged"),
        ):
            if records:
                lines.append(f"{len(records)} object{'s are' if len(records) != 1 else ' is'} {what}:")
                lines += [f"  {record.key} (revision {record.revision})" for record in records[:limit]]
                if len(records) > limit:
                    lines.append(f"  and {len(records) - limit} more")
        if self.missing_objects:
            lines.append(f"up to {self.missing_objects} further objects are lost, and nothing says which")
        if self.missing:
            ranges = [str(first) if first == last else f"{first}-{last}" for first, last in self.missing]
            lines.append(
                f"revision {', '.join(ranges[:limit])}"
                f"{f' and {len(ranges) - limit} further ranges' if len(ranges) > limit else ''} is missing: nothing can be"
                " read of it, so which object it changed is unknown, and what is left of that object may be out of date"
            )
        if self.log_error:
            lines.append(f"{self.log_error}: the newest writes are lost, and nothing says which objects they changed")
        if self.structure_errors:
            lines.append("the file itself is damaged:")
            lines += [f"  {error}" for error in self.structure_errors[:_STRUCTURE_ERRORS]]
            if len(self.structure_errors) > _STRUCTURE_ERRORS:
                lines.append(f"  and {len(self.structure_errors) - _STRUCTURE_ERRORS} more errors")
            if self.is_complete:
                lines.append("no object is lost: every record is intact")
        return lines

    def next_steps(self) -> str:
        """How to go on with a damaged file."""
        store = f"--store sqlite:{self.path}"
        accept = " --accept-unknown" if self.has_unknown_changes else ""
        return (
            f"To go on: `bayplan store check {store}` names everything that is damaged;\n"
            f"`bayplan store restore FILE {store}` brings a backup back, once the damaged file is moved away;\n"
            f"`bayplan store check --repair{accept} {store}` keeps what is intact, drops the lost objects, and sets the damaged"
            " file aside"
        )

    def message(self) -> str:
        """Why the store does not open."""
        found = "\n".join(self.lines()) or "it cannot be read"
        return f"{self.path} is damaged; nothing was changed in it, and nothing is served from it\n{found}\n{self.next_steps()}"
