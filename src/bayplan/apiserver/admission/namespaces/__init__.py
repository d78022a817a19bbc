"""Plugins about namespaces: that they are there, and that no more is in them than their quotas allow."""
