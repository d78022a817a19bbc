"""The sources of users in order: front proxy, client certificate, bearer token of several kinds, nobody.

Most users are known at once. A token that nobody knows at once may be known to a source that has to be waited for, such as a webhook: `authenticate` then
gives an `Unfinished`, and `finish` asks those sources.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bayplan.apiserver.authentication.headers import bearer_token
from bayplan.apiserver.requests import ANONYMOUS, User

if TYPE_CHECKING:
    from bayplan.apiserver.authentication.client_certificates import Certified
    from bayplan.apiserver.authentication.token_cache import TokenCache

AUTHENTICATED = "system:authenticated"

TokenSource = Callable[[str, Sequence[str] | None], "tuple[User, tuple[str, ...]] | None"]
"""From a token and audiences (those of the API server if None) to its user and which of the audiences it is for, or None if it is no token of this kind.

Raises TokenRefused for one that is, but is not good.
"""

SlowTokenSource = Callable[[str, tuple[str, ...]], Awaitable[tuple[User, tuple[str, ...]] | None]]
"""The same for a source that has to be waited for; the audiences are always given."""


class TokenRefused(Exception):
    """A token is of a kind that is known, but not good (any more); the message says why."""


@dataclass(frozen=True, slots=True)
class TokenFound:
    """What a token review tells."""

    user: User | None
    audiences: tuple[str, ...] = ()
    error: str = ""


class Unfinished(NamedTuple):
    """A request whose user is not known yet."""

    token: str


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
    slow_sources: list[SlowTokenSource] = field(default_factory=list)
    """Kinds of tokens that have to be waited for, asked in order after the others."""
    cache: TokenCache | None = None
    """What they said lately; None to ask them every time."""
    anonymous_paths: frozenset[str] | None = None
    """For which paths requests without credentials are taken; None for all."""

    def add_token(self, token: str, name: str, groups: Iterable[str] = (), uid: str = "") -> None:
        """Accept a bearer token for a user."""
        self.tokens[token] = User(name, with_authenticated(groups), uid)

    def authenticate(
        self, authorization: str, certified: Certified | None = None, proxied: User | None = None, path: str = ""
    ) -> User | Unfinished | None:
        """The user of a request; None if its credentials are wrong, or nobody may come without.

        authorization: the header. certified: what the client's certificate is good for. proxied: who asks by the headers of a front proxy, whoever sent them.
        path: of the request.
        """
        if certified is not None:
            if proxied is not None and certified.is_front_proxy:
                return proxied
            if certified.user is not None:
                return certified.user
        if authorization:
            token, _ = bearer_token(authorization)
            if token:
                return self._user_at_once(token)
        if certified is not None and certified.problem:
            return None
        return ANONYMOUS if self.takes_anonymous(path) else None

    def takes_anonymous(self, path: str) -> bool:
        """Whether requests for a path are taken without credentials."""
        return self.anonymous and (self.anonymous_paths is None or path in self.anonymous_paths)

    def _user_at_once(self, token: str) -> User | Unfinished | None:
        user = self.user_of_token(token)
        if user is not None or not self.slow_sources:
            return user
        known = self.cache.known(token, self.audiences) if self.cache is not None else None
        return Unfinished(token) if known is None else known.user

    async def finish(self, unfinished: Unfinished) -> User | None:
        """The user of a token, or None, from the sources that have to be waited for."""
        return (await self.review_all(unfinished.token)).user

    def user_of_token(self, token: str) -> User | None:
        """The user that a bearer token stands for, or None, by what is known at once."""
        user = self.tokens.get(token)
        return user if user is not None else self.review(token).user

    def review(self, token: str, audiences: Sequence[str] = ()) -> TokenFound:
        """Whose token it is, and for which of the audiences (those of the API server if none are given), by what is known at once."""
        return self._review(token, tuple(audiences) or self.audiences, [_INVALID])

    async def review_all(self, token: str, audiences: Sequence[str] = ()) -> TokenFound:
        """The same by all sources."""
        wanted, problems = tuple(audiences) or self.audiences, [_INVALID]
        found = self._review(token, wanted, problems)
        if found.user is not None or not self.slow_sources:
            return found
        slow = await (self.ask if self.cache is None else self.cache.find)(token, wanted)
        if slow.user is not None:
            return slow
        return TokenFound(None, (), _joined([*problems, slow.error] if slow.error else problems))

    async def ask(self, token: str, audiences: tuple[str, ...]) -> TokenFound:
        """What the sources say that have to be waited for."""
        problems = []
        for source in self.slow_sources:
            try:
                found = await source(token, audiences)
            except TokenRefused as refused:
                problems.append(str(refused))
                continue
            if found is not None:
                return TokenFound(*found)
        return TokenFound(None, (), ", ".join(problems))

    def _review(self, token: str, wanted: tuple[str, ...], problems: list[str]) -> TokenFound:
        """problems: why the token is not good; what is found is added."""
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
        return TokenFound(None, (), _joined(problems))


_INVALID = "invalid bearer token"


def _joined(problems: Sequence[str]) -> str:
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def with_authenticated(groups: Iterable[str]) -> tuple[str, ...]:
    """Groups of a user that is known: that of all known users comes last, unless it is there."""
    found = tuple(groups)
    return found if AUTHENTICATED in found else (*found, AUTHENTICATED)
