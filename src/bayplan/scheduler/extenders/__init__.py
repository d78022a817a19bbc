"""Extenders: what is sent to them, how their answers are read, and where the scheduling cycle calls them."""
