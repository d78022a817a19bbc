"""Rules for file paths."""

from __future__ import annotations

from bayplan.api.errors import invalid
from bayplan.api.validation.fields import Errors


def check_no_backsteps(errors: Errors, path: str, value: str) -> None:
    """No part of the path is `..`."""
    if ".." in value and ".." in value.split("/"):
        errors.append(invalid(path, value, "must not contain '..'"))


def check_relative_path(errors: Errors, path: str, value: str) -> None:
    """A relative path that stays below where it begins."""
    if value.startswith("/"):
        errors.append(invalid(path, value, "must be a relative path"))
    check_no_backsteps(errors, path, value)


def check_local_file_path(errors: Errors, path: str, value: str) -> None:
    """As `check_relative_path`, and its first part does not begin with `..`."""
    if value.startswith("/"):
        errors.append(invalid(path, value, "must be a relative path"))
    before = len(errors)
    check_no_backsteps(errors, path, value)
    if len(errors) == before and value.startswith(".."):
        errors.append(invalid(path, value, "must not start with '..'"))
