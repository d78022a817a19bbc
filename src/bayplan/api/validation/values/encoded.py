"""Rules for bytes that stand in JSON as base64."""

from __future__ import annotations

from bayplan.api import codec
from bayplan.api.times import FormError, canonical_bytes


def decoded_size(text: str) -> int:
    """How many bytes a base64 text holds."""
    return len(text) * 3 // 4 - text[-2:].count("=")


def canonical_base64(text: str) -> str:
    """The text as Kubernetes writes it (without line breaks). Raises codec.DecodeError if it is no base64."""
    try:
        return canonical_bytes(text)
    except FormError as error:
        raise codec.DecodeError(str(error)) from None
