"""Pod templates about which there was nothing to say, by what they hold: objects are written again and again with the template that they have.

Only templates by themselves are remembered. What a kind asks of its template besides (a restart policy, labels that a selector matches) is asked each time.
"""

from __future__ import annotations

import hashlib
from typing import Final

from bayplan.api.codec import encode
from bayplan.api.types import core_v1
from bayplan.support.memory.memo import Memo

_MOST_BYTES: Final = 1 << 20
_LONGEST: Final = 8192
"""Bytes of a template as JSON, as in `strategies.core.pod_forms`."""


class SoundTemplates:
    """Templates of which one check found nothing."""

    def __init__(self, name: str) -> None:
        """name: of the memo in metrics."""
        self._sound: Memo[bytes, bool] = Memo(name, most_bytes=_MOST_BYTES)

    def key_of(self, template: core_v1.PodTemplateSpec) -> bytes:
        """What stands for templates that are equal; b"" for one that is not remembered."""
        data = encode(template)
        return hashlib.blake2b(data, digest_size=16).digest() if len(data) <= _LONGEST else b""

    def knows(self, key: bytes) -> bool:
        """Whether nothing was found in such a template."""
        return self._sound.get(key) is not None

    def remember(self, key: bytes) -> None:
        """Nothing was found."""
        if key:
            self._sound.put(key, value=True, size=len(key))
