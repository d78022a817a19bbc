"""Volumes in a live cluster."""
