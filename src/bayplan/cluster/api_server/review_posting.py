"""Reviews posted to the server of a kubeconfig."""

from __future__ import annotations

from pathlib import Path

from bayplan.api.errors import ApiError
from bayplan.apiserver.webhooks.posting import ReviewError
from bayplan.client.errors import KubeconfigError, TransportError
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load


class KubeconfigReviewPoster:
    """See `bayplan.apiserver.webhooks.posting.ReviewPoster`: posts to the URL of a kubeconfig's server, as its user."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError for a kubeconfig that cannot be used."""
        try:
            self._transport = HttpTransport(load(path))
        except KubeconfigError as error:
            raise ValueError(str(error)) from error

    async def post(self, body: bytes) -> bytes:
        """See ReviewPoster."""
        try:
            return await self._transport.request("POST", "", {}, body)
        except ApiError as error:
            raise ReviewError(str(error), error.code) from error
        except TransportError as error:
            cause = error.__cause__
            raise ReviewError(
                str(error),
                is_reset=isinstance(cause, ConnectionResetError | BrokenPipeError),
                is_timeout=isinstance(cause, TimeoutError),
            ) from error

    async def close(self) -> None:
        """See ReviewPoster."""
        await self._transport.close()
