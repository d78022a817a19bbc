"""Headers in which a front proxy says who asks. Source: Kubernetes' `pkg/authentication/request/headerrequest`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from bayplan.apiserver.authentication.authenticator import with_authenticated
from bayplan.apiserver.requests import ANONYMOUS, User

_UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Names of the headers, in any case. Who sends them is not checked here."""

    usernames: tuple[str, ...] = ("X-Remote-User",)
    """The first one that is there and not empty counts."""
    uids: tuple[str, ...] = ("X-Remote-Uid",)
    """The first one that is there and not empty counts."""
    groups: tuple[str, ...] = ("X-Remote-Group",)
    """All values of all of them count."""
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)
    """What follows in the header's name, percent-decoded, is the key."""

    def names(self, header: str) -> bool:
        """Whether a header is one of these."""
        lower = header.lower()
        exact = (*self.usernames, *self.uids, *self.groups)
        return any(lower == one.lower() for one in exact) or any(
            lower.startswith(one.lower()) for one in self.extra_prefixes
        )

    def user(self, headers: Iterable[tuple[str, str]]) -> User | None:
        """Who asks; None if no header names somebody."""
        values: dict[str, list[str]] = {}
        for header, value in headers:
            values.setdefault(header.lower(), []).append(value)
        name = _first(values, self.usernames)
        if not name:
            return None
        groups = tuple(value for one in self.groups for value in values.get(one.lower(), ()) if value)
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in self.extra_prefixes:
            for header, found in values.items():
                if header.startswith(prefix.lower()):
                    key = unquote(header[len(prefix) :])
                    extra[key] = (*extra.get(key, ()), *found)
        if name != ANONYMOUS.name and _UNAUTHENTICATED not in groups:
            groups = with_authenticated(groups)
        return User(name, groups, _first(values, self.uids), extra)


def _first(values: dict[str, list[str]], names: tuple[str, ...]) -> str:
    """The value of the first header that is there and whose first value is not empty."""
    return next((values[one.lower()][0] for one in names if values.get(one.lower(), [""])[0]), "")
