"""The sources of users in order: client certificate, bearer token (static, service account, bootstrap), nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bayplan.apiserver.authentication.headers import bearer_token
from bayplan.apiserver.requests import ANONYMOUS, User

AUTHENTICATED = "system:authenticated"

TokenSource = Callable[[str, Sequence[str] | None], "tuple[User, tuple[str, ...]] | None"]
"""From a token and audiences (those of the API server if None) to its user and which of the audiences it is for, or None if it is no token of this kind.

Raises TokenRefused for one that is, but is not good.
"""


class TokenRefused(Exception):
    """A token is of a kind that is known, but not good (any more); the message says why."""


@dataclass(frozen=True, slots=True)
class TokenFound:
    """What a token review tells."""

    user: User | None
    audiences: tuple[str, ...] = ()
    error: str = ""


@dataclass(slots=True)
class Authenticator:
    """Finds the user of a request."""

    tokens: dict[str, User] = field(default_factory=dict)
    """Static tokens."""
    anonymous: bool = True
    """Whether requests without credentials are taken (as `system:anonymous`)."""
    audiences: tuple[str, ...] = ("https://kubernetes.default.svc",)
    """For whom tokens are that do not say it: this API server."""
    sources: list[TokenSource] = field(default_factory=list)
    """Further kinds of tokens, asked in order."""

    def add_token(self, token: str, name: str, groups: Iterable[str] = (), uid: str = "") -> None:
        """Accept a bearer token for a user."""
        self.tokens[token] = User(name, with_authenticated(groups), uid)

    def authenticate(self, authorization: str, certified: User | None = None) -> User | None:
        """The user of a verified client certificate or of an Authorization header; None if the token is wrong, or nobody may come."""
        if certified is not None:
            return certified
        if authorization:
            token, _ = bearer_token(authorization)
            if token:
                return self.user_of_token(token)
        return ANONYMOUS if self.anonymous else None

    def user_of_token(self, token: str) -> User | None:
        """The user that a bearer token stands for, or None."""
        user = self.tokens.get(token)
        return user if user is not None else self.review(token).user

    def review(self, token: str, audiences: Sequence[str] = ()) -> TokenFound:
        """Whose token it is, and for which of the audiences (those of the API server if none are given)."""
        wanted = tuple(audiences) or self.audiences
        problems = [_INVALID]
        user = self.tokens.get(token)
        if user is not None:
            both = tuple(one for one in wanted if one in self.audiences)
            return TokenFound(user, both) if both else TokenFound(None, (), _INVALID)
        for source in self.sources:
            try:
                found = source(token, wanted)
            except TokenRefused as refused:
                problems.append(str(refused))
                continue
            if found is not None:
                return TokenFound(*found)
        return TokenFound(None, (), problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


_INVALID = "invalid bearer token"


def with_authenticated(groups: Iterable[str]) -> tuple[str, ...]:
    """Groups of a user that is known: that of all known users comes last, unless it is there."""
    found = tuple(groups)
    return found if AUTHENTICATED in found else (*found, AUTHENTICATED)
