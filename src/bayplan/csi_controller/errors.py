"""Why a controller cannot do what an object asks for."""

from __future__ import annotations


class CsiControllerError(Exception):
    """Base of all errors of this package; the text is for events and statuses."""


class RequestError(CsiControllerError):
    """The objects make no request that a driver could be given; nothing has been called."""


class MissingError(RequestError):
    """An object that is needed is not there (yet)."""


class NodeGoneError(MissingError):
    """The node that was selected for a claim is not there any more, or the driver is not on it."""


class ForeignSourceError(CsiControllerError):
    """The claim has a data source that somebody else fills volumes from."""


class StartError(CsiControllerError):
    """The controllers cannot run with this driver or these options."""
