"""Manifests: read, applied as `kubectl apply` does, and what of them nothing here serves."""
