"""What goes wrong with dynamic resources; texts are the kubelet's, as events show them."""

from __future__ import annotations

from bayplan.kubelet.errors import KubeletError


class ClaimError(KubeletError):
    """A claim cannot be prepared, or not be given back. It is tried again."""
