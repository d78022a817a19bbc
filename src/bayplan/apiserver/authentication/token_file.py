"""Static tokens from a file (`--token-auth-file`)."""

from __future__ import annotations

import csv
from pathlib import Path


class TokenFileError(ValueError):
    """A static token file is malformed; the message names file and line."""


def read_token_file(path: Path) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """The rows of a static token file: token, user, uid, groups (`token,user,uid,"group1,group2"`), blanks and empty groups as they stand there.

    Raises TokenFileError, OSError.
    """
    rows = []
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.reader(lines), 1):
            if not row:
                continue
            if len(row) < 3:
                raise TokenFileError(f"{path}:{number}: expected token,user,uid[,groups], found {len(row)} columns")
            if row[0]:
                rows.append((row[0], row[1], row[2], tuple(row[3].split(",")) if len(row) > 3 else ()))
    return rows
