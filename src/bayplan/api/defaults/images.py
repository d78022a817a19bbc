"""What follows from an image's name."""

from __future__ import annotations

import re

from bayplan.support.memory.memo import memoized

_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = (
    r""
    r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[[a-fA-F0-9:]+\]"
)
_REFERENCE = re.compile(
    rf"(?:(?:{_HOST})(?::[0-9]+)?/)?{_PATH}(?:/{_PATH})*(?::([\w][\w.-]{{0,127}}))?"
    r"(@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
).fullmatch


_LONGEST_REPOSITORY = 255


def _repository(image: str) -> str:
    """The name of a well-formed image without its registry, tag and digest; names of one part belong to Docker Hub's `library`."""
    name = image.partition("@")[0]
    host, _, rest = name.partition("/")
    if not rest:
        return f"library/{name.partition(':')[0]}"
    is_registry = host == "localhost" or "." in host or ":" in host or host.lower() != host
    return (rest if is_registry else name).partition(":")[0]


@memoized(16384)
def pull_policy(image: str) -> str:
    """`Always` for images tagged `latest` or not at all, else `IfNotPresent` (malformed names too)."""
    match = _REFERENCE(image)
    if match is None or re.fullmatch("[0-9a-f]{64}", image) or len(_repository(image)) > _LONGEST_REPOSITORY:
        return "IfNotPresent"
    tag, digest = match.groups()
    return "Always" if tag == "latest" or (tag is None and digest is None) else "IfNotPresent"
