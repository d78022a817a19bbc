"""Whether texts match regular expressions in the syntax of RE2, which is Go's. They take time in proportion to the text, which those of Python do not."""

from __future__ import annotations

from typing import Any

from bayplan.support.memory.memo import memoized


@memoized(1024)
def _compiled(pattern: str) -> Any:
    """A pattern to be searched for, None for what is none."""
    import re2  # slow to import, and few schemas have patterns

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern is found in a text. A malformed pattern is found in none."""
    found = _compiled(pattern)
    return found is not None and found.search(text) is not None


def is_well_formed(pattern: str) -> bool:
    """Whether a pattern is one."""
    return _compiled(pattern) is not None
