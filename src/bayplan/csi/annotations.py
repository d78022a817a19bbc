"""Annotations by which the controllers of a driver and kubelets talk."""

from __future__ import annotations

from typing import Final

NODE_EXPANSION_NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
"""On a claim whose volume grows without its nodes."""
