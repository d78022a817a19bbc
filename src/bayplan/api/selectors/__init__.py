"""Selectors: of objects by label or field, and of nodes. Compiled once and matched often."""
