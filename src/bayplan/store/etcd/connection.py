"""Calls to whichever member of an etcd cluster answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.store.etcd.errors import EtcdUnavailable, error_of, is_stale_token
from bayplan.store.etcd.messages import AUTHENTICATE, MESSAGES
from bayplan.store.etcd.settings import EtcdSettings
from bayplan.support.clock import Clock
from bayplan.support.grpc.errors import RpcError, UnsentError
from bayplan.support.grpc.types import Channel, Metadata
from bayplan.support.web.tls_files import TlsFiles

_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 1.0
"""Seconds between two rounds over all members."""
_NOT_TAKEN: Final = "etcdserver: no leader"
"""What etcd says when it does not take a request."""
_TLS_SIGN: Final = "SSL"
"""What is said when certificates do not fit."""


Dial = Callable[[str, TlsFiles | None], Channel]
"""Makes a channel to `host:port`. Raises OSError if a file of the TLS settings cannot be read."""


class Connection:
    """The members of a cluster. Channels are made when they are needed, and kept."""

    def __init__(self, settings: EtcdSettings, clock: Clock, dial: Dial) -> None:
        self._settings = settings
        self._clock = clock
        self._dial = dial
        self._channels: dict[str, Channel] = {}
        self._current = 0
        """Index of the endpoint that answered last."""
        self._token = ""
        self._closed = False

    @property
    def endpoint(self) -> str:
        """The member in use."""
        return self._settings.endpoints[self._current]

    def channel(self) -> Channel:
        """The channel to the member in use. Raises EtcdUnavailable if the client is closed or a file of its TLS settings cannot be read."""
        if self._closed:
            raise EtcdUnavailable("the etcd client is closed")
        endpoint = self.endpoint
        found = self._channels.get(endpoint)
        if found is None:
            try:
                found = self._channels[endpoint] = self._dial(endpoint, self._settings.tls)
            except OSError as error:
                raise EtcdUnavailable(f"etcd: cannot read {error.filename}: {error.strerror}") from error
        return found

    def next_endpoint(self) -> None:
        """Use the next member from now on."""
        self._current = (self._current + 1) % len(self._settings.endpoints)

    async def metadata(self) -> Metadata:
        """What authenticates a stream or a call. Raises RpcError."""
        if not self._settings.user:
            return ()
        if not self._token:
            request = MESSAGES["AuthenticateRequest"](name=self._settings.user, password=self._settings.password)
            response = await self.channel().call(
                AUTHENTICATE, request, MESSAGES["AuthenticateResponse"], seconds=self._attempt_seconds(), metadata=()
            )
            self._token = response.token
        return (("token", self._token),)

    def forget_token(self) -> None:
        """Authenticate again before the next call."""
        self._token = ""

    def _attempt_seconds(self) -> float:
        settings = self._settings
        return settings.attempt_timeout if len(settings.endpoints) > 1 else settings.request_timeout

    async def call(self, method: str, request: Any, response: str, *, changes: bool = False) -> Any:
        """A unary call, tried at each member in turn until one answers or the time is up.

        response: the name of the message. changes: whether it changes something; after an attempt that may have been carried out it is not tried again.
        Raises EtcdError; EtcdUnavailable says whether the change may have been made.
        """
        deadline = self._clock.monotonic() + self._settings.request_timeout
        wait, attempts = _FIRST_WAIT, 0
        while True:
            endpoint = self.endpoint
            try:
                seconds = min(self._attempt_seconds(), max(0.1, deadline - self._clock.monotonic()))
                channel = self.channel()
                metadata = await self.metadata()
                return await channel.call(method, request, MESSAGES[response], seconds=seconds, metadata=metadata)
            except RpcError as error:
                if is_stale_token(error) and attempts < 3:
                    self.forget_token()
                    attempts += 1
                    continue
                maybe_done = changes and not _is_unsent(error)
                failure = error_of(error, maybe_done=maybe_done)
                if not isinstance(failure, EtcdUnavailable) or self._clock.monotonic() >= deadline:
                    raise self._described(failure, endpoint) from error
                if endpoint == self.endpoint:  # no other call has moved on meanwhile
                    self.next_endpoint()
                if maybe_done:
                    raise self._described(failure, endpoint) from error
            attempts += 1
            if attempts % len(self._settings.endpoints) == 0:
                await self._clock.sleep(min(wait, max(0.0, deadline - self._clock.monotonic())))
                wait = min(2 * wait, _LONGEST_WAIT)

    def _described(self, failure: Any, endpoint: str) -> Any:
        """The failure with the endpoint and the next step in its text."""
        if isinstance(failure, EtcdUnavailable):
            text = f"etcd at {endpoint} does not answer: {failure.message}{_advice(failure.message)}"
            return EtcdUnavailable(text, failure.code, maybe_done=failure.maybe_done)
        return failure

    async def close(self) -> None:
        """End all channels; calls that wait fail."""
        self._closed = True
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


def _is_unsent(error: RpcError) -> bool:
    return isinstance(error, UnsentError) or (error.code == "UNAVAILABLE" and _NOT_TAKEN in error.message)


def _advice(message: str) -> str:
    """The next step for an operator."""
    if "certificate" in message.lower() or _TLS_SIGN in message:
        return "; check --etcd-cafile, --etcd-certfile and --etcd-keyfile"
    if "request timed out" in message or "no leader" in message or "Deadline" in message:
        return "; the cluster has no quorum or is overloaded: look at `etcdctl endpoint status --cluster`"
    return "; check that etcd runs and that --etcd-servers names its client URLs"
