"""Requests that the kubelet's server cannot answer."""

from __future__ import annotations

from bayplan.kubelet.errors import KubeletError


class RequestError(KubeletError):
    """A refusal: HTTP status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
