"""Who is asking: bearer tokens and client certificates."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bayplan.apiserver.requests import ANONYMOUS, User

AUTHENTICATED = "system:authenticated"


class TokenFileError(ValueError):
    """A static token file is malformed; the message names file and line."""


@dataclass(slots=True)
class Authenticator:
    """Finds the user of a request."""

    tokens: dict[str, User] = field(default_factory=dict)
    anonymous: bool = True
    """Whether requests without credentials are taken (as `system:anonymous`)."""

    def add_token(self, token: str, name: str, groups: Iterable[str] = (), uid: str = "") -> None:
        """Accept a bearer token for a user."""
        self.tokens[token] = User(name, (*groups, AUTHENTICATED), uid)

    def authenticate(self, authorization: str, common_name: str = "", organizations: Iterable[str] = ()) -> User | None:
        """The user of an Authorization header, or of a verified client certificate; None if the credentials are wrong or missing."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token:
            return self.tokens.get(token.strip())
        if common_name:
            return User(common_name, (*organizations, AUTHENTICATED))
        return ANONYMOUS if self.anonymous else None


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
