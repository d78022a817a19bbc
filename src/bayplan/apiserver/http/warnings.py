"""The warnings of an answer as headers, which must not grow with the request.

Source: `apiserver/pkg/endpoints/filters/warning.go`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

_TOTAL: Final = 4096
"""Characters of all warnings from which on each is cut off, and beyond which no further one is sent."""
_EACH: Final = 256
"""Characters of a warning that is cut off."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""What no header may have: a warning with such a character is not sent."""


def warning_headers(warnings: Sequence[str]) -> list[str]:
    """The values of the Warning headers, each warning once."""
    sendable = [one for one in dict.fromkeys(warnings) if one and _CONTROL.search(one) is None]
    return [f'299 - "{_escaped(one)}"' for one in _bounded(sendable)]


def _bounded(warnings: list[str]) -> list[str]:
    sizes = accumulate(map(len, warnings))
    index = next((index for index, size in enumerate(sizes) if size > _TOTAL), None)
    if index is None:
        return warnings
    shown = [one[:_EACH] for one in warnings[: index + 1]]
    written = sum(map(len, shown))
    for one in warnings[index + 1 :]:
        if written >= _TOTAL:
            break
        shown.append(one[:_EACH])
        written += len(shown[-1])
    return shown


def _escaped(warning: str) -> str:
    return warning.replace("\\", "\\\\").replace('"', '\\"')
