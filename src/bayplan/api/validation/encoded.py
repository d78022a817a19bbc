"""Rules for bytes that stand in JSON as base64."""

from __future__ import annotations

import base64
import binascii

from bayplan.api import codec


def decoded_size(text: str) -> int:
    """How many bytes a base64 text holds."""
    return len(text) * 3 // 4 - text[-2:].count("=")


def canonical_base64(text: str, path: str) -> str:
    """The text as Kubernetes writes it (without line breaks). Raises codec.DecodeError if it is no base64."""
    if text.isalnum() and len(text) % 4 == 0 and text.isascii():
        return text
    cleaned = text.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(cleaned, validate=True)
    except (binascii.Error, ValueError):
        raise codec.DecodeError(f"illegal base64 data at input byte {_first_bad(cleaned)}") from None
    return cleaned


_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _first_bad(text: str) -> int:
    for index, character in enumerate(text):
        if character not in _ALPHABET:
            return index
    return len(text) // 4 * 4
