"""Static tokens from a file (`--token-auth-file`)."""

from __future__ import annotations

import csv
from pathlib import Path


class TokenFileError(ValueError):
    """A static token file is malformed; the message names file and line."""


def read_token_file(path: Path) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """The rows of a static token file: token, user, uid, groups (`token,user,uid,"group1,group2"`). Raises TokenFileError, OSError."""
    rows = []
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.reader(lines, skipinitialspace=True), 1):
            if not row:
                continue
            if len(row) < 3:
                raise TokenFileError(f"{path}:{number}: expected token,user,uid[,groups], found {len(row)} columns")
            groups = tuple(group.strip() for group in row[3].split(",") if group.strip()) if len(row) > 3 else ()
            rows.append((row[0].strip(), row[1].strip(), row[2].strip(), groups))
    return rows
