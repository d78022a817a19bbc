"""Errors of rehearsals."""

from __future__ import annotations


class RehearsalError(Exception):
    """A setting makes no sense: it names the entry and what may stand there."""
