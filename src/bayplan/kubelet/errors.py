"""What can go wrong in a kubelet."""

from __future__ import annotations


class KubeletError(Exception):
    """Base of all."""


class SyncError(KubeletError):
    """A pod is not yet as it is to be; it is tried again.

    retry_after: seconds until then; None for the usual time.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class HookError(KubeletError):
    """A lifecycle hook failed; the text is for the status, not for events, since it may hold secrets."""


class ConfigurationError(KubeletError):
    """The kubelet's configuration is wrong; names the field."""
