"""Whether texts match regular expressions in Go's syntax.

Python's `re` has another syntax, and takes for ever over some patterns. The engine of the CEL library does not; `go_patterns` says what is different there.
"""

from __future__ import annotations

import functools
from typing import Any

from bayplan.api.custom_resources.go_patterns import PatternError, translated


@functools.cache
def _program() -> Any:
    import cel  # slow to import, and few schemas have patterns

    return cel.compile("text.matches(pattern)")


@functools.lru_cache(maxsize=1024)
def _understood(pattern: str) -> str | None:
    try:
        found = translated(pattern)
        _program().execute({"text": "", "pattern": found})
    except (PatternError, RuntimeError):
        return None
    return found


@functools.lru_cache(maxsize=4096)
def matches(text: str, pattern: str) -> bool:
    """Whether a pattern is found in a text. A malformed pattern is found in none."""
    found = _understood(pattern)
    return found is not None and bool(_program().execute({"text": text, "pattern": found}))


def is_well_formed(pattern: str) -> bool:
    """Whether a pattern is one."""
    return _understood(pattern) is not None
