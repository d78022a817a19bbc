"""Validation of devices: resource slices, classes, claims, and expressions about devices."""
