"""Logs of containers on the node's disk: read, rotated, removed."""
