"""The values of Secrets."""

from __future__ import annotations

import base64

from bayplan.api.types import core_v1


def secret_bytes(secret: core_v1.Secret) -> dict[str, bytes]:
    """The values of a Secret."""
    return {name: base64.b64decode(value) for name, value in secret.data.items()}


def secret_texts(secret: core_v1.Secret) -> dict[str, str]:
    """The values of a Secret as text; bytes that are no UTF-8 are kept as surrogates (PEP 383)."""
    return {name: value.decode(errors="surrogateescape") for name, value in secret_bytes(secret).items()}
