"""Strategies of the kinds of the API group `coordination`."""
