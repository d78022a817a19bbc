"""What encrypted values begin with: `k8s:enc:PROVIDER:VERSION:KEY:`. Only this part of a value is no secret."""

from __future__ import annotations

from typing import Final

ENCRYPTED: Final = b"k8s:enc:"
"""The begin of all encrypted values, whichever the provider."""
_PARTS: Final = 5


def encryption_prefix(value: bytes) -> str:
    """The prefix of an encrypted value, which names its provider and key."""
    return b":".join(value.split(b":", _PARTS)[:_PARTS]).decode(errors="replace")
