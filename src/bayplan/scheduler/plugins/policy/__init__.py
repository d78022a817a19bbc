"""Plugins that `Policy` files of Kubernetes 1.22 and before name, and that have no successor with the same answers."""
