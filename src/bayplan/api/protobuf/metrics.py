"""NodeMetrics and PodMetrics as protobuf messages. They are of an add-on of Kubernetes and stand in no published table of fields.

Source of the field numbers: `k8s.io/metrics/pkg/apis/metrics/v1beta1/generated.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.api.protobuf.wire import delimited, tag, varint
from bayplan.api.protobuf.writing import message_of
from bayplan.api.types import meta_v1
from bayplan.support.timestamps import parse_rfc3339

_METADATA, _TIMESTAMP, _WINDOW, _FIGURES = 1, 2, 3, 4
_NANOSECONDS = 1_000_000_000


def metrics_message(obj: Mapping[str, Any]) -> bytes:
    """The message of a NodeMetrics or PodMetrics; its window is in whole seconds (`15s`)."""
    metadata = msgspec.convert(obj["metadata"], meta_v1.ObjectMeta)
    parts = [
        delimited(_METADATA, message_of(metadata)),
        delimited(_TIMESTAMP, _integer(1, int(parse_rfc3339(obj["timestamp"])))),
        delimited(_WINDOW, _integer(1, int(obj["window"].removesuffix("s")) * _NANOSECONDS)),
    ]
    if "usage" in obj:
        return b"".join(parts) + _usage(_FIGURES, obj["usage"])
    parts.extend(
        delimited(_FIGURES, delimited(1, one["name"].encode()) + _usage(2, one["usage"])) for one in obj["containers"]
    )
    return b"".join(parts)


def _usage(number: int, usage: Mapping[str, str]) -> bytes:
    """A map from resource to quantity."""
    return b"".join(
        delimited(number, delimited(1, name.encode()) + delimited(2, delimited(1, amount.encode())))
        for name, amount in sorted(usage.items())
    )


def _integer(number: int, value: int) -> bytes:
    return tag(number, 0) + varint(value)
