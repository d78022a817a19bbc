"""Flags of Kubernetes' programs: their tables, how they are read, and the settings that they become."""
