"""Formats of single values."""
