"""Clusters from whatever people have of them: snapshots, manifests, dumps, archives, live clusters."""
