"""Errors of the client. Answers of the server that are no success are `bayplan.api.errors.ApiError`."""

from __future__ import annotations

from bayplan.api.errors import ApiError

__all__ = ["ApiError", "ClientError", "KubeconfigError", "TransportError"]


class ClientError(Exception):
    """Base of the client's own errors."""


class TransportError(ClientError):
    """There was no answer: the server cannot be reached, or the connection broke."""


class KubeconfigError(ClientError):
    """The kubeconfig cannot be used; the message names file, entry and reason."""
