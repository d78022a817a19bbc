"""Gangs in a live cluster that serves the alpha API."""
