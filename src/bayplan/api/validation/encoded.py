"""Rules for bytes that stand in JSON as base64."""

from __future__ import annotations

from bayplan.api import codec
from bayplan.api.times import first_bad


def decoded_size(text: str) -> int:
    """How many bytes a base64 text holds."""
    return len(text) * 3 // 4 - text[-2:].count("=")


def canonical_base64(text: str, path: str) -> str:
    """The text as Kubernetes writes it (without line breaks). Raises codec.DecodeError if it is no base64."""
    if text.isalnum() and len(text) % 4 == 0 and text.isascii():
        return text
    position = first_bad(text)
    if position >= 0:
        raise codec.DecodeError(f"illegal base64 data at input byte {position}")
    return text.replace("\n", "").replace("\r", "")
