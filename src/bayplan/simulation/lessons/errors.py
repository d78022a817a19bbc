"""Errors of scenarios."""

from __future__ import annotations


class LessonError(Exception):
    """A scenario that cannot be read or played; the message names file, step and what is wrong."""
