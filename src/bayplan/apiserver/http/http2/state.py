"""What the library h2 keeps of a connection, set up for this server.

It differs from h2's own in four things. Fields of requests are checked by `fields`, which resets one stream where h2 would end the connection. Streams beyond the
limit are refused by the connection, which counts them, where h2 would end it. Frames are looked at before h2 has them (`frames`). Responses are encoded without a
table (`encoding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.events import Event
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from bayplan.apiserver.http.http2.encoding import FieldEncoder
from bayplan.apiserver.http.http2.fields import FIELDS_LIMIT, Field
from bayplan.apiserver.http.http2.frames import ConnectionFailure, FrameScanner

LAST_STREAM: Final = (1 << 31) - 1
"""No stream has a higher number: with it a GOAWAY says that the end comes, and refuses nothing."""
_STREAM_WINDOW: Final = 256 << 10
"""Bytes of a request's body that a client may send ahead, as in kube-apiserver."""
_CONNECTION_WINDOW: Final = 2 << 20
"""The same for all requests of a connection."""
_DEFAULT_WINDOW: Final = 65_535
_FIELDS_READ: Final = 2 * FIELDS_LIMIT
"""Bytes of header fields that are decoded: of those up to the limit and more that are answered with 431; beyond it the connection ends."""
_GOAWAY_BYTES: Final = 17


class ServerState(H2Connection):
    """See the module."""

    MAX_CLOSED_STREAMS = 1024
    """Streams that are remembered after their end, to know what frames in flight are about; 65,536 of the library would be 6 MiB of a connection that lasts."""

    def __init__(self, most_streams: int) -> None:
        """most_streams: that may be open at once, as clients are told."""
        super().__init__(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
            )
        )
        self.scanner = FrameScanner()
        self._kept = b""
        """Frames that were made before the client's GOAWAY."""
        self.encoder = FieldEncoder()  # type: ignore[assignment]
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: most_streams,
                SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
                SettingCodes.MAX_HEADER_LIST_SIZE: FIELDS_LIMIT,
                SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self.decoder.max_header_list_size = _FIELDS_READ

    def open(self) -> None:
        """Say how the server wants it: the first frames of a connection."""
        self.initiate_connection()
        self.increment_flow_control_window(_CONNECTION_WINDOW - _DEFAULT_WINDOW)

    @property
    def open_inbound_streams(self) -> int:
        """None, for who asks whether one more is too many. Asking forgets streams that have ended."""
        _ = super().open_inbound_streams
        return 0

    def receive(self, data: bytes) -> list[Event]:
        """What bytes of the client say. Raises ConnectionFailure."""
        goaways = self.scanner.feed(data)
        if not goaways:
            return self._receive(data)
        found: list[Event] = []
        for start, end in zip((0, *goaways), (*goaways, len(data)), strict=True):
            self._kept += super().data_to_send()
            found += self._receive(data[start:end])
            if self.state_machine.state is ConnectionState.CLOSED:
                self.state_machine.state = ConnectionState.SERVER_OPEN
        return found

    def data_to_send(self, amount: int | None = None) -> bytes:
        """The frames that there are. h2 drops them when a client says that it makes no new streams, and answers nothing more; here what has come is answered."""
        kept, self._kept = self._kept, b""
        return kept + super().data_to_send(amount)

    def _receive(self, data: bytes) -> list[Event]:
        """Raises ConnectionFailure."""
        try:
            return self.receive_data(data)
        except ProtocolError as error:
            raise ConnectionFailure(error.error_code, str(error)) from error
        except (ValueError, IndexError, KeyError) as error:  # what the libraries below do not take
            raise ConnectionFailure(ErrorCodes.PROTOCOL_ERROR, str(error)) from error

    def settings_acknowledged(self) -> None:
        """The client has taken the settings: header fields are read somewhat beyond the limit, to answer what is too long."""
        self.decoder.max_header_list_size = _FIELDS_READ

    def try_headers(self, stream_id: int, fields: Sequence[Field], *, ends: bool) -> None:
        """Make a frame of header fields; none if the stream has been reset by frames that are still to be looked at."""
        with suppress(ProtocolError):
            self.send_headers(stream_id, fields, end_stream=ends)

    def window(self, stream_id: int) -> int | None:
        """Bytes of a body that may be sent in the next frame; None if the stream has been reset."""
        try:
            return min(self.local_flow_control_window(stream_id), self.max_outbound_frame_size)
        except ProtocolError:
            return None

    def try_reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Make a frame that ends a stream, unless it has ended."""
        with suppress(ProtocolError):
            self.reset_stream(stream_id, code)

    def final_frames(self, code: int) -> bytes:
        """What is to be sent before the connection is closed for a failure."""
        data = self.data_to_send()
        if self.state_machine.state is ConnectionState.CLOSED:
            data = data[:-_GOAWAY_BYTES]  # h2's own
        return data + self.goaway(self.highest_inbound_stream_id, code)

    def goaway(self, last_stream: int, code: int = ErrorCodes.NO_ERROR) -> bytes:
        """A frame that announces the end, after which h2 itself would answer nothing more."""
        return GoAwayFrame(0, last_stream_id=last_stream, error_code=code).serialize()
