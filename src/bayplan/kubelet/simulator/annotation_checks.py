"""What is wrong with the annotations by which a pod says how it behaves: names that nobody reads, values that cannot be read.

They count as not there, so that a pod with a slip of the pen runs as if it had said nothing; the event tells why.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from bayplan.api.pods.annotations import is_read_elsewhere
from bayplan.api.simulated_usage import ANNOTATIONS, readable
from bayplan.kubelet.simulator.containers import (
    EXIT_CODE,
    IGNORE,
    INIT,
    LIVE,
    MISSING_CONFIG,
    OOM,
    PREFIX,
    PROBES,
    PULL,
    READY,
    READY_AFTER,
    RUN,
    START,
    WAIT,
    parse_exit_code,
)
from bayplan.kubelet.simulator.durations import draw

_EXAMPLE_OF_USAGE: Final = "such as 300m, 50% or 100Mi..300Mi"


def _seconds(text: str) -> None:
    draw(text, 0.5)


def _exit_code(text: str) -> None:
    try:
        parse_exit_code(text)
    except ValueError:
        raise ValueError(f"{text!r} is no exit code such as 1 or 1@20%") from None


def _usage(text: str) -> None:
    if not readable(text):
        raise ValueError(f"{text!r} is no usage {_EXAMPLE_OF_USAGE}")


def _truth(text: str) -> None:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")


def _probes(text: str) -> None:
    if text != "follow":
        raise ValueError(f"{text!r} is not follow")


def _missing_config(text: str) -> None:
    if text not in (WAIT, IGNORE):
        raise ValueError(f"{text!r} is neither {WAIT} nor {IGNORE}")


_CHECKS: Final[Mapping[str, Callable[[str], None]]] = {
    **dict.fromkeys((START, PULL, INIT, RUN, OOM, READY_AFTER), _seconds),
    EXIT_CODE: _exit_code,
    READY: _truth,
    LIVE: _truth,
    PROBES: _probes,
    MISSING_CONFIG: _missing_config,
    **dict.fromkeys(ANNOTATIONS.values(), _usage),
}
"""Annotation -> what raises ValueError if a value cannot be read."""


def mistakes(annotations: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each annotation of a pod that cannot be understood."""
    for annotation, text in annotations.items():
        if not annotation.startswith(PREFIX) or is_read_elsewhere(annotation):
            continue
        check = _CHECKS.get(PREFIX + annotation.removeprefix(PREFIX).partition(".")[0])
        if check is None:
            near = difflib.get_close_matches(annotation, _CHECKS, 1)
            yield f"annotation {annotation}: nothing reads it" + (f"; did you mean {near[0]}?" if near else "")
            continue
        try:
            check(text)
        except ValueError as error:
            yield f"annotation {annotation}: {error}; it counts as not there"
