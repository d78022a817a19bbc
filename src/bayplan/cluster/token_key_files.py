"""The keys of service account tokens: files are read at the start, and again when they change; a cluster's own key is made when it is first needed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from bayplan.apiserver.service_account_tokens.keys import KeyFileError, TokenKeys
from bayplan.cluster.credentials import ClusterCredentials
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_LOOKED_AT_EVERY: Final = 10.0
"""Seconds between two looks at the files."""


class TokenKeyFiles:
    """The keys in force."""

    def __init__(self, settings: ClusterSettings, credentials: ClusterCredentials, clock: Clock) -> None:
        """Raises ClusterError for files that cannot be used."""
        self._settings = settings
        self._credentials = credentials
        self._clock = clock
        self._own: bytes | None = None
        self.are_given = bool(settings.token_keys or settings.token_signing_key)
        """Whether there are files to follow."""
        try:
            self._seen = self._contents()
            self.keys = self._made(self._seen)
            if self.are_given:
                self.keys.public()
        except (OSError, KeyFileError) as error:
            raise ClusterError(f"the keys of service account tokens cannot be used: {error}") from error

    def _contents(self) -> tuple[bytes | None, tuple[bytes, ...]]:
        """The key that signs, and further ones. Raises OSError."""
        settings = self._settings
        signing = settings.token_signing_key.read_bytes() if settings.token_signing_key is not None else None
        return signing, tuple(path.read_bytes() for path in settings.token_keys)

    def _made(self, contents: tuple[bytes | None, tuple[bytes, ...]]) -> TokenKeys:
        signing, further = contents
        return TokenKeys((lambda: signing) if signing is not None else self._own_key, further)

    def _own_key(self) -> bytes:
        """The cluster's key, which stays the same one."""
        if self._own is None:
            self._own = self._credentials.token_signing_key()
        return self._own

    async def follow(self, changed: Callable[[], object]) -> None:
        """Read the files again whenever they have changed. changed: called after that."""
        while True:
            await self._clock.sleep(_LOOKED_AT_EVERY)
            if self.reload():
                changed()

    def reload(self) -> bool:
        """Read the files again; whether that brought others into force. What cannot be used is reported and changes nothing."""
        try:
            found = self._contents()
            if found == self._seen:
                return False
            self.keys.replace(self._made(found))
        except (OSError, KeyFileError) as error:
            logger.error("the keys of service account tokens cannot be used, the former ones stay: %s", error)
            return False
        self._seen = found
        logger.info("other keys of service account tokens are in force")
        return True
