"""Validation of pods and their templates: containers, volumes, security, scheduling; what an update may change, and warnings."""
