"""What does not work with cgroups."""

from __future__ import annotations


class CgroupError(Exception):
    """A cgroup cannot be made, changed, read or removed; the message names its file and the reason."""
