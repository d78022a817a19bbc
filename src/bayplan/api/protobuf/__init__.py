"""Kubernetes' protobuf bodies, both ways, by a table of field numbers instead of code per kind.

`wire` knows tags, lengths, the envelope and the table; `reading` makes JSON trees of messages; `writing` makes messages of structs. No I/O, no HTTP.
"""

from __future__ import annotations

from bayplan.api.protobuf.reading import to_tree
from bayplan.api.protobuf.wire import MAGIC, MEDIA_TYPE, ProtobufError, envelope, unwrap, watch_frame
from bayplan.api.protobuf.writing import list_message, message_of, message_of_tree, metadata_message

__all__ = [
    "MAGIC",
    "MEDIA_TYPE",
    "ProtobufError",
    "envelope",
    "list_message",
    "message_of",
    "message_of_tree",
    "metadata_message",
    "to_tree",
    "unwrap",
    "watch_frame",
]
