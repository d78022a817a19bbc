"""Why a cluster cannot be started. Messages name the object and the next step; the command line shows them as they are."""

from __future__ import annotations


class ClusterError(Exception):
    """Base of all errors of starting or running a cluster."""


class AddressInUse(ClusterError):
    """Somebody else listens on the address."""


class DataDirectoryError(ClusterError):
    """The data directory cannot be used."""


class RealNodeError(ClusterError):
    """A real node cannot be started on this machine; the message says what to install or to change."""
