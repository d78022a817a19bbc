"""Static tokens from a file (`--token-auth-file`)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path


class TokenFileError(ValueError):
    """A static token file is malformed; the message names file and line."""


def read_token_file(path: Path) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """The rows of a static token file: token, user, uid, groups (`token,user,uid,"group1,group2"`), blanks and empty groups as they stand there.

    Raises TokenFileError, OSError.
    """
    rows: list[tuple[str, str, str, tuple[str, ...]]] = []
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            rows.extend(_rows(path, lines))
    except (UnicodeDecodeError, csv.Error) as error:
        raise TokenFileError(f"{path}: {error}") from error
    return rows


def _rows(path: Path, lines: Iterable[str]) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        if len(row) < 3:
            raise TokenFileError(f"{path}:{number}: expected token,user,uid[,groups], found {len(row)} columns")
        if row[0]:
            yield row[0], row[1], row[2], tuple(row[3].split(",")) if len(row) > 3 else ()
