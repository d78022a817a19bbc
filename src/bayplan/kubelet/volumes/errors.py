"""What can go wrong with volumes. The texts are Kubernetes' own: they end up in events."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.kubelet.errors import KubeletError


class SetUpError(KubeletError):
    """One volume cannot be set up or torn down now; the text says why, without the volume's name. doing: what failed, if that is a step with a name of its own."""

    def __init__(self, message: str, *, doing: str = "") -> None:
        super().__init__(message)
        self.doing = doing


class VolumeError(KubeletError):
    """The volumes of a pod are not as they are to be.

    unmounted: names of the pod's volumes that are not there. interrupted: whether the time to wait was over, so that each failure has had an event of its own.
    """

    def __init__(self, message: str, *, unmounted: Sequence[str] = (), interrupted: bool = False) -> None:
        super().__init__(message)
        self.unmounted = tuple(unmounted)
        self.interrupted = interrupted


class AttachLimitError(VolumeError):
    """A pod waits for a volume that the node has no place for any more."""


class SubPathError(KubeletError):
    """A subPath cannot be used. The text is for users and says nothing of the node's file system; `detail` is for the log."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail
