"""The keys of service account tokens: files are read at the start, and again when they change; a cluster's own key is made when it is first needed."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path

from bayplan.apiserver.service_account_tokens.keys import (
    KeyFileError,
    TokenKeys,
    check_signing_key,
    check_verifying_keys,
)
from bayplan.cluster.api_server.followed_files import FollowedFiles
from bayplan.cluster.credentials import ClusterCredentials
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import Clock

_KeyContents = tuple[bytes | None, tuple[bytes, ...]]
"""The key that signs, and further ones."""


class TokenKeyFiles:
    """The keys in force."""

    def __init__(self, settings: ClusterSettings, credentials: ClusterCredentials, clock: Clock) -> None:
        """Raises ClusterError for files that cannot be used."""
        self._settings = settings
        self._credentials = credentials
        self._followed = FollowedFiles("the keys of service account tokens", self._contents, self._use, clock)
        self._own: bytes | None = None
        self.are_given = bool(settings.token_keys or settings.token_signing_key)
        """Whether there are files to follow."""
        try:
            self.keys = self._made(self._followed.begin())
        except (OSError, KeyFileError) as error:
            raise ClusterError(f"the keys of service account tokens cannot be used: {error}") from error

    def _contents(self) -> _KeyContents:
        """The key that signs, and further ones. Raises OSError."""
        settings = self._settings
        signing = settings.token_signing_key.read_bytes() if settings.token_signing_key is not None else None
        return signing, tuple(path.read_bytes() for path in settings.token_keys)

    def _made(self, contents: _KeyContents) -> TokenKeys:
        """Raises KeyFileError with the file."""
        signing, further = contents
        settings = self._settings
        if signing is not None:
            _check(settings.token_signing_key, lambda: check_signing_key(signing))
        for path, data in zip(settings.token_keys, further, strict=True):
            _check(path, functools.partial(check_verifying_keys, data))
        return TokenKeys((lambda: signing) if signing is not None else self._own_key, further)

    def _own_key(self) -> bytes:
        """The cluster's key, which stays the same one."""
        if self._own is None:
            self._own = self._credentials.token_signing_key()
        return self._own

    async def follow(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Read the files again whenever they have changed. changed: called after that."""
        await self._followed.follow(changed)

    async def reload(self) -> bool:
        """Read the files again; whether that brought others into force."""
        return await self._followed.look()

    async def _use(self, contents: _KeyContents) -> None:
        """Raises KeyFileError."""
        self.keys.replace(self._made(contents))


def _check(path: Path | None, check: Callable[[], None]) -> None:
    """Raises KeyFileError with the file."""
    try:
        check()
    except KeyFileError as error:
        raise KeyFileError(f"{path}: {error}") from error
