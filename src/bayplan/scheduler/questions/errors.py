"""Errors of questions to a running scheduler."""

from __future__ import annotations


class QuestionError(Exception):
    """What is asked about makes no sense; the text names the object and the field."""


class NotReadyError(Exception):
    """The scheduler cannot answer now."""
