"""Bayplan: the Kubernetes control plane in Python, with scheduling at its heart.

Importing this package costs almost nothing: every part is imported when it is used.
"""

__version__ = "0.1.0"

KUBERNETES_VERSION = "1.36.2"
"""The Kubernetes release whose API and behaviour this version implements."""
